// A stand-in for TensorFlow Lite, whose network takes 33 x 41 pixels and answers with their red channel / 50.
#pragma once
#include <memory>
#include <vector>

enum TfLiteStatus { kTfLiteOk = 0 };
struct TfLiteIntArray { int size; int data[4]; };
struct TfLiteTensor { TfLiteIntArray* dims; };

namespace tflite {

class Interpreter {
 public:
  TfLiteStatus SetNumThreads(int) { return kTfLiteOk; }
  TfLiteStatus AllocateTensors() {
    pixels_.resize(33 * 41 * 3);
    labels_.resize(33 * 41);
    return kTfLiteOk;
  }
  TfLiteTensor* input_tensor(int) { return &tensor_; }
  template <class T> T* typed_input_tensor(int) { return pixels_.data(); }
  template <class T> T* typed_output_tensor(int) { return labels_.data(); }
  TfLiteStatus Invoke() {
    for (size_t i = 0; i < labels_.size(); ++i) labels_[i] = pixels_[3 * i] / 50;
    return kTfLiteOk;
  }

 private:
  TfLiteIntArray dims_{4, {1, 33, 41, 3}};
  TfLiteTensor tensor_{&dims_};
  std::vector<unsigned char> pixels_;
  std::vector<int> labels_;
};

}  // namespace tflite
