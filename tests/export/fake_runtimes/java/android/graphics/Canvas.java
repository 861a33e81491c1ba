package android.graphics;

public class Canvas {
  private final Bitmap target;

  public Canvas(Bitmap target) {
    this.target = target;
  }

  public void drawBitmap(Bitmap bitmap, float left, float top, Object paint) {
    for (int y = 0; y < bitmap.getHeight(); y++) {
      int to = (y + (int) top) * target.getWidth() + (int) left;
      System.arraycopy(bitmap.pixels, y * bitmap.getWidth(), target.pixels, to, bitmap.getWidth());
    }
  }
}
