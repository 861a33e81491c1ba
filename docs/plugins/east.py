"""EAST, detection of words in photographs: a task of one file (docs/text_detection.md).

    python east.py records train=TRAIN_FOLDER val=VAL_FOLDER    # img_N.jpg with img_N.txt or gt_img_N.txt
    deeplab train --plugins=east.py --task=text --dataset=texts --dataset_dir=records ...

A text is a quadrangle [4, 2], rows and columns of its corners. A box is a rectangle at an angle between -45 and 45
degrees. A point in the frame of a box is turned by this angle: its rows go down the box, its columns along it.

Source: arXiv:1704.03155.
"""

import functools
import pathlib
import sys

import numpy as np
from PIL import Image, ImageDraw

from deeplab import common
from deeplab.core.lazy import layers, shapes, tf
from deeplab.datasets import build_data
from deeplab.datasets.descriptor import DatasetDescriptor
from deeplab.datasets.pairs import SourceFiles
from deeplab.datasets.plane_files import PlaneNumbers
from deeplab.datasets.planes import Plane
from deeplab.errors import DataError, UserError
from deeplab.options import BuilderOptions
from deeplab.registry import Branch, Output, Parameter, ResultFile, Task, Term, register

TEXTS = Plane(f'{common.POINTS_PREFIX}texts', 'image/text/corners', 'floats', channels=8)  # points: they move
IGNORED = Plane('text_ignored', 'image/text/ignored', 'floats')  # 1 for a text that nobody can read
SCORE, GEOMETRY, ANGLE, MASK = 'text_score', 'text_geometry', 'text_angle', 'mask'
CHANNELS = {SCORE: 1, GEOMETRY: 4, ANGLE: 1, MASK: 1}
STRIDE = 4  # of the outputs
EVERY = slice(None, None, STRIDE)
FAR = np.pi / 2  # range of angles


# Records.


def read_texts(path):
    """Reads lines of x1,y1,...,x4,y4,text; returns corners [n, 4, 2] float32, and whether each is ignored, [n]."""
    corners, ignored = [], []
    for number, line in enumerate(pathlib.Path(path).read_text('utf-8-sig').splitlines(), start=1):
        fields = line.split(',', 8)
        try:
            x_and_y = np.array(fields[:8], np.float32).reshape(4, 2)
        except ValueError:
            raise DataError(f"'{path}', line {number}: it is not x1,y1,x2,y2,x3,y3,x4,y4,text: {line}") from None
        corners.append(x_and_y[:, ::-1])
        ignored.append(fields[8:] in (['*'], ['###']))
    return np.reshape(corners, (-1, 4, 2)).astype(np.float32), np.array(ignored, bool)


def items(folder):
    """Returns the source files of the records of a folder, sorted by name."""
    made = []
    for image in sorted(pathlib.Path(folder).iterdir()):
        if image.suffix.lower() in ('.jpg', '.jpeg', '.png'):
            names = (f'{image.stem}.txt', f'gt_{image.stem}.txt')
            paths = [path for path in map(image.with_name, names) if path.exists()]
            if not paths:
                raise DataError(f"'{image}' has no '{names[0]}' or '{names[1]}' beside it. Add the file, or remove it.")
            corners, ignored = read_texts(paths[0])
            planes = (PlaneNumbers(TEXTS, corners.ravel()), PlaneNumbers(IGNORED, ignored.astype(np.float32)))
            made.append(SourceFiles(str(image), None, image.name, planes=planes))
    return made


def build(output, folders):
    """Writes the records of folders, given by the names of their splits."""
    splits = {split: items(folder) for split, folder in folders.items()}
    return build_data.write_known(splits, BuilderOptions(output_dir=output), DATASET, usual_num_shards=1)


# Geometry.


def turned(points, angle):
    """Turns points [..., 2] of the image into the frame of a box; with the negative angle, back."""
    rows, columns, sine, cosine = points[..., 0], points[..., 1], np.sin(angle), np.cos(angle)
    return np.stack([rows * cosine - columns * sine, columns * cosine + rows * sine], axis=-1)


def polygon(corners):
    """Returns corners [k, 2] as complex numbers, column + i * row, clockwise in the image."""
    points = [complex(column, row) for row, column in np.asarray(corners, np.float64).tolist()]
    return points if signed_area(points) >= 0 else points[::-1]


def cross(a, b):
    """Returns the cross product of two complex numbers."""
    return a.real * b.imag - a.imag * b.real


def signed_area(points):
    """Returns the area of a polygon; positive if it is clockwise."""
    return sum(cross(a, b) for a, b in zip(points, points[1:] + points[:1], strict=True)) / 2


def clipped(points, convex):
    """Returns the part of a polygon that is inside of a convex one.

    Source: I. Sutherland and G. Hodgman, Reentrant polygon clipping, 1974.
    """
    for start, end in zip(convex, convex[1:] + convex[:1], strict=True):
        sides = [cross(end - start, point - start) for point in points]  # at least 0: inside of this edge
        kept = []
        for i, (a, b) in enumerate(zip(sides, sides[1:] + sides[:1], strict=True)):
            if a >= 0:
                kept.append(points[i])
            if (a >= 0) != (b >= 0):
                kept.append(points[i] + (points[(i + 1) % len(points)] - points[i]) * (a / (a - b)))
        points = kept
    return points


def overlap(a, b):
    """Returns intersection and union of two polygons, of which the second is convex, in square pixels."""
    if abs(sum(a) / len(a) - sum(b) / len(b)) > abs(a[0] - a[2]) + abs(b[0] - b[2]):
        return 0.0, 1.0  # far apart
    shared = signed_area(clipped(a, b))
    return shared, signed_area(a) + signed_area(b) - shared


def iou(a, b):
    """Returns intersection over union of two polygons, of which the second is convex."""
    shared, union = overlap(a, b)
    return shared / union if union > 0 else 0.0


def is_inside(corners, grid):
    """Returns which points of a grid [h, w, 2] are inside of a convex quadrangle [4, 2] that is clockwise: [h, w]."""
    edges = np.roll(corners, -1, axis=0) - corners
    steps = grid[:, :, np.newaxis] - corners  # [h, w, 4, 2]
    return (edges[:, 1] * steps[..., 0] - edges[:, 0] * steps[..., 1] >= 0).all(axis=2)


def fitted_box(corners):
    """Returns angle, first and last corner in its frame, of the smallest box around a quadrangle [4, 2]."""
    edges = np.roll(corners, -1, axis=0) - corners
    angles = (np.arctan2(edges[:, 0], edges[:, 1]) + FAR / 2) % FAR - FAR / 2
    frames = [turned(corners, angle) for angle in angles]
    extents = [(frame.min(axis=0), frame.max(axis=0)) for frame in frames]
    best = int(np.argmin([np.prod(last - first) for first, last in extents]))
    return angles[best], *extents[best]


def shrunk(corners, share):
    """Moves each corner of a quadrangle inward along its two sides, by a share of the shorter one."""
    after, before = np.roll(corners, -1, axis=0) - corners, np.roll(corners, 1, axis=0) - corners
    lengths = [np.maximum(np.linalg.norm(side, axis=1, keepdims=True), 1e-6) for side in (after, before)]
    return corners + share * np.minimum(*lengths) * (after / lengths[0] + before / lengths[1])


# Targets and losses.


def draw(texts, ignored, size, shrink, least_side):
    """Returns the targets in an image of some size (height, width): [h / 4, w / 4, 7] float32, in order of CHANNELS.

    Distances are in steps of the output. The mask is 0 in texts that are ignored, small, or cut by the border.
    """
    grid = np.stack(np.meshgrid(*(np.linspace(0, n - 1, (n - 1) // STRIDE + 1) for n in size), indexing='ij'), axis=-1)
    made = np.zeros((*grid.shape[:2], sum(CHANNELS.values())), np.float32)
    made[..., -1] = 1.0
    for corners, skip in zip(texts.astype(np.float64), ignored[:, 0] > 0, strict=True):
        corners = np.array([(point.imag, point.real) for point in polygon(corners)])  # clockwise
        sides = np.linalg.norm(np.roll(corners, -1, axis=0) - corners, axis=1)
        if skip or sides.min() < least_side or (corners < 0).any() or (corners > np.subtract(size, 1)).any():
            made[is_inside(corners, grid), -1] = 0.0
            continue
        angle, first, last = fitted_box(corners)
        here = is_inside(shrunk(corners, shrink), grid)
        points = turned(grid[here], angle)  # [k, 2]
        (top, left), (bottom, right) = (points - first).T / STRIDE, (last - points).T / STRIDE
        made[here, :-1] = np.stack([np.ones_like(top), top, right, bottom, left, np.full_like(top, angle)], axis=1)
    return made


def targets(sample, context):
    """Returns score, geometry, angle and mask of a sample, [h / 4, w / 4, channels]."""
    size = tuple(sample[common.IMAGE].shape[:2])
    settings = context.settings
    draw_here = functools.partial(draw, size=size, shrink=settings['text_shrink'], least_side=settings['text_side'])
    made = tf.numpy_function(draw_here, [sample[TEXTS.key], sample[IGNORED.key]], tf.float32)
    made.set_shape([*((n - 1) // STRIDE + 1 for n in size), sum(CHANNELS.values())])
    return dict(zip(CHANNELS, tf.split(made, list(CHANNELS.values()), axis=2), strict=True))


def lengths_of(values, scale):
    """Returns distances in steps of the output: at most `scale` pixels."""
    return tf.sigmoid(values) * (scale / STRIDE)


def angles_of(values):
    """Returns angles in radians, -45 to 45 degrees."""
    return (tf.sigmoid(values) - 0.5) * FAR


def losses(maps, made, context):
    """Returns the loss of the score (dice), of the box (IoU) and of the angle (cosine); sections 3.4.1 and 3.4.2.

    The dice loss stands in the place of the balanced cross entropy of the paper; it needs no balance.
    """
    settings = context.settings
    truth, score = made[SCORE] * made[MASK], tf.sigmoid(maps[SCORE]) * made[MASK]
    dice = 1.0 - 2.0 * tf.reduce_sum(truth * score) / (tf.reduce_sum(truth) + tf.reduce_sum(score) + 1e-5)
    given, wanted = lengths_of(maps[GEOMETRY], settings['text_scale']) * STRIDE, made[GEOMETRY] * STRIDE  # pixels
    areas = []
    for sides in (given, wanted, tf.minimum(given, wanted)):
        top, right, bottom, left = tf.split(sides, 4, axis=3)
        areas.append((top + bottom) * (left + right))
    shared = areas.pop()
    box = -tf.math.log((shared + 1.0) / (tf.add_n(areas) - shared + 1.0))
    turn = 1.0 - tf.cos(angles_of(maps[ANGLE]) - made[ANGLE])
    return {
        'score': Term(dice, settings['text_score_weight']),
        'box': Term(tf.reduce_mean(box * truth)),
        'angle': Term(tf.reduce_mean(turn * truth), settings['text_angle_weight']),
    }


# Network.


def merge(features, skips, options):
    """Merges features of the strides 32, 16, 8 and 4; section 3.2 and figure 3."""
    for stride, filters in BRANCH.skip_filters:
        features = shapes.resize_bilinear(features, shapes.spatial_size(skips[stride]))
        features = tf.concat([features, skips[stride]], axis=3)
        features = layers.conv2d(features, filters, 1, scope=f'project{stride}')
        features = layers.conv2d(features, filters, 3, scope=f'merge{stride}')
    return layers.conv2d(features, BRANCH.filters, 3, scope='last')  # [n, h / 4, w / 4, 32]


BRANCH = Branch('east', filters=32, skip_filters=((16, 128), (8, 64), (4, 32)), build=merge)


def outputs(options):
    """Returns the three outputs; in a flipped image, left and right are exchanged and angles negative."""
    lengths = functools.partial(lengths_of, scale=options.text_scale)
    return [
        Output(SCORE, CHANNELS[SCORE], lambda values: tf.sigmoid(values), BRANCH),
        Output(
            GEOMETRY, CHANNELS[GEOMETRY], lengths, BRANCH, axes=('y', 'x', 'y', 'x'),
            mirrored=lambda values: tf.gather(values, [0, 3, 2, 1], axis=3),
        ),
        Output(ANGLE, CHANNELS[ANGLE], angles_of, BRANCH, mirrored=lambda values: -values),
    ]  # fmt: skip


# Results.


def decode(maps, context):
    """Returns 'boxes' [k, 4, 2], rows and columns of corners clockwise from the upper left one, and 'scores' [k]."""
    score, geometry, angle = (maps[name][EVERY, EVERY] for name in (SCORE, GEOMETRY, ANGLE))
    here = score[..., 0] > context.settings['text_threshold']
    top, right, bottom, left = geometry[here].T.astype(np.float64)
    angles = angle[here].astype(np.float64)  # [pixels, 1]
    points = turned(np.argwhere(here) * float(STRIDE), angles[:, 0])
    ends = ((-top, -left), (-top, right), (bottom, right), (bottom, -left))
    corners = turned(np.stack([points + np.stack(end, axis=1) for end in ends], axis=1), -angles)
    boxes, scores = suppressed(corners, score[here, 0], context.settings['text_overlap'])
    return {'boxes': boxes, 'scores': scores}


def suppressed(corners, scores, most):
    """Merges boxes [k, 4, 2] of neighboring pixels, weighted by their scores; then drops what overlaps a better box.

    Source: section 3.5 (locality-aware NMS).
    """
    merged = []  # polygon, score
    for points, score in zip(map(polygon, corners), scores.tolist(), strict=True):
        if merged and iou(merged[-1][0], points) > most:
            last, sum_of_scores = merged.pop()
            score += sum_of_scores
            points = [a + (b - a) * (1.0 - sum_of_scores / score) for a, b in zip(last, points, strict=True)]
        merged.append((points, score))
    kept = []
    for points, score in sorted(merged, key=lambda box: -box[1]):
        if all(iou(other, points) <= most for other, _ in kept):
            kept.append((points, score))
    boxes = [[(point.imag, point.real) for point in points] for points, _ in kept]
    return np.reshape(boxes, (-1, 4, 2)).astype(np.float32), np.array([score for _, score in kept], np.float32)


class TextMetric:
    """Precision, recall and F-score of boxes at an IoU of 0.5; boxes on ignored texts do not count."""

    accumulated = ('matched', 'boxes', 'texts')

    def __init__(self, context):
        self.matched = self.boxes = self.texts = 0

    def update(self, sample, result):
        """Adds an image: its texts, and the result of `decode`."""
        texts = [polygon(corners) for corners in sample[TEXTS.key]]
        ignored = sample[IGNORED.key][:, 0] > 0
        free = {i for i in range(len(texts)) if not ignored[i]}
        self.texts += len(free)
        for points in map(polygon, result['boxes']):
            overlaps = {i: iou(texts[i], points) for i in free}
            best = max(overlaps, key=overlaps.get, default=None)
            if best is not None and overlaps[best] >= 0.5:
                free.remove(best)
                self.matched += 1
            elif any(overlap(texts[i], points)[0] > 0.5 * signed_area(points) for i in np.flatnonzero(ignored)):
                continue
            self.boxes += 1

    def merge(self, other):
        """Adds the images of `other`."""
        self.matched, self.boxes, self.texts = (
            self.matched + other.matched, self.boxes + other.boxes, self.texts + other.texts,
        )  # fmt: skip

    def result(self):
        """Returns the figures of all images."""
        return {
            'precision': self.matched / self.boxes if self.boxes else None,
            'recall': self.matched / self.texts if self.texts else None,
            'f_score': 2 * self.matched / (self.boxes + self.texts) if self.boxes + self.texts else None,
        }


def lines(result, image, context):
    """Returns a line x1,y1,...,x4,y4,score for each box."""
    rows = zip(result['boxes'], result['scores'], strict=True)
    return ''.join(','.join(f'{value:.1f}' for value in (*box[:, ::-1].ravel(), score)) + '\n' for box, score in rows)


def overlay(result, image, context):
    """Draws the boxes on an image."""
    picture = Image.fromarray(np.asarray(image)[..., :3].astype(np.uint8))
    for box in result['boxes']:
        ImageDraw.Draw(picture).polygon([(float(x), float(y)) for y, x in box], outline=(255, 0, 0), width=2)
    return np.asarray(picture)


DATASET = DatasetDescriptor(name='texts', summary='Texts in images.', num_classes=1, class_names=('text',))
register(DATASET)
register(
    Task(
        name='text',
        summary='Rotated boxes around texts (EAST).',
        outputs=outputs,
        scopes=(BRANCH.scope,),
        needs_labels=False,
        planes=(TEXTS, IGNORED),
        targets=targets,
        losses=losses,
        upsamples=False,
        decode=decode,
        metric=TextMetric,
        headline='f_score',
        files={'boxes': ResultFile('.txt', lines)},
        overlay=overlay,
        parameters=(
            Parameter('text_scale', 512.0, 'Largest distance to a side of a box, in pixels.', range='(0, inf)'),
            Parameter('text_shrink', 0.3, 'Share of the shorter side by which texts are shrunk.', range='[0, 0.5)'),
            Parameter('text_side', 10.0, 'Texts with a shorter side are ignored in training.', range='[0, inf)'),
            Parameter('text_score_weight', 0.01, 'Weight of the loss of the score.', range='[0, inf)'),
            Parameter('text_angle_weight', 20.0, 'Weight of the loss of the angle.', range='[0, inf)'),
            Parameter('text_threshold', 0.8, 'Pixels with a larger score give a box.', range='[0, 1)'),
            Parameter('text_overlap', 0.2, 'Boxes with a larger IoU are merged, or dropped.', range='[0, 1)'),
        ),
        source='arXiv:1704.03155',
    )
)

if __name__ == '__main__':
    try:
        records, *folders = sys.argv[1:]
        print(build(records, dict(folder.split('=', 1) for folder in folders)))
    except UserError as error:
        sys.exit(f'east.py: {error}')
    except ValueError:
        sys.exit('Usage: python east.py OUTPUT_FOLDER SPLIT=FOLDER ...')
