"""Data for benchmarks: CamVid where it is, else generated images of its size; their records."""

import pathlib

import numpy as np
from PIL import Image

CAMVID = pathlib.Path(__file__).resolve().parents[2] / 'shared/data/camvid'
SIZE = 360, 480  # height and width of the images of CamVid at its usual half size
CLASSES = 11
IGNORED = 255
IMAGES = {'train': 367, 'val': 101}  # of CamVid


def layout(camvid: pathlib.Path) -> dict[str, pathlib.Path]:
    """Returns the folders of a data set in the layout of PASCAL VOC, by flag of the builder."""
    return {
        'image_folder': camvid / 'JPEGImages',
        'semantic_segmentation_folder': camvid / 'SegmentationClass',
        'list_folder': camvid / 'ImageSets' / 'Segmentation',
    }


def is_there(camvid: pathlib.Path) -> bool:
    """Returns whether a folder has the data set."""
    return all(folder.is_dir() for folder in layout(camvid).values())


def generate(folder: pathlib.Path, splits: dict[str, int], size: tuple[int, int] = SIZE) -> pathlib.Path:
    """Writes images and masks in the layout of PASCAL VOC.

    Args:
      folder: where to.
      splits: number of images by split.
      size: height and width.

    Returns:
      the folder.
    """
    folders = layout(folder)
    for path in folders.values():
        path.mkdir(parents=True, exist_ok=True)
    for split, count in splits.items():
        names = [f'{split}_{number:04d}' for number in range(count)]
        for number, name in enumerate(names):
            image, mask = scene(number, size)
            image.save(folders['image_folder'] / f'{name}.jpg', quality=90)
            mask.save(folders['semantic_segmentation_folder'] / f'{name}.png')
        (folders['list_folder'] / f'{split}.txt').write_text('\n'.join(names) + '\n')
    return folder


def scene(seed: int, size: tuple[int, int]) -> tuple[Image.Image, Image.Image]:
    """Returns an image of colored areas with slight noise, which compresses as photographs do, and its mask."""
    rng = np.random.default_rng(seed)
    height, width = size
    areas = rng.integers(0, CLASSES + 1, (9, 12))
    areas[areas == CLASSES] = IGNORED
    rows, columns = np.arange(height) * 9 // height, np.arange(width) * 12 // width
    mask = areas[rows][:, columns].astype(np.uint8)  # [h, w]
    colors = rng.integers(0, 256, (256, 3))
    pixels = np.clip(colors[mask] + rng.normal(0, 12, (height, width, 1)), 0, 255).astype(np.uint8)
    return Image.fromarray(pixels), Image.fromarray(mask)


def build(data: pathlib.Path, records: pathlib.Path) -> pathlib.Path:
    """Writes the records of a data set in the layout of PASCAL VOC, in this process."""
    from deeplab.datasets import build_voc2012_data
    from deeplab.options import BuildVocOptions

    folders = {name: str(path) for name, path in layout(data).items()}
    build_voc2012_data.run(BuildVocOptions(image_format='jpg', output_dir=str(records), **folders))
    return records
