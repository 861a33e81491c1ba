"""Drawn shapes with textures: images of one shape for classification, scenes of several with masks for segmentation."""

import pathlib

import numpy as np
from PIL import Image, ImageDraw

SHAPES = {
    'disk': [(np.cos(t), np.sin(t)) for t in np.linspace(0, 2 * np.pi, 40, endpoint=False)],
    'square': [(-0.8, -0.8), (0.8, -0.8), (0.8, 0.8), (-0.8, 0.8)],
    'triangle': [(0, -1), (0.87, 0.5), (-0.87, 0.5)],
    'cross': [
        (-0.3, -1), (0.3, -1), (0.3, -0.3), (1, -0.3), (1, 0.3), (0.3, 0.3),
        (0.3, 1), (-0.3, 1), (-0.3, 0.3), (-1, 0.3), (-1, -0.3), (-0.3, -0.3),
    ],
    'star': [
        (radius * np.sin(i * np.pi / 5), -radius * np.cos(i * np.pi / 5)) for i, radius in enumerate([1, 0.4] * 5)
    ],
}  # fmt: skip
TEXTURES = ('plain', 'stripes', 'dots', 'checks')
CLASSES = tuple(f'{texture}_{shape}' for shape in SHAPES for texture in TEXTURES)  # 20
PERIOD = 8  # pixels of a texture


def _background(side: int, random: np.random.Generator) -> np.ndarray:
    """[side, side, 3] float: patches of pale colors with noise."""
    patches = random.uniform(90, 165, (4, 4, 3))
    rows = np.arange(side) * 4 // side
    return patches[rows][:, rows] + random.normal(0, 12, (side, side, 3))


def _texture(name: str, side: int, random: np.random.Generator) -> np.ndarray:
    """[side, side] bool: where the second color is."""
    angle = random.uniform(0, np.pi)
    rows, columns = np.indices((side, side))
    across = rows * np.cos(angle) + columns * np.sin(angle) + random.uniform(0, PERIOD)
    along = columns * np.cos(angle) - rows * np.sin(angle) + random.uniform(0, PERIOD)
    first, second = (np.mod(place, PERIOD) / PERIOD for place in (across, along))
    return {
        'plain': np.zeros((side, side), bool),
        'stripes': first < 0.5,
        'dots': (first - 0.5) ** 2 + (second - 0.5) ** 2 < 0.09,
        'checks': (first < 0.5) ^ (second < 0.5),
    }[name]


def _draw(pixels: np.ndarray, number: int, radius: float, random: np.random.Generator) -> np.ndarray:
    """Draws a shape of a class onto the pixels; returns where it is, [side, side] bool."""
    side = len(pixels)
    texture, shape = CLASSES[number].split('_')
    angle = random.uniform(0, 2 * np.pi)
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    center = random.uniform(radius * 0.8, side - radius * 0.8, 2)
    corners = np.array(SHAPES[shape]) @ turn * radius + center
    mask = Image.new('1', (side, side))
    ImageDraw.Draw(mask).polygon([tuple(corner) for corner in corners], fill=1)
    inside = np.asarray(mask)
    first, second = random.uniform(0, 255, (2, 3))
    while np.abs(first - second).max() < 90:
        second = random.uniform(0, 255, 3)
    colors = np.where(_texture(texture, side, random)[..., None], second, first)
    pixels[inside] = (colors + random.normal(0, 8, colors.shape))[inside]
    return inside


def write_classes(folder: pathlib.Path, images: int, seed: int, side: int = 64) -> None:
    """Writes FOLDER/CLASS/NUMBER.png, as many images of each class."""
    random = np.random.default_rng(seed)
    for number, name in enumerate(CLASSES):
        (folder / name).mkdir(parents=True, exist_ok=True)
        for i in range(images):
            pixels = _background(side, random)
            _draw(pixels, number, random.uniform(0.28, 0.45) * side, random)
            Image.fromarray(pixels.clip(0, 255).astype(np.uint8)).save(folder / name / f'{i:04d}.png')


def write_scenes(folder: pathlib.Path, split: str, images: int, seed: int, side: int = 129) -> None:
    """Writes FOLDER/images/SPLIT/NUMBER.png and FOLDER/masks/SPLIT/NUMBER.png; id 0 is the background."""
    random = np.random.default_rng(seed)
    for kind in ('images', 'masks'):
        (folder / kind / split).mkdir(parents=True, exist_ok=True)
    for i in range(images):
        pixels, mask = _background(side, random), np.zeros((side, side), np.uint8)
        for number in random.integers(0, len(CLASSES), 4):
            mask[_draw(pixels, int(number), random.uniform(0.15, 0.25) * side, random)] = number + 1
        Image.fromarray(pixels.clip(0, 255).astype(np.uint8)).save(folder / 'images' / split / f'{i:04d}.png')
        Image.fromarray(mask).save(folder / 'masks' / split / f'{i:04d}.png')
