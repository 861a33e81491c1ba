"""The HTML page of `deeplab rank`: the images to label first, each with a map of its uncertainty."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from PIL import Image, ImageOps

from deeplab.names import counted
from deeplab.pictures import drawing, html_page
from deeplab.pictures.html_page import image_tag, text

_FOLDER = pathlib.Path(__file__).parent / 'page'
_MOST = 200  # images on the page
_SIDE = 320  # longest side of a picture, in pixels
_NOTHING = 128


def render(
    rows: Sequence[Mapping[str, Any]],
    paths: Sequence[str],
    maps: Sequence[np.ndarray],
    choice: Mapping[str, Any],
    number: int,
) -> str:
    """Returns the page.

    Args:
      rows: the chosen images in their order: rank, image, score, classes, and each measure.
      paths: paths of their files.
      maps: [h, w] uint8, uncertainty of each of them, 255 for 1.
      choice: measure and class_balance of the scores.
      number: number of all images.
    """
    title = f'Images to label first: {len(rows)} of {counted(number, "image")}'
    about = (
        f'Score: mean {choice["measure"]}, in which a class has the weight (1 / share) ^ {choice["class_balance"]:g}. '
        'Chosen one after the other: the image that stands for most of the score of all images (of the target images, '
        'if they are given) that is not covered by similar ones, labeled or chosen already; near-duplicates are left '
        'out. '
        'Beside each image: entropy of its parts, from dark (certain) to bright.'
    )
    shown = list(zip(rows, paths, maps, strict=True))[:_MOST]
    more = f' The page shows the first {_MOST}.' if len(rows) > _MOST else ''
    return html_page.filled(
        (_FOLDER / 'ranking.html').read_text('utf-8'),
        {
            'head': html_page.head('rank', title, (_FOLDER / 'ranking.css').read_text('utf-8')),
            'title': text(title),
            'about': text(about + more),
            'images': ''.join(_figures(shown)),
        },
    )


def _figures(shown: Sequence[tuple[Mapping[str, Any], str, np.ndarray]]) -> Iterator[str]:
    for row, path, uncertainty in shown:
        photo = _photo(path)
        heat = drawing.heat(uncertainty / 255)
        size = (photo.shape[1], photo.shape[0])
        heat = np.asarray(Image.fromarray(heat).resize(size, Image.Resampling.BILINEAR))
        pictures = ''.join(
            image_tag(pixels, f'{what} {row["image"]}') for what, pixels in (('Image', photo), ('Uncertainty of', heat))
        )
        classes = f'; most uncertain: {", ".join(row["classes"])}' if row['classes'] else ''
        yield (
            f'<li><figure><div class="pair">{pictures}</div><figcaption><b>{row["rank"]}.</b> {text(row["image"])}<br>'
            f'score {row["score"]:.4f}{text(classes)}</figcaption></figure></li>\n'
        )


def _photo(path: str) -> np.ndarray:
    """Returns the image in a file, made smaller, [h, w, 3] uint8; gray where Pillow cannot read it."""
    try:
        with Image.open(path) as image:
            image.draft('RGB', (2 * _SIDE, 2 * _SIDE))
            photo = ImageOps.exif_transpose(image)  # upright, as the network sees it
            if photo.mode.startswith('I'):  # 16 bits
                photo = Image.fromarray((np.asarray(photo) // 257).astype(np.uint8))
            photo = photo.convert('RGB')
    except Exception:  # arrays, and files that only other readers know; damaged ones make Pillow raise anything
        return np.full((_SIDE * 3 // 4, _SIDE, 3), _NOTHING, np.uint8)
    photo.thumbnail((_SIDE, _SIDE))
    return np.asarray(photo)
