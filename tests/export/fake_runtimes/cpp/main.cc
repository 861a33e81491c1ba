// Prints the labels of a photo of four colors, whose height and width are the arguments.
#include <cstdio>
#include <cstdlib>
#include "example.h"

int main(int, char** arguments) {
  const int rows = std::atoi(arguments[1]), columns = std::atoi(arguments[2]);
  const int reds[] = {60, 210, 160, 110};
  std::vector<unsigned char> rgb(rows * columns * 3);
  for (int i = 0; i < rows * columns; ++i)
    rgb[3 * i] = reds[2 * (i / columns >= rows / 2) + (i % columns >= columns / 2)];
  const std::vector<int> labels = Segment("model.tflite", rgb, rows, columns);
  for (int i = 0; i < rows * columns; ++i) std::printf("%d%c", labels.at(i), (i + 1) % columns ? ' ' : '\n');
}
