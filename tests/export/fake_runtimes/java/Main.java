import android.graphics.Bitmap;
import android.graphics.Color;
import java.io.File;

/** Prints the labels of a photo of four colors, whose height and width are the arguments. */
public class Main {
  public static void main(String[] arguments) {
    int rows = Integer.parseInt(arguments[0]);
    int columns = Integer.parseInt(arguments[1]);
    int[] reds = {60, 210, 160, 110};
    Bitmap photo = Bitmap.createBitmap(columns, rows, Bitmap.Config.ARGB_8888);
    for (int i = 0; i < rows * columns; i++) {
      int part = (i / columns >= rows / 2 ? 2 : 0) + (i % columns >= columns / 2 ? 1 : 0);
      photo.pixels[i] = Color.rgb(reds[part], 0, 0);
    }
    for (int[] line : Example.segment(new File("model.tflite"), photo)) {
      StringBuilder text = new StringBuilder();
      for (int label : line) {
        text.append(label).append(' ');
      }
      System.out.println(text.toString().trim());
    }
  }
}
