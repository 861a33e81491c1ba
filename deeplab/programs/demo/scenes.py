"""Synthetic street scenes: images and masks of a data set that needs no download.

A pinhole camera stands in a street. The street has a sky, houses with windows or a park, a road with lane marks,
pavements, trees, parked and driving cars, people and lamp posts, drawn from far to near. Color alone does not identify
a class: classes share wide ranges of colors (gray sky, gray walls, gray cars, gray roads; brick, autumn leaves and
coats), and each image has its own light, tint, shadows and noise. Texture, shape and position do.

A scene depends only on (seed, split, index, crowded), not on the number of scenes. Crowded scenes are for panoptic
segmentation: cars side by side and groups of people, of which many touch another one.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from PIL import Image, ImageDraw, ImageFilter

from deeplab.programs.demo.canvas import Camera, Canvas, Color

CLASS_NAMES = ('sky', 'building', 'road', 'pavement', 'vegetation', 'car', 'person', 'pole')
PALETTE = (
    (70, 130, 180),
    (70, 70, 70),
    (128, 64, 128),
    (244, 35, 232),
    (107, 142, 35),
    (0, 0, 142),
    (220, 20, 60),
    (250, 170, 30),
)
SKY, BUILDING, ROAD, PAVEMENT, VEGETATION, CAR, PERSON, POLE = range(len(CLASS_NAMES))

THINGS = (CAR, PERSON)  # classes whose objects are instances

# Each split has its own random numbers, so that more training images never change a validation image.
SPLIT_KEYS = {'train': 1, 'val': 2}
_CROWDED_KEY = 1

_MASONRY = (
    (150, 90, 70),
    (185, 165, 135),
    (140, 140, 145),
    (205, 200, 190),
    (120, 105, 95),
    (150, 165, 175),
    (95, 100, 75),
)
_FOLIAGE = ((62, 98, 42), (96, 122, 58), (150, 135, 60), (160, 98, 52), (60, 84, 66), (176, 120, 128))
_SKIES = (
    ((95, 145, 205), (190, 210, 225)),
    ((150, 155, 162), (205, 205, 205)),
    ((110, 118, 130), (150, 152, 158)),
    ((120, 120, 160), (225, 175, 130)),
    ((175, 190, 205), (225, 225, 220)),
)
_PAINTS = ((150, 40, 40), (50, 75, 130), (200, 200, 198), (60, 62, 66), (140, 140, 142), (90, 105, 70), (180, 150, 90))
_CLOTHES = ((52, 68, 120), (176, 52, 48), (200, 170, 60), (225, 222, 215), (60, 125, 85), (40, 40, 46), (205, 110, 150))
_SKINS = ((225, 185, 155), (190, 140, 105), (120, 85, 65))
_POLES = ((58, 58, 62), (44, 50, 48), (120, 92, 66), (206, 206, 200))

Numbers = float | np.ndarray
_Object = tuple[float, Callable[..., None], tuple[float, ...]]  # distance, painter, position


class Scene(NamedTuple):
    """An image and what it shows.

    Attributes:
      image: [h, w, 3] uint8.
      mask: [h, w] uint8 class ids; 255 on the thin borders around objects.
      instances: [h, w] uint16, 1 and more for the objects of the classes `THINGS`, from far to near; 0 elsewhere.
    """

    image: np.ndarray
    mask: np.ndarray
    instances: np.ndarray


@dataclasses.dataclass(frozen=True)
class _Street:
    """Parameters of one scene: its random numbers, camera, and half widths in metres."""

    rng: np.random.Generator
    camera: Camera
    canvas: Canvas
    road: float
    walls: float

    def jitter(self, color: tuple[int, ...], amount: float) -> np.ndarray:
        """`color` moved by one normal step for its brightness and three smaller ones for its hue."""
        return np.array(color, np.float64) + self.rng.normal(0, amount) + self.rng.normal(0, amount / 3, 3)

    def pick(self, colors: tuple[tuple[int, ...], ...], amount: float = 12.0) -> np.ndarray:
        """One of `colors`, varied."""
        return self.jitter(colors[self.rng.integers(len(colors))], amount)

    def polygon(self, corners: np.ndarray, color: Color) -> None:
        """Paints a polygon of the current thing; `corners` is [n, 3], in metres."""
        self.canvas.polygon(self.camera.project(corners), color)

    def detail(self, corners: np.ndarray, color: Color) -> None:
        """Paints a polygon in the image alone; `corners` is [n, 3], in metres."""
        self.canvas.detail(self.camera.project(corners), color)

    def flank(self, left: float, right: float) -> float | None:
        """The side of a box, `left` or `right`, that the camera sees; None if it sees only the front."""
        if left > self.camera.shift:
            return left
        return right if right < self.camera.shift else None

    def noise(self, cells: int) -> np.ndarray:
        """[height, width] float32 noise, about -1 to 1, with about `cells` bumps along the width."""
        height, width = self.canvas.height, self.canvas.width
        coarse = self.rng.normal(0, 0.5, (max(2, cells * height // width), cells)).astype(np.float32)
        return np.asarray(Image.fromarray(coarse).resize((width, height), Image.Resampling.BICUBIC))


def draw_scene(seed: int, split: str, index: int, height: int = 128, width: int = 176, crowded: bool = False) -> Scene:
    """Draws one scene.

    Args:
      seed: seed of the data set, 0 or more.
      split: 'train' or 'val'.
      index: number of the scene within its split, 0 or more.
      height: rows of the image.
      width: columns of the image.
      crowded: whether cars and people are so close that many touch, in image and mask, another one of their class.

    Returns:
      The scene; the same arguments give the same scene.
    """
    rng = np.random.default_rng([seed, SPLIT_KEYS[split], index, *([_CROWDED_KEY] if crowded else [])])
    road = rng.uniform(3.2, 4.8)
    camera = Camera(
        focal=width * rng.uniform(0.75, 1.0),
        center_x=width * rng.uniform(0.35, 0.65),
        horizon=height * rng.uniform(0.40, 0.52),
        height=rng.uniform(1.5, 2.6),
        shift=rng.uniform(-1.5, 1.5),
    )
    street = _Street(rng, camera, Canvas(height, width), road, road + rng.uniform(2.0, 4.0))
    _paint_sky(street)
    _paint_ground(street)
    _paint_backdrop(street)
    for side in (-1, 1):
        _paint_side(street, side)
    furniture = _crowd(street) if crowded else _furniture(street)
    for _, paint, place in sorted(furniture, key=lambda item: -item[0]):
        paint(street, *place)
    image, mask, layers = street.canvas.finish(border_within_class=not crowded)
    return Scene(_lit(_textured(image, mask, street), street), mask, _numbered(np.isin(mask, THINGS), layers))


def _numbered(is_thing: np.ndarray, layers: np.ndarray) -> np.ndarray:
    """Numbers the layers that are objects of a thing class: [h, w] uint16 instance ids from 1, without gaps."""
    objects = np.unique(layers[is_thing])
    return np.where(is_thing, np.searchsorted(objects, layers) + 1, 0).astype(np.uint16)


def _paint_sky(street: _Street) -> None:
    canvas, rng = street.canvas, street.rng
    top, bottom = (street.jitter(color, 10) for color in _SKIES[rng.integers(len(_SKIES))])
    depth = np.clip(np.arange(canvas.height) / street.camera.horizon, 0, 1)[:, None, None]
    pixels = np.broadcast_to(top * (1 - depth) + bottom * depth, (canvas.height, canvas.width, 3))
    clouds = street.noise(7) + 0.5 * street.noise(15)
    cover = np.clip(clouds + rng.uniform(-0.7, 0.5), 0, 1)[:, :, None] * 0.8
    canvas.begin(SKY)
    canvas.paste(pixels * (1 - cover) + street.jitter((225, 225, 228), 15) * cover)


def _paint_ground(street: _Street) -> None:
    """Pavements (or a park's grass behind them) from wall to wall, then the road with kerb and lane marks."""
    near, far = 1.2, 400.0
    stone = street.pick(((168, 160, 148), (150, 146, 140), (178, 160, 132)), 14)
    street.canvas.begin(PAVEMENT)
    street.polygon(_ground(-60, 60, near, far), stone)
    _paint_slabs(street, stone)
    asphalt = street.pick(((92, 92, 96), (125, 122, 118), (105, 98, 90), (140, 140, 142)), 12)
    kerb = street.road + 0.25
    for x in (-kerb, kerb):
        street.detail(_ground(x - np.sign(x) * 0.25, x, near, far), stone * 1.18)
    street.canvas.begin(ROAD)
    street.polygon(_ground(-street.road, street.road, near, far), asphalt)
    _paint_lane_marks(street, asphalt)


def _paint_slabs(street: _Street, stone: np.ndarray) -> None:
    """Joints between the pavement's slabs, and some slabs of another shade."""
    rng = street.rng
    size = rng.uniform(0.8, 1.3)
    near, across = np.meshgrid(np.arange(1.5, 22, size), np.arange(street.road + 0.25, street.walls, size))
    for side in (-1, 1):
        chosen = rng.random(near.shape) < 0.5
        z, x = near[chosen], side * across[chosen]
        slabs = np.moveaxis(_ground(x, x + size * side, z, z + size), -1, 0)  # [n, 4, 3]
        for slab, shade in zip(street.camera.project(slabs), rng.normal(0, 9, len(slabs)), strict=True):
            street.canvas.detail(slab, stone + shade)
        for z in near[0]:
            street.detail(_ground(side * street.road, side * street.walls, z, z + 0.07), stone * 0.82)


def _paint_lane_marks(street: _Street, asphalt: np.ndarray) -> None:
    """Dashes in the middle, sometimes lines at the edges, sometimes a zebra crossing, and darker patches."""
    rng = street.rng
    white = asphalt * 0.35 + street.jitter((215, 212, 200), 10) * 0.65
    for _ in range(rng.integers(0, 4)):
        x, z = rng.uniform(-street.road, street.road - 1.5), rng.uniform(3, 20)
        street.detail(_ground(x, x + 1.5, z, z + 3), asphalt * rng.uniform(0.85, 1.1))
    if rng.random() < 0.75:
        for z in np.arange(rng.uniform(1.3, 4), 60, 5.0):
            street.detail(_ground(-0.09, 0.09, z, z + 2.4), white)
    if rng.random() < 0.4:
        for x in (-street.road + 0.4, street.road - 0.4):
            street.detail(_ground(x - 0.07, x + 0.07, 1.2, 90), white)
    if rng.random() < 0.3:
        z = rng.uniform(6, 14)
        for x in np.arange(-street.road + 0.4, street.road - 0.6, 1.0):
            street.detail(_ground(x, x + 0.5, z, z + 2.5), white)


def _paint_backdrop(street: _Street) -> None:
    """Draws the far end of the street: a row of roofs, a line of trees, or nothing."""
    kind = street.rng.integers(3)
    if kind == 0:
        for x in np.arange(-40, 40, 9.0):
            _paint_house(street, x, x + 9.0, 90.0, 99.0, street.rng.uniform(5, 16))
    elif kind == 1:
        street.canvas.begin(VEGETATION, has_border=True)
        leaves = street.pick(_FOLIAGE)
        for x in np.arange(-40, 40, 5.0):
            _paint_crown(street, x, street.rng.uniform(2, 5), 90.0, street.rng.uniform(3, 5), leaves, 8)


def _paint_side(street: _Street, side: int) -> None:
    """One side of the street, from far to near: houses with gaps, or a park."""
    rng = street.rng
    if rng.random() < 0.2:
        _paint_park(street, side)
        return
    edges = 4.0 + np.cumsum(rng.uniform(5, 12, 12))
    for near, far in reversed(list(zip(edges[:-1], edges[1:], strict=True))):
        if rng.random() < 0.12:
            continue
        wall = street.walls + (rng.uniform(0.3, 2.0) if rng.random() < 0.35 else 0.0)
        left, right = sorted((side * wall, side * (wall + 14)))
        height = rng.uniform(3.2, 11) if rng.random() < 0.7 else rng.uniform(11, 20)
        _paint_house(street, left, right, near, far, height)


def _paint_park(street: _Street, side: int) -> None:
    rng = street.rng
    leaves = street.pick(_FOLIAGE)
    street.canvas.begin(VEGETATION)
    street.polygon(_ground(side * street.walls, side * 300, 1.2, 400), leaves * 1.05)
    street.canvas.begin(VEGETATION, has_border=True)
    for z in np.arange(60, 12, -6.0):
        for _ in range(2):
            x = side * (street.walls + rng.uniform(2, 16))
            radius = rng.uniform(1.2, 2.8)
            _paint_crown(street, x, rng.uniform(0.8, 4.0), z, radius, leaves + rng.normal(0, 8), 14)


def _paint_house(street: _Street, left: float, right: float, near: float, far: float, height: float) -> None:
    """A box with windows on the two faces that the camera can see, and a roof line."""
    rng = street.rng
    wall = street.pick(_MASONRY, 16)
    glass = street.pick(((55, 62, 72), (90, 105, 120), (160, 175, 190), (70, 60, 50)), 8)
    street.canvas.begin(BUILDING)
    faces = [(_frontal(left, right, 0, height, near), right - left, 1.0)]
    flank = street.flank(left, right)
    if flank is not None:
        side = np.array([(flank, 0, near), (flank, 0, far), (flank, height, far), (flank, height, near)])
        faces.append((side, far - near, rng.uniform(0.75, 0.95)))
    storey = rng.uniform(2.6, 3.4)
    for face, length, shade in faces:
        street.polygon(face, wall * shade)
        street.detail(_on_face(face, 0, 1, 1 - 0.35 / height, 1), wall * shade * 0.75)  # the eaves
        street.detail(_on_face(face, 0, 1, 0, 0.5 / height), wall * shade * 0.85)  # the plinth
        _paint_windows(street, face, (length, height, storey), glass * shade, wall * shade)


def _paint_windows(
    street: _Street, face: np.ndarray, sizes: tuple[float, float, float], glass: np.ndarray, wall: np.ndarray
) -> None:
    """Rows of windows with sills on one face, each window a little brighter or darker than the next."""
    canvas, camera, (length, height, storey) = street.canvas, street.camera, sizes
    outline = camera.project(face)
    if face[:, 2].min() > 80 or outline[:, 0].max() < 0 or outline[:, 0].min() > canvas.width:
        return
    columns, rows = max(1, int(length / 2.4)), max(1, int(height / storey))
    row, column = (grid.ravel() for grid in np.mgrid[:rows, :columns])
    bottom = (row * storey + 0.9) / height
    top = np.minimum((row + 1) * storey - 0.5, height - 0.5) / height
    start, end = (column + 0.25) / columns, (column + 0.75) / columns
    panes = camera.project(_on_face(face, start, end, bottom, top))
    sills = camera.project(_on_face(face, start - 0.03, end + 0.03, bottom - 0.12 / height, bottom))
    shades = street.rng.uniform(0.75, 1.3, len(panes))
    left, right, lowest = panes[:, :, 0].min(1), panes[:, :, 0].max(1), panes[:, :, 1].max(1)
    inside = (right > 0) & (left < canvas.width) & (lowest > 0) & (right - left > 1.0)
    for pane, sill, shade in zip(panes[inside], sills[inside], shades[inside], strict=True):
        canvas.detail(pane, glass * shade)
        canvas.detail(sill, wall * 1.15)


def _frontal(left: float, right: float, bottom: float, top: float, z: float) -> np.ndarray:
    """Corners ([4, 3], metres) of a face that looks at the camera."""
    return np.array([(left, bottom, z), (right, bottom, z), (right, top, z), (left, top, z)])


def _ground(left: Numbers, right: Numbers, near: Numbers, far: Numbers) -> np.ndarray:
    """Corners ([4, 3], or [4, 3, n] for arrays, metres) of a rectangle on the ground."""
    level = 0.0 * near
    return np.array([(left, level, near), (right, level, near), (right, level, far), (left, level, far)])


def _on_face(face: np.ndarray, start: Numbers, end: Numbers, bottom: Numbers, top: Numbers) -> np.ndarray:
    """Corners ([4, 3], or [n, 4, 3] for arrays) of parts of a face, given in shares of its length and height."""
    origin, along, up = face[0], face[1] - face[0], face[3] - face[0]
    across, upward = np.stack([start, end, end, start], -1), np.stack([bottom, bottom, top, top], -1)
    corners: np.ndarray = origin + across[..., None] * along + upward[..., None] * up
    return corners


def _furniture(street: _Street) -> Iterator[_Object]:
    rng, road, walls = street.rng, street.road, street.walls
    for side in (-1, 1):
        for _ in range(rng.integers(0, 4)):
            z = rng.uniform(8, 34)
            yield z, _paint_tree, (side * (road + rng.uniform(0.8, 1.6)), z)
        for z in np.arange(rng.uniform(6, 12), 24, rng.uniform(7, 13)):
            yield z, _paint_pole, (side * (road + rng.uniform(0.3, 0.6)), z, -side)
        z = rng.uniform(5, 12)
        while z < 45 and rng.random() < 0.75:
            yield z, _paint_car, (side * (road - 1.05), z)
            z += rng.uniform(5, 12)
        for _ in range(rng.integers(0, 4)):
            z = rng.uniform(6, 15)
            yield z, _paint_person, (side * rng.uniform(road + 0.3, walls - 0.3), z)
    for _ in range(rng.integers(0, 4)):
        z = rng.uniform(5, 13)
        yield z, _paint_person, (rng.uniform(-road, road), z)
    if rng.random() < 0.5:
        z = rng.uniform(8, 30)
        yield z, _paint_car, (rng.choice((-1, 1)) * rng.uniform(1.0, 1.4), z)


def _crowd(street: _Street) -> Iterator[_Object]:
    """Yields the objects in a crowded street: trees and poles, cars side by side, and groups of people beside them."""
    rng, road, walls = street.rng, street.road, street.walls
    yield from (item for item in _furniture(street) if item[1] not in (_paint_car, _paint_person))
    lanes = np.arange(1.05 - road, road - 1.0, 1.95) * rng.choice((-1, 1))
    taken = rng.random(len(lanes)) < 0.7
    if rng.random() < 0.5:  # people cross the road between parked cars
        taken[1:-1] = False
        yield from _group(rng, rng.uniform(2 - road, road - 2), rng.uniform(5.5, 10))
    row = rng.uniform(6, 11)
    for x in lanes[taken]:
        z = row + rng.normal(0, 1.0)
        yield z, _paint_car, (x, z)
        if rng.random() < 0.35:
            z += rng.uniform(5.5, 8.0)
            yield z, _paint_car, (x, z)
    for end in (0, -1):
        if not taken[end]:  # people behind a car would be hidden
            side = np.sign(lanes[end])
            yield from _group(rng, side * rng.uniform(road + 0.3, walls - 0.3), rng.uniform(8, 12))


def _group(rng: np.random.Generator, middle: float, z: float) -> Iterator[_Object]:
    """Yields two to five people, beside and partly in front of each other."""
    count, step = rng.integers(2, 6), rng.uniform(0.45, 0.7)
    for x in middle + step * (np.arange(count) - (count - 1) / 2):
        distance = z + rng.normal(0, 0.3)
        yield distance, _paint_person, (x, distance)


def _paint_crown(street: _Street, x: float, y: float, z: float, radius: float, leaves: np.ndarray, clumps: int) -> None:
    """A cloud of leaves around (x, y, z): overlapping clumps, lit from above."""
    rng, focal = street.rng, street.camera.focal
    offsets = rng.normal(0, 0.42, (clumps, 2))
    offsets = offsets[np.argsort(offsets[:, 1])]
    places = np.column_stack([x + offsets[:, 0] * radius, y + offsets[:, 1] * radius, [z] * clumps])
    centers = street.camera.project(places)
    halves = radius * rng.uniform(0.35, 0.7, clumps) * focal / z
    shades = leaves * (1.0 + 0.22 * offsets[:, 1:]) + rng.normal(0, 14, (clumps, 1))
    for (column, row), half, shade in zip(centers.tolist(), halves.tolist(), shades, strict=True):
        street.canvas.ellipse((column - half, row - half * 0.85, column + half, row + half * 0.85), shade)


def _paint_tree(street: _Street, x: float, z: float) -> None:
    rng = street.rng
    leaves, bark = street.pick(_FOLIAGE), street.pick(((85, 68, 52), (105, 98, 90)), 8)
    stem, radius = rng.uniform(1.8, 3.2), rng.uniform(1.0, 2.0)
    width = rng.uniform(0.14, 0.26)
    street.canvas.begin(VEGETATION, has_border=True)
    trunk = np.array(
        [(x - width, 0, z), (x + width, 0, z), (x + width * 0.7, stem + 0.5, z), (x - width * 0.7, stem + 0.5, z)]
    )
    street.polygon(trunk, bark)
    _paint_crown(street, x, stem + radius, z, radius, leaves, 26)
    middle, radius = street.camera.project(np.array((x, stem + radius, z))), radius * street.camera.focal / z
    angles, distances = rng.uniform(0, 2 * np.pi, 30), radius * np.sqrt(rng.uniform(0, 0.8, 30))
    for angle, distance, shade in zip(angles, distances, rng.normal(0, 26, 30), strict=True):
        column, row = middle[0] + distance * np.cos(angle), middle[1] + 0.85 * distance * np.sin(angle)
        half = radius * rng.uniform(0.06, 0.13)
        street.canvas.ellipse((column - half, row - half, column + half, row + half), leaves + shade)


def _paint_pole(street: _Street, x: float, z: float, towards: int) -> None:
    """A lamp post or a signal mast, 2 to 4 pixels wide and crisp, with a thin arm over the road."""
    camera, rng = street.camera, street.rng
    color = street.pick(_POLES, 10)
    height = rng.uniform(3.0, 7.0)
    (column, foot), (_, top) = camera.project(np.array([(x, 0, z), (x, height, z)]))
    width = int(np.clip(round(0.28 * camera.focal / z), 2, 4))
    left, top, foot = int(column), int(max(top, -9)), int(foot)
    street.canvas.begin(POLE, has_border=True)
    street.canvas.bar(left, top, left + width, foot, color)
    street.canvas.bar(left, top, left + 1, foot, color * 0.8)
    if rng.random() < 0.5:
        reach = int(rng.uniform(0.8, 1.6) * camera.focal / z) * towards
        start, end = sorted((left, left + reach))
        street.canvas.bar(start, top, end, top + 2, color * 0.9)


def _paint_person(street: _Street, x: float, z: float) -> None:
    """A person: two legs in mid-step, a coat, arms, and a head."""
    rng, canvas = street.rng, street.canvas
    tall = rng.uniform(1.55, 1.9)
    trousers, coat = street.pick(_CLOTHES), street.pick(_CLOTHES)
    skin, hair = street.pick(_SKINS, 6), street.pick(((50, 40, 35), (110, 80, 50), (150, 150, 150)), 6)
    stride, wide = rng.uniform(0.05, 0.3), rng.uniform(0.24, 0.31)

    def limb(x0: float, y0: float, x1: float, y1: float, half: float) -> np.ndarray:
        corners = [(x0 - half, y0), (x0 + half, y0), (x1 + half, y1), (x1 - half, y1)]
        return np.array([(x + a, b * tall, z) for a, b in corners])

    street.detail(_ground(x - 0.4, x + 0.4, z - 0.25, z + 0.25), (60, 60, 62))  # the shadow
    canvas.begin(PERSON, has_border=True)
    street.polygon(limb(-stride, 0, -0.08, 0.5, 0.10), trousers * 0.85)
    street.polygon(limb(stride, 0, 0.08, 0.5, 0.10), trousers)
    street.polygon(limb(-wide - 0.06, 0.45, -wide + 0.04, 0.8, 0.07), coat * 0.85)
    street.polygon(limb(wide + 0.06, 0.45, wide - 0.04, 0.8, 0.07), coat * 0.9)
    street.polygon(limb(0, 0.44, 0, 0.84, wide), coat)
    (column, row), (_, crown) = street.camera.project(np.array([(x, 0.85 * tall, z), (x, tall, z)]))
    half = (row - crown) * 0.5
    canvas.ellipse((column - half, crown, column + half, row), skin)
    canvas.ellipse((column - half, crown - 0.5, column + half, crown + half), hair)


def _paint_car(street: _Street, x: float, z: float) -> None:
    """A car seen from behind or from ahead: body, cabin with windows, wheels and lights."""
    rng = street.rng
    paint = street.pick(_PAINTS)
    half, length, sill, waist = rng.uniform(0.8, 0.95), rng.uniform(3.4, 4.6), 0.28, rng.uniform(0.8, 0.95)
    roof = waist + rng.uniform(0.45, 0.7)
    glass = street.pick(((45, 52, 60), (90, 100, 112), (140, 150, 160)), 8)
    shadow = _ground(x - half - 0.1, x + half + 0.1, z - 0.1, z + length)
    shadow[3, 0] = x - half
    street.detail(shadow, (38, 38, 40))
    street.canvas.begin(CAR, has_border=True)
    for wheel in (x - half + 0.02, x + half - 0.24):
        street.polygon(_frontal(wheel, wheel + 0.22, 0, 0.5, z + 0.1), (32, 32, 34))
    _paint_block(street, (x - half, x + half, sill, waist, z, z + length), 0.0, paint)
    _paint_wheels(street, x, half, z, length)
    cabin = (x - half + 0.05, x + half - 0.05, waist, roof, z + 0.35, z + length - 1.2)
    for face, shade in _paint_block(street, cabin, 0.16, paint):
        street.detail(_on_face(face, 0.08, 0.92, 0.15, 0.88), glass * shade)
    lights = (190, 30, 25) if rng.random() < 0.6 else (240, 235, 205)
    for start in (x - half + 0.05, x + half - 0.35):
        street.detail(_frontal(start, start + 0.3, waist - 0.25, waist - 0.08, z), lights)
    street.detail(_frontal(x - 0.25, x + 0.25, 0.42, 0.54, z), (205, 205, 195))  # the number plate
    street.detail(_frontal(x - half, x + half, sill, sill + 0.1, z), paint * 0.55)


def _paint_block(
    street: _Street, box: tuple[float, ...], inset: float, color: np.ndarray
) -> list[tuple[np.ndarray, float]]:
    """Paints the visible faces of a box whose top is smaller by `inset`; returns its side and front with shades."""
    left, right, bottom, top, near, far = box
    roof = np.array([(left, top, near), (right, top, near), (right, top, far), (left, top, far)])
    roof += np.array([(inset, 0, inset), (-inset, 0, inset), (-inset, 0, -inset), (inset, 0, -inset)])
    street.polygon(roof, color * 1.12)
    faces = [(np.array([(left, bottom, near), (right, bottom, near), roof[1], roof[0]]), 1.0)]
    flank = street.flank(left, right)
    if flank is not None:  # the front is painted last
        upper = roof[[3, 0]] if flank == left else roof[[2, 1]]
        faces.insert(0, (np.array([(flank, bottom, near), (flank, bottom, far), *upper]), 0.8))
    for face, shade in faces:
        street.polygon(face, color * shade)
    return faces


def _paint_wheels(street: _Street, x: float, half: float, z: float, length: float) -> None:
    """Two discs on the side of a car that the camera sees, if it sees one."""
    side = street.flank(x - half, x + half)
    if side is None:
        return
    angles = np.linspace(0, 2 * np.pi, 14, endpoint=False)
    for axle in (z + 0.75, z + length - 0.8):
        for radius, color in ((0.33, (30, 30, 32)), (0.17, (125, 125, 128))):
            rim = [(side, 0.33 + radius * np.sin(a), axle + radius * np.cos(a)) for a in angles]
            street.polygon(np.array(rim), color)


def _textured(image: np.ndarray, mask: np.ndarray, street: _Street) -> np.ndarray:
    """Adds each class's own grain: fine on asphalt, courses on walls, blotches on stone and leaves."""
    rng, (height, width) = street.rng, mask.shape
    fine = rng.normal(0, 1, (height, width))
    courses = np.repeat(rng.normal(0, 1, (height, width // 4 + 1)), 4, axis=1)[:, :width]
    blotches = street.noise(width // 5) * 2
    grain = np.zeros((height, width))
    for label, amounts in {
        SKY: (0, 0, 2),
        BUILDING: (2, 7, 4),
        ROAD: (8, 0, 3),
        PAVEMENT: (3, 0, 8),
        VEGETATION: (8, 0, 10),
        CAR: (1, 0, 3),
        PERSON: (4, 0, 4),
    }.items():
        layer = amounts[0] * fine + amounts[1] * courses + amounts[2] * blotches
        grain = np.where(mask == label, layer, grain)
    return image + grain[:, :, None]


def _lit(image: np.ndarray, street: _Street) -> np.ndarray:
    """The light of the day: shadows on the ground, a gradient, gain, tint, blur and the sensor's noise."""
    rng = street.rng
    height, width = image.shape[:2]
    across, down = np.meshgrid(np.linspace(-1, 1, width), np.linspace(-1, 1, height))
    angle = rng.uniform(0, 2 * np.pi)
    light = 1 + rng.uniform(0, 0.28) * (np.cos(angle) * across + np.sin(angle) * down)
    light = light * (1 + 0.06 * street.noise(4)) * _shadow(street)
    gain = np.exp(rng.uniform(np.log(0.7), np.log(1.3)))
    tint = 1 + rng.normal(0, 0.05, 3)
    lit = image * light[:, :, None] * (gain * tint)
    picture = Image.fromarray(np.clip(lit, 0, 255).astype(np.uint8))
    picture = picture.filter(ImageFilter.GaussianBlur(rng.uniform(0, 0.6)))
    noise = rng.normal(0, rng.uniform(2, 7), image.shape)
    return np.clip(np.asarray(picture, np.float32) + noise, 0, 255).astype(np.uint8)


def _shadow(street: _Street) -> np.ndarray:
    """[h, w] factors: soft shadows of houses that lie across the street, in about half of the scenes."""
    canvas, rng = street.canvas, street.rng
    mask = Image.new('L', (canvas.width, canvas.height), 255)
    if rng.random() < 0.5:
        side, dark = rng.choice((-1, 1)), int(rng.uniform(115, 200))
        pencil = ImageDraw.Draw(mask)
        for z in np.arange(rng.uniform(1.3, 5), 40, rng.uniform(6, 14)):
            reach = side * (street.walls - rng.uniform(2, 2 * street.walls))
            quad = np.array([(side * 14, 0, z), (reach, 0, z + 2), (reach, 0, z + 7), (side * 14, 0, z + 5)])
            pencil.polygon(street.camera.project(quad).ravel().tolist(), fill=dark)
    return np.asarray(mask.filter(ImageFilter.GaussianBlur(1.0)), np.float32) / 255
