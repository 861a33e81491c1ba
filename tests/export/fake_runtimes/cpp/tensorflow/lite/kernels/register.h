#pragma once
namespace tflite::ops::builtin {
class BuiltinOpResolver {};
}  // namespace tflite::ops::builtin
