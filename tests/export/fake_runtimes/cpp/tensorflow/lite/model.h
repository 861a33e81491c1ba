#pragma once
#include <memory>
#include "tensorflow/lite/interpreter.h"
#include "tensorflow/lite/kernels/register.h"

namespace tflite {

struct FlatBufferModel {
  static std::unique_ptr<FlatBufferModel> BuildFromFile(const char*) { return std::make_unique<FlatBufferModel>(); }
};

struct InterpreterBuilder {
  InterpreterBuilder(const FlatBufferModel&, const ops::builtin::BuiltinOpResolver&) {}
  void operator()(std::unique_ptr<Interpreter>* interpreter) { *interpreter = std::make_unique<Interpreter>(); }
};

}  // namespace tflite
