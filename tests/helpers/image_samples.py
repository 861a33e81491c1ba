"""Image files of many kinds, good and bad ones, for the tests of prediction."""

import io
import struct
import zlib

import numpy as np
from PIL import Image, PngImagePlugin

from tests.helpers.predictor_setup import pixels

HEIGHT, WIDTH = 20, 30


def encoded(image, kind, **more):
    """The file of an image of Pillow."""
    content = io.BytesIO()
    image.save(content, kind, **more)
    return content.getvalue()


def picture(seed=0):
    """A picture of Pillow."""
    return Image.fromarray(pixels(HEIGHT, WIDTH, seed))


def turned(kind, orientation):
    """A file that viewers turn."""
    exif = Image.Exif()
    exif[0x0112] = orientation
    return encoded(picture(), kind, exif=exif)


def two_frames(kind='MPO'):
    """A file of two pictures; phones and stereo cameras write two JPEGs."""
    return encoded(picture(), kind, save_all=True, append_images=[picture(1)])


def deep():
    """A PNG of three channels with 16 bits, of which Pillow keeps eight."""
    values = np.dstack([sixteen_bits()] * 3).astype('>u2')
    rows = b''.join(b'\0' + row.tobytes() for row in values)
    return png(struct.pack('>IIBBBBB', WIDTH, HEIGHT, 16, 2, 0, 0, 0), rows)


def png(header, rows):
    """A PNG of its header and its filtered rows."""
    content = b'\x89PNG\r\n\x1a\n'
    for name, data in ((b'IHDR', header), (b'IDAT', zlib.compress(rows)), (b'IEND', b'')):
        content += struct.pack('>I', len(data)) + name + data + struct.pack('>I', zlib.crc32(name + data))
    return content


def bomb():
    """A PNG of 60,000 x 50,000 pixels in less than a kilobyte."""
    return png(struct.pack('>IIBBBBB', 60000, 50000, 8, 2, 0, 0, 0), b'\0' * 1000)


def bomb_of_bmp():
    """The headers of a BMP of 60,000 x 50,000 pixels."""
    return b'BM' + struct.pack('<IHHIIiiHHIIiiII', 1_000_000, 0, 0, 54, 40, 60000, 50000, 1, 24, 0, 0, 0, 0, 0, 0)


def sixteen_bits():
    """[h, w] uint16."""
    return (pixels(HEIGHT, WIDTH)[..., 0].astype(np.uint16) << 8) + 77


def good():
    """Content and expected size by file name."""
    image = picture()
    palette = image.convert('P', palette=Image.Palette.ADAPTIVE)
    alpha = Image.merge('RGBA', (*image.split(), Image.new('L', image.size, 9)))
    own = (HEIGHT, WIDTH)
    files = {
        'cmyk.jpg': encoded(image.convert('CMYK'), 'JPEG'),
        'gray.jpg': encoded(image.convert('L'), 'JPEG'),
        'gray.png': encoded(image.convert('L'), 'PNG'),
        'black_and_white.png': encoded(image.convert('1'), 'PNG'),
        'gray_alpha.png': encoded(alpha.convert('LA'), 'PNG'),
        'sixteen.png': encoded(Image.fromarray(sixteen_bits()), 'PNG'),
        'sixteen.tif': encoded(Image.fromarray(sixteen_bits()), 'TIFF'),
        'palette.png': encoded(palette, 'PNG', transparency=3),
        'palette.gif': encoded(palette, 'GIF', transparency=3),
        'animated.gif': encoded(picture(1), 'GIF', save_all=True, append_images=[picture(2)]),
        'alpha.png': encoded(alpha, 'PNG'),
        'alpha.webp': encoded(alpha, 'WEBP', lossless=True),
        'plain.bmp': encoded(image, 'BMP'),
        'plain.ppm': encoded(image, 'PPM'),
        'plain.tga': encoded(image, 'TGA'),
        'packed.tif': encoded(image, 'TIFF', compression='tiff_lzw'),
        'jpeg.jp2': encoded(image, 'JPEG2000'),
        'wrong_extension.png': encoded(image, 'JPEG'),
        'progressive.jpg': encoded(image, 'JPEG', progressive=True),
        'array.npy': array_file(pixels(HEIGHT, WIDTH)),
    }  # fmt: skip
    found = {name: (content, own) for name, content in files.items()}
    for kind, suffix in (('JPEG', 'jpg'), ('PNG', 'png'), ('TIFF', 'tif')):
        found[f'turned.{suffix}'] = (turned(kind, 6), (WIDTH, HEIGHT))
    found['one_pixel.png'] = (encoded(Image.new('RGB', (1, 1), 'red'), 'PNG'), (1, 1))
    found['long.png'] = (encoded(Image.new('RGB', (10000, 10), 'blue'), 'PNG'), (10, 10000))
    return found


def bad():
    """Content and a word of the reason by file name."""
    jpeg, png, tiff = (encoded(picture(), kind) for kind in ('JPEG', 'PNG', 'TIFF'))
    metadata = PngImagePlugin.PngInfo()
    metadata.add_text('note', 'x' * 100)
    return {
        'truncated.jpg': (jpeg[: len(jpeg) // 2], 'decoded'),
        'truncated.png': (png[: len(png) // 2], 'decoded'),
        'truncated.tif': (tiff[: len(tiff) // 2], 'decoded'),
        'text.jpg': (b'This is not an image.\n', 'known format'),
        'empty.png': (b'', 'empty'),
        'header.jpg': (b'\xff\xd8\xff', 'header'),
        'bomb.png': (bomb(), '3000000000'),
        'bomb.bmp': (bomb_of_bmp(), 'too large'),
        'drawing.eps': (b'%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n', 'known format'),
        'pickled.npy': (array_file(np.array([{}], object), True), 'header|array'),
        'negative.npy': (array_file(pixels(HEIGHT, WIDTH)).replace(b'(20', b'(-2'), 'header'),
        'unclosed.npy': (array_file(pixels(HEIGHT, WIDTH)).replace(b"{'", b'(((('), 'header'),
        'float.tif': (encoded(Image.fromarray(np.zeros((4, 4), np.float32)), 'TIFF'), 'floating-point'),
    }


def array_file(values, allow_pickle=False):
    """A file in NumPy's format."""
    content = io.BytesIO()
    np.save(content, values, allow_pickle=allow_pickle)
    return content.getvalue()
