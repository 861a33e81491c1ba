package org.tensorflow.lite;

import java.io.File;
import java.nio.ByteBuffer;

/** A stand-in for TensorFlow Lite, whose network takes 33 x 41 pixels and answers with their red channel / 50. */
public class Interpreter implements AutoCloseable {
  public static class Options {
    public Options setNumThreads(int threads) {
      return this;
    }
  }

  public static class Tensor {
    public int[] shape() {
      return new int[] {1, 33, 41, 3};
    }
  }

  public Interpreter(File model, Options options) {}

  public Tensor getInputTensor(int index) {
    return new Tensor();
  }

  public void run(Object input, Object output) {
    ByteBuffer image = (ByteBuffer) input;
    int[][] labels = ((int[][][]) output)[0];
    for (int i = 0; i < 33 * 41; i++) {
      labels[i / 41][i % 41] = (image.get(3 * i) & 255) / 50;
    }
  }

  @Override
  public void close() {}
}
