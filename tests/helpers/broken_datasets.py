"""A zoo of broken data sets: scenes with true edges, and a fault (or two) in each."""

from __future__ import annotations

import dataclasses
import functools
import io
import json
from collections.abc import Callable
from typing import Any

import numpy as np
from PIL import Image

from deeplab.core import connected_components
from deeplab.datasets import example, planes
from tests.helpers import dataset_files

SIZE = (64, 96)
CLASSES = 4
SPLITS = {'train': 6, 'val': 3}
COLORS = np.array([(90, 120, 200), (110, 80, 50), (200, 200, 190), (180, 40, 40)], np.uint8)
TABLE = '90 120 200 sky\n110 80 50 ground\n200 200 190 house\n180 40 40 sign\n0 0 0 ignore\n'


@functools.cache
def scene(seed):
    """An image [64, 96, 3] and its ids [64, 96]: sky, ground, houses and signs; a line is ignored."""
    random = np.random.default_rng(seed)
    height, width = SIZE
    ids = np.zeros(SIZE, np.uint8)
    ids[int(random.integers(28, 44)) :] = 1
    for _ in range(3):
        top, left = random.integers(8, 30), random.integers(0, width - 24)
        ids[top : top + random.integers(16, 30), left : left + random.integers(10, 24)] = 2
    for _ in range(2):
        top, left = random.integers(12, height - 20), random.integers(4, width - 20)
        ids[top : top + 16, left : left + 16] = 3
    image = COLORS[ids].astype(np.float64)
    light = Image.fromarray(random.uniform(-25, 25, (5, 7)).astype(np.float32)).resize((width, height), 3)
    image += np.asarray(light)[..., np.newaxis] + random.normal(0, 5, (*SIZE, 3))
    ids[0] = 255
    return np.clip(image, 0, 255).astype(np.uint8), ids


@functools.cache
def jpeg(seed):
    """The image of a scene as a file."""
    return encoded(Image.fromarray(scene(seed)[0]), 'JPEG', quality=90)


def encoded(image, image_format, **more):
    stream = io.BytesIO()
    image.save(stream, image_format, **more)
    return stream.getvalue()


@dataclasses.dataclass
class Sample:
    """An image with its mask, and how their files are named."""

    name: str
    image: bytes
    ids: np.ndarray
    mask: bytes | None = b''  # b'' is for the ids as PNG
    suffix: str = '.jpg'
    mask_name: str = ''
    mask_suffix: str = '.png'
    instances: np.ndarray | None = None  # in records

    def features(self):
        return {} if self.instances is None else {planes.INSTANCE.feature: dataset_files.png(self.instances)}

    def mask_file(self):
        return dataset_files.png(self.ids) if self.mask == b'' else self.mask


class Zoo(dict):
    """Samples by split, and what is added behind."""

    def __init__(self, splits=None):
        super().__init__()
        seed = 0
        for split, number in (splits or SPLITS).items():
            self[split] = [Sample(f'{split}_{i}', jpeg(seed + i), scene(seed + i)[1].copy()) for i in range(number)]
            seed += number
        self.listed = []  # further names in lists: (split, name)
        self.files = {}  # further files
        self.options = {}

    def every(self):
        return [sample for samples in self.values() for sample in samples]

    def masks(self, change):
        """Replaces the file of every mask."""
        for sample in self.every():
            sample.mask = change(sample.ids)

    def relabel(self, change, split=None):
        """Changes the ids of every mask."""
        for sample in self.every() if split is None else self[split]:
            sample.ids = change(sample.ids).astype(np.uint8)

    def write(self, folder, kind):
        """Writes the files in one of the layouts; returns the folder."""
        for path, content in self.files.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_bytes(content)
        if kind == 'records':
            self._write_records(folder)
            return folder
        for split, samples in self.items():
            images, masks, lists = (folder / name for name in LAYOUTS[kind](split))
            for inner in filter(None, (images, masks, lists)):
                inner.mkdir(parents=True, exist_ok=True)
            for sample in samples:
                (images / f'{sample.name}{sample.suffix}').write_bytes(sample.image)
                if sample.mask is not None:
                    name = sample.mask_name or sample.name
                    (masks / f'{name}{sample.mask_suffix}').write_bytes(sample.mask_file())
            if kind in ('files', 'voc'):
                names = [sample.name for sample in samples] + [name for other, name in self.listed if other == split]
                (lists / f'{split}.txt').write_text('\n'.join(names) + '\n')
        return folder

    def _write_records(self, folder):
        for split, samples in self.items():
            records = [
                example.encode(
                    sample.image, 'jpeg', sample.name, *sample.ids.shape, 3, sample.mask_file(), sample.features()
                )
                for sample in samples
            ]
            dataset_files.write_shard(folder / f'{split}-00000-of-00001.tfrecord', records)


LAYOUTS = {
    'files': lambda split: ('images', 'masks', 'lists'),
    'voc': lambda split: ('JPEGImages', 'SegmentationClass', 'ImageSets/Segmentation'),
    'outer': lambda split: (f'images/{split}', f'masks/{split}', 'lists'),
    'inner': lambda split: (f'{split}/images', f'{split}/masks', 'lists'),
}


def numbered(zoo):
    """Makes houses and signs things: each part of 16 pixels or more is an instance."""
    described = {'num_classes': 4, 'ignore_label': 255, 'things': [2, 3], 'label_divisor': 1000}
    zoo.files['dataset.json'] = json.dumps(described).encode()
    for sample in zoo.every():
        numbers = connected_components.thing_components(sample.ids, (2, 3))
        areas = np.bincount(numbers.reshape(-1))
        sample.instances = np.where(areas[numbers] < 16, 0, numbers).astype(np.uint16)


def _renumbered(change, number=None):
    """Changes the instances of every sample, or of one of train, by a function of the sample."""

    def changed(zoo):
        numbered(zoo)
        for sample in zoo.every() if number is None else [zoo['train'][number]]:
            sample.instances = change(sample).astype(np.uint16)

    return changed


def _without_some_instances(zoo):
    numbered(zoo)
    zoo['train'][1].instances = None


def _with_pixels(where, instance):
    """Gives some pixels another instance id."""

    def change(sample):
        instances = sample.instances.copy()
        instances[where(sample)] = instance
        return instances

    return change


def _corners(sample):
    """Four columns of the first sign, and of the last one."""
    columns = np.flatnonzero((sample.ids == 3).any(0))
    return (sample.ids == 3) & np.isin(np.arange(SIZE[1]), columns[[0, 1, 2, 3, -4, -3, -2, -1]])


def _speck(sample):
    row, column = np.argwhere(sample.ids == 3)[0]
    return np.s_[row : row + 3, column : column + 3]


@dataclasses.dataclass(frozen=True)
class Broken:
    """A broken data set.

    Attributes:
      rules: findings that must be there; no other error or warning may be, but those of `also`.
      change: breaks a good one.
      heals: whether a repaired copy has none of them.
      kind: the layout.
      also: further findings that follow from the fault.
      options: of the doctor, beside the number of classes.
      fix: further options of the repair.
      splits: number of images in each split.
    """

    rules: tuple[str, ...]
    change: Callable[[Zoo], Any]
    heals: bool = False
    kind: str = 'files'
    also: tuple[str, ...] = ()
    options: dict[str, Any] = dataclasses.field(default_factory=dict)
    fix: dict[str, Any] = dataclasses.field(default_factory=dict)
    splits: dict[str, int] | None = None


def _one(number=1, split='train', **values):
    """Sets fields of a sample; a function is called with the sample."""

    def change(zoo):
        sample = zoo[split][number]
        for name, value in values.items():
            setattr(sample, name, value(sample) if callable(value) else value)

    return change


def _all(**values):
    def change(zoo):
        for sample in zoo.every():
            for name, value in values.items():
                setattr(sample, name, value(sample) if callable(value) else value)

    return change


def _both(*changes):
    def change(zoo):
        for each in changes:
            each(zoo)

    return change


def _colored(ids):
    return dataset_files.png(np.where((ids == 255)[..., np.newaxis], 0, COLORS[np.minimum(ids, 3)]).astype(np.uint8))


def _smooth(levels):
    """A mask with soft edges, of the gray levels of the classes."""

    def change(ids):
        gray = np.asarray(levels, np.uint8)[np.where(ids == 255, 0, ids)]
        small = Image.fromarray(gray).resize((2 * SIZE[1], 2 * SIZE[0]), Image.Resampling.NEAREST)
        return dataset_files.png(np.asarray(small.resize(SIZE[::-1], Image.Resampling.BILINEAR, box=(1, 1, 191, 127))))

    return change


def _levels(*levels):
    return lambda ids: np.where(ids == 255, 255, np.array(levels)[np.minimum(ids, len(levels) - 1)])


def _with(change):
    """Changes the ids of one sample."""
    return lambda sample: change(sample.ids).astype(np.uint8)


def _exchange(ids):
    return np.where(ids < 2, 1 - ids, ids)


def _displayed(sample, value):
    """The image as a camera stores it that viewers turn by `value`."""
    pixels = np.asarray(Image.open(io.BytesIO(sample.image)))
    back = {6: np.rot90(pixels), 3: pixels[::-1, ::-1]}[value]
    return dataset_files.with_exif(
        encoded(Image.fromarray(np.ascontiguousarray(back)), 'JPEG', quality=95), dataset_files.exif(value)
    )


def _copy(source, target):
    """Adds the image of one split to another one."""
    return lambda zoo: zoo[target].append(dataclasses.replace(zoo[source][2], name=f'{target}_copy'))


def _labeled_twice(zoo):
    sample = zoo['train'][2]
    zoo['train'].append(dataclasses.replace(sample, name='again', ids=np.where(sample.ids == 2, 0, sample.ids)))


def _near_copy(zoo):
    with Image.open(io.BytesIO(zoo['train'][0].image)) as image:
        darker = image.point([value * 3 // 4 for value in range(256)] * 3)
    zoo['val'][1].image, zoo['val'][1].ids = encoded(darker, 'JPEG', quality=60), zoo['train'][0].ids


def _film(zoo):
    """Makes all images frames of one film, whose camera turns by 4 pixels a frame; every third one is in val."""
    image, ids = (np.concatenate(parts, axis=1) for parts in zip(*(scene(seed) for seed in range(90, 93)), strict=True))
    numbers = range(sum(map(len, zoo.values())))
    for split, chosen in {'train': [n for n in numbers if n % 3], 'val': numbers[::3]}.items():
        for sample, number in zip(zoo[split], chosen, strict=True):
            seen = np.s_[:, 4 * number : 4 * number + SIZE[1]]
            sample.name, sample.ids = f'film_{number}', ids[seen]
            sample.image = encoded(Image.fromarray(image[seen]), 'JPEG', quality=90)


def _png_image(mode):
    return lambda sample: encoded(Image.open(io.BytesIO(sample.image)).convert(mode), 'PNG')


def _deep(sample):
    return dataset_files.deep_png(scene(1)[0].astype(np.uint16) * 257)


def _dark(_):
    return dataset_files.png(scene(1)[0][..., 0].astype(np.uint16))


def _with_palettes(zoo):
    """Gives all masks palettes, of which one has other colors; the first has fewer ids than the others."""
    zoo['train'][0].ids = np.minimum(zoo['train'][0].ids, 2)
    zoo.masks(dataset_files.palette_png)
    image = Image.fromarray(zoo['val'][1].ids)
    image.putpalette(dataset_files.PALETTE[3:6] + dataset_files.PALETTE[:3] + dataset_files.PALETTE[6:])
    zoo['val'][1].mask = encoded(image, 'PNG')


def _binary(ids):
    return np.uint8(255) * (ids >= 2)


BINARY = {'num_classes': 2}
COLOR_FIX = {'colors': 'colors.txt'}

INSTANCES = {'kind': 'records', 'options': {'num_classes': None, 'dataset': 'dataset.json'}}

BROKEN = {
    'masks in color': Broken(('color_mask',), lambda zoo: zoo.masks(_colored), True, fix=COLOR_FIX),
    'equal channels': Broken(
        ('color_mask',), lambda zoo: zoo.masks(lambda ids: dataset_files.png(np.stack([ids] * 3, axis=2))), True
    ),
    'palettes that disagree': Broken(('palette_colors',), _with_palettes),
    'palette in records': Broken(('palette',), lambda zoo: zoo.masks(dataset_files.palette_png), True, 'records'),
    '0 and 255': Broken(('zero_and_255',), lambda zoo: zoo.relabel(_binary), True, options=BINARY),
    'soft 0 and 255': Broken(
        ('interpolated',), lambda zoo: zoo.masks(_smooth((0, 0, 255, 255))), True, options=BINARY
    ),
    'soft gray levels': Broken(('interpolated',), lambda zoo: zoo.masks(_smooth((0, 60, 120, 180))), True),
    'too large id': Broken(
        ('ids',), _one(ids=_with(lambda ids: np.where(ids == 3, 7, ids))), True, fix={'ignore_other_ids': True}
    ),
    'ids from 1': Broken(('ids',), lambda zoo: zoo.relabel(_levels(1, 2, 3, 4)), True),
    'gray levels': Broken(('ids',), lambda zoo: zoo.relabel(_levels(0, 60, 120, 180)), True),
    'an ignored image': Broken(('all_ignored',), _one(ids=_with(lambda ids: ids * 0 + 255)), True),
    'all ignored': Broken(('histogram',), lambda zoo: zoo.relabel(lambda ids: ids * 0 + 255), also=('all_ignored',)),
    'one class alone': Broken(('histogram',), lambda zoo: zoo.relabel(lambda ids: np.where(ids == 255, 255, 1))),
    'a missing class': Broken(('missing_classes',), lambda zoo: zoo.relabel(lambda ids: np.where(ids == 3, 255, ids))),
    'a class in val alone': Broken(
        ('only_evaluated',), lambda zoo: zoo.relabel(lambda ids: np.where(ids == 3, 2, ids), 'train')
    ),
    'overlap': Broken(('overlap',), _copy('train', 'val'), True),
    'repeated': Broken(('repeated',), _copy('train', 'train'), True),
    'near duplicate': Broken(('similar',), _near_copy),
    'frames of one film': Broken(('sequence',), _film, splits={'train': 24, 'val': 12}),
    'frames of one film in records': Broken(
        ('sequence',), _film, kind='records', splits={'train': 24, 'val': 12}
    ),
    'small mask': Broken(('size',), _one(mask=lambda sample: dataset_files.png(sample.ids[::2, ::2].copy())), True),
    'cut mask': Broken(('size',), _one(mask=lambda sample: dataset_files.png(sample.ids[:-3].copy())), True),
    'cut JPEG': Broken(('corrupt',), _one(image=jpeg(1)[:-300]), True),
    'empty image': Broken(('corrupt',), _one(image=b''), True),
    'text for an image': Broken(('corrupt',), _one(image=b'<html>404 not found</html>'), True),
    'cut mask file': Broken(('corrupt',), _one(mask=lambda sample: dataset_files.png(sample.ids)[:-20]), True),
    'cmyk': Broken(
        ('cmyk',), _one(image=lambda sample: encoded(Image.fromarray(scene(1)[0]).convert('CMYK'), 'JPEG')), True
    ),
    'alpha': Broken(('alpha',), _one(image=_png_image('RGBA'), suffix='.png')),
    'gray': Broken(('gray',), _one(image=_png_image('L'), suffix='.png')),
    '16 bits': Broken(('sixteen_bits',), _one(image=_deep, suffix='.png')),
    'dark 16 bits': Broken(('sixteen_bits',), _one(image=_dark, suffix='.png')),
    'turned': Broken(('turned',), _one(image=lambda sample: _displayed(sample, 6)), True, 'records'),
    'upside down': Broken(('oriented',), _one(image=lambda sample: _displayed(sample, 3)), True),
    'upside down, mask stored': Broken(
        ('oriented',), _one(image=lambda sample: dataset_files.with_exif(sample.image, dataset_files.exif(3))), True
    ),
    'shifted': Broken(('shifted',), lambda zoo: zoo.relabel(lambda ids: np.roll(ids, 5, 1))),
    'a shifted mask': Broken(('misplaced',), _one(ids=_with(lambda ids: np.roll(ids, (4, 7), (0, 1))))),
    'a mirrored image': Broken(
        ('misplaced',), _one(image=encoded(Image.fromarray(scene(1)[0][:, ::-1].copy()), 'JPEG', quality=95))
    ),
    'exchanged classes': Broken(('exchanged',), _one(ids=_with(_exchange)), splits={'train': 24, 'val': 3}),
    'labeled twice': Broken(
        ('inconsistent',),
        _labeled_twice,
        also=('repeated',),
    ),
    'no mask': Broken(('no_mask',), _one(mask=None), True),
    'no image': Broken(('no_image',), lambda zoo: zoo.listed.append(('train', 'lost')), True),
    'endings': Broken(('misnamed',), _all(mask_name=lambda sample: f'{sample.name}_mask'), True),
    'letters': Broken(('misnamed',), _all(mask_name=lambda sample: sample.name.upper()), True),
    'tif image': Broken(
        ('image_format',), _one(image=encoded(Image.fromarray(scene(1)[0]), 'TIFF'), suffix='.tif'), True
    ),
    'bmp masks': Broken(
        ('mask_format',),
        _all(mask=lambda sample: encoded(Image.fromarray(sample.ids), 'BMP'), mask_suffix='.bmp'),
        True,
    ),
    'jpeg mask': Broken(
        ('jpeg_mask',),
        _one(mask=lambda sample: encoded(Image.fromarray(sample.ids), 'JPEG'), mask_suffix='.jpg'),
        True,
    ),
    '16-bit mask': Broken(
        ('sixteen_bit_mask',),
        _one(mask=lambda sample: dataset_files.deep_png(sample.ids.astype(np.uint16)[..., np.newaxis])),
        True,
        'records',
    ),
    'ids of instances': Broken(
        ('large_ids',),
        _one(mask=lambda sample: dataset_files.deep_png(sample.ids.astype(np.uint16)[..., np.newaxis] * 1000)),
        True,
    ),
    'two images of a name': Broken(
        ('same_name',), lambda zoo: zoo.files.update({'images/train_1.png': dataset_files.png(scene(90)[0])}), True
    ),
    'no val': Broken(('no_evaluation',), lambda zoo: zoo.pop('val')),
    'wrong list': Broken(
        ('empty', 'no_image'), lambda zoo: zoo.files.update({'lists/test.txt': b'x\ny\n'}), True
    ),
    'lost shard': Broken(
        ('shards', 'empty'),
        lambda zoo: (zoo.pop('val'), zoo.files.update({'val-00001-of-00002.tfrecord': b''})),
        kind='records',
        also=('no_evaluation',),
    ),
    'no examples': Broken(
        ('corrupt', 'empty'),
        lambda zoo: zoo.files.update({'test-00000-of-00001.tfrecord': b'rubbish' * 9}),
        True,
        'records',
    ),
    'unused mask': Broken(
        ('unused_masks',), lambda zoo: zoo.files.update({'masks/old.png': dataset_files.png(scene(9)[1])}), True
    ),
    'unlisted': Broken(
        ('unlisted',),
        lambda zoo: zoo.files.update({'masks/new.png': dataset_files.png(scene(91)[1]), 'images/new.jpg': jpeg(91)}),
    ),
    'left out by the description': Broken(
        ('left_out', 'other_texts', 'unlisted'),
        lambda zoo: zoo.listed.append(('train', 'train_1')) or zoo.files.update({
            'dataset.json': json.dumps({
                'num_classes': 4, 'images': 'images', 'masks': 'masks', 'lists': 'lists', 'allow_unmatched': True
            }).encode(),
            'images/bare.jpg': jpeg(92),
            'images/new.jpg': jpeg(91),
            'masks/new.png': dataset_files.png(scene(91)[1]),
            'lists/classes.txt': b'sky\nground\n',
        }),
    ),
    'four channels': Broken(
        ('image_channels',),
        _one(image=dataset_files.npy(np.concatenate([scene(1)[0]] * 2, axis=2)[..., :4]), suffix='.npy'),
    ),
    'array of 16 bits': Broken(
        ('image_bits',), _one(image=dataset_files.npy(scene(1)[0].astype(np.uint16) * 257), suffix='.npy')
    ),
    'array in records': Broken(('array',), _one(image=dataset_files.npy(scene(1)[0])), kind='records'),
    'blank': Broken(('blank',), _one(image=dataset_files.png(np.zeros((*SIZE, 3), np.uint8)), suffix='.png'), True),
    'ignored class': Broken(
        ('ignored_class',),
        lambda zoo: zoo.files.update(
            {'dataset.json': json.dumps({'num_classes': 4, 'ignore_label': 0}).encode()}
        ) or zoo.relabel(lambda ids: np.where(ids == 255, 0, ids)),
        options={'num_classes': None, 'dataset': 'dataset.json'},
    ),
    'one class': Broken(
        ('one_class',), lambda zoo: zoo.relabel(lambda ids: ids * 0), options={'num_classes': 1}
    ),
    'large image': Broken(
        ('large_images',),
        _one(
            image=dataset_files.png(np.asarray(Image.fromarray(scene(1)[0]).resize((768, 512)))),
            ids=lambda sample: np.kron(sample.ids, np.ones((8, 8), np.uint8)),
            suffix='.png',
        ),
    ),
    'thin class': Broken(
        ('thin',), lambda zoo: zoo.relabel(lambda ids: np.where((ids == 3) & (np.arange(96) % 16 > 2), 1, ids)),
    ),
    'rare class': Broken(
        ('uneven',),
        lambda zoo: zoo.relabel(lambda ids: np.where((ids == 3) & (np.arange(96) % 16 > 0), 1, ids)),
    ),
    'nothing ignored': Broken(
        ('nothing_ignored',), lambda zoo: zoo.relabel(lambda ids: np.where(ids == 255, 0, ids))
    ),
    # Instances.
    'image without instances': Broken(('no_plane',), _without_some_instances, **INSTANCES),
    'instances above the divisor': Broken(
        ('large_instance_ids',), _renumbered(_with_pixels(_speck, 1000), 1), also=('small_instances',), **INSTANCES
    ),
    'instance at two signs': Broken(('far_parts',), _renumbered(_with_pixels(_corners, 99), 1), **INSTANCES),
    'signs without instances': Broken(
        ('unnumbered',), _renumbered(_with_pixels(lambda sample: sample.ids == 3, 0)), **INSTANCES
    ),
    'class ids as instance ids': Broken(
        ('lone_instances',),
        _renumbered(lambda sample: np.where(sample.instances, sample.ids, 0)),
        also=('far_parts',),
        **INSTANCES,
    ),
    'speck that is an instance': Broken(('small_instances',), _renumbered(_with_pixels(_speck, 99), 1), **INSTANCES),
    'small instance mask': Broken(
        ('bad_plane',), _renumbered(lambda sample: sample.instances[::2, ::2], 1), True, **INSTANCES
    ),
    'instance of ignored pixels': Broken(
        ('classless_instance',), _renumbered(_with_pixels(lambda sample: np.s_[0], 99), 1), True, **INSTANCES
    ),
    # Two faults.
    'colors and overlap': Broken(
        ('color_mask', 'overlap'),
        _both(_copy('train', 'val'), lambda zoo: zoo.masks(_colored)),
        True,
        fix=COLOR_FIX,
    ),
    'endings and bmp': Broken(
        ('misnamed', 'mask_format'),
        _both(
            _all(mask_name=lambda sample: f'{sample.name}-label'),
            _one(mask=lambda sample: encoded(Image.fromarray(sample.ids), 'BMP'), mask_suffix='.bmp'),
        ),
        True,
    ),
    '0 and 255, turned': Broken(
        ('zero_and_255', 'turned'),
        _both(lambda zoo: zoo.relabel(_binary), _one(image=lambda sample: _displayed(sample, 6))),
        True,
        'records',
        options=BINARY,
    ),
    'small mask and cut image': Broken(
        ('size', 'corrupt'),
        _both(_one(3, mask=lambda sample: dataset_files.png(sample.ids[::2, ::2].copy())), _one(image=jpeg(1)[:-300])),
        True,
        kind='outer',
    ),
}  # fmt: skip

CLEAN = {
    'instances': ('records', numbered, INSTANCES['options']),
    'lists': ('files', None, {}),
    'records': ('records', None, {}),
    'VOC with palettes': ('voc', lambda zoo: zoo.masks(dataset_files.palette_png), {}),
    'folders of splits': ('outer', _one(image=lambda sample: _displayed(sample, 6)), {}),
    'splits of folders, classes unknown': ('inner', None, {'num_classes': None}),
}
