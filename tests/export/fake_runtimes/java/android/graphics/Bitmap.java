package android.graphics;

import java.util.Arrays;

/** A stand-in for Android's class, which reduces by nearest neighbor. */
public class Bitmap {
  public enum Config { ARGB_8888 }

  public final int[] pixels;
  private final int width;
  private final int height;

  private Bitmap(int width, int height) {
    this.width = width;
    this.height = height;
    pixels = new int[width * height];
  }

  public static Bitmap createBitmap(int width, int height, Config config) {
    return new Bitmap(width, height);
  }

  public static Bitmap createScaledBitmap(Bitmap from, int width, int height, boolean filter) {
    Bitmap scaled = new Bitmap(width, height);
    for (int i = 0; i < width * height; i++) {
      scaled.pixels[i] = from.pixels[i / width * from.height / height * from.width + i % width * from.width / width];
    }
    return scaled;
  }

  public int getWidth() {
    return width;
  }

  public int getHeight() {
    return height;
  }

  public void eraseColor(int color) {
    Arrays.fill(pixels, color);
  }

  public void getPixels(int[] to, int offset, int stride, int x, int y, int width, int height) {
    System.arraycopy(pixels, 0, to, 0, pixels.length);
  }
}
