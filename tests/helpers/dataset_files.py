"""Tiny images, masks, records and folders for tests."""

import io
import pathlib
import struct
import zlib

import numpy as np
from PIL import Image

from deeplab.datasets import descriptor, example, segmentation_dataset, tfrecord

CAMVID = pathlib.Path(__file__).parents[3] / 'shared/data/camvid'
PALETTE = [value for color in range(256) for value in (color, 255 - color, 7 * color % 256)]


def pixels(height: int = 6, width: int = 8, seed: int = 0) -> np.ndarray:
    """[h, w, 3] uint8, random."""
    return np.random.RandomState(seed).randint(0, 256, (height, width, 3), np.uint8)


def ids(height: int = 6, width: int = 8, classes: int = 3, seed: int = 0) -> np.ndarray:
    """[h, w] uint8, random ids."""
    return np.random.RandomState(seed).randint(0, classes, (height, width), np.uint8)


def encoded(image: Image.Image, image_format: str) -> bytes:
    stream = io.BytesIO()
    image.save(stream, image_format)
    return stream.getvalue()


def png(array: np.ndarray) -> bytes:
    return encoded(Image.fromarray(array), 'PNG')


def jpeg(array: np.ndarray) -> bytes:
    return encoded(Image.fromarray(array), 'JPEG')


def palette_png(array: np.ndarray) -> bytes:
    image = Image.fromarray(array)
    image.putpalette(PALETTE)
    return encoded(image, 'PNG')


def few_bit_png(array: np.ndarray, bits: int, colors: bool = False) -> bytes:
    """Samples of 1, 2 or 4 bits, gray or with a palette; values below 2**bits."""
    weights = 2 ** np.arange(bits - 1, -1, -1)
    planes = (array[..., np.newaxis] // weights % 2).reshape(len(array), -1)  # [h, w * bits]
    rows = b''.join(b'\0' + row.tobytes() for row in np.packbits(planes.astype(np.uint8), axis=1))
    palette = bytes(PALETTE[: 3 * 2**bits]) if colors else None
    return _png_of(struct.pack('>IIBBBBB', *array.shape[::-1], bits, 3 if colors else 0, 0, 0, 0), rows, palette)


def broken_png(height: int, width: int) -> bytes:
    """A PNG with valid header and end, and one corrupt byte in its pixels."""
    content = bytearray(png(pixels(height, width)))
    content[len(content) // 2] ^= 0xFF
    return bytes(content)


def four_bit_png(array: np.ndarray) -> bytes:
    """Gray with 4 bits a pixel; values below 16."""
    return few_bit_png(array, 4)


def exif(orientation: int, order: str = '<', kind: int = 3) -> bytes:
    """EXIF data, in TIFF's format, that holds an orientation behind another entry."""
    mark = b'II*\0' if order == '<' else b'MM\0*'
    value = struct.pack(f'{order}HH', orientation, 0) if kind == 3 else struct.pack(f'{order}I', orientation)
    entries = struct.pack(f'{order}HHHII', 2, 0x0100, 4, 1, 77) + struct.pack(f'{order}HHI', 0x0112, kind, 1) + value
    return mark + struct.pack(f'{order}I', 8) + entries + bytes(4)


def with_exif(content: bytes, data: bytes) -> bytes:
    """A JPEG or PNG with EXIF data."""
    if content.startswith(b'\xff\xd8'):
        return content[:2] + b'\xff\xe1' + struct.pack('>H', len(data) + 8) + b'Exif\0\0' + data + content[2:]
    return content[:33] + _chunk(b'eXIf', data) + content[33:]  # behind the first chunk


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack('>I', len(data)) + kind + data + struct.pack('>I', zlib.crc32(kind + data))


def _png_of(header: bytes, rows: bytes, palette: bytes | None = None) -> bytes:
    parts = [(b'IHDR', header), *([(b'PLTE', palette)] if palette else [])]
    parts += [(b'IDAT', zlib.compress(rows)), (b'IEND', b'')]
    return b'\x89PNG\r\n\x1a\n' + b''.join(_chunk(kind, data) for kind, data in parts)


def deep_png(array: np.ndarray) -> bytes:
    """[h, w, 1 to 4] uint16 with 16 bits a channel, which Pillow cannot write: gray, gray and alpha, RGB or RGBA."""
    height, width, channels = array.shape
    color_type = {1: 0, 2: 4, 3: 2, 4: 6}[channels]
    rows = b''.join(b'\0' + row.astype('>u2').tobytes() for row in array)
    return _png_of(struct.pack('>IIBBBBB', width, height, 16, color_type, 0, 0, 0), rows)


def npy(array: np.ndarray) -> bytes:
    stream = io.BytesIO()
    np.save(stream, array)
    return stream.getvalue()


def record(
    seed: int = 0, height: int = 6, width: int = 8, image: bytes | None = None, label: bytes | None = b''
) -> bytes:
    """A serialized record; `label` None is for no mask, b'' for a good one."""
    image = png(pixels(height, width, seed)) if image is None else image
    label = png(ids(height, width, seed=seed)) if label == b'' else label
    return example.encode(image, 'png', f'image_{seed}', height, width, 3, label)


def write_shard(path: pathlib.Path, records: list[bytes]) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b''.join(tfrecord.framed(content) for content in records))
    return str(path)


def write_split(folder: pathlib.Path, split: str, shards: list[list[bytes]]) -> list[str]:
    return [
        write_shard(folder / f'{split}-{number:05d}-of-{len(shards):05d}.tfrecord', records)
        for number, records in enumerate(shards)
    ]


def write_voc(root: pathlib.Path, lists: dict[str, list[str]], image_format: str = 'jpg') -> dict[str, str]:
    """A folder in VOC's layout; the builder's arguments for it."""
    folders = {
        'image_folder': root / 'JPEGImages',
        'semantic_segmentation_folder': root / 'SegmentationClassRaw',
        'list_folder': root / 'lists',
    }
    for folder in folders.values():
        folder.mkdir(parents=True, exist_ok=True)
    names = list(dict.fromkeys(name for listed in lists.values() for name in listed))
    for seed, name in enumerate(names):
        encode = png if image_format == 'png' else jpeg
        (folders['image_folder'] / f'{name}.{image_format}').write_bytes(encode(pixels(seed=seed)))
        (folders['semantic_segmentation_folder'] / f'{name}.png').write_bytes(png(ids(seed=seed)))
    for split, listed in lists.items():
        (folders['list_folder'] / f'{split}.txt').write_text('\n'.join(listed) + '\n')
    return {
        **{key: str(folder) for key, folder in folders.items()},
        'image_format': image_format,
        'output_dir': str(root / 'records'),
    }


def openings(monkeypatch) -> list[str]:
    """The loads of descriptions, and the splits that are found and opened, in order, from now on."""
    noted: list[str] = []

    def note(owner, name, text):
        real = getattr(owner, name)
        monkeypatch.setattr(owner, name, lambda *arguments: noted.append(text(*arguments)) or real(*arguments))

    note(descriptor, 'load', lambda name: f'load {name}')
    note(segmentation_dataset, 'find_shards', lambda split, *more: f'find {split}')
    note(segmentation_dataset.SegmentationDataset, 'open_records', lambda dataset: f'open {dataset.split}')
    return noted
