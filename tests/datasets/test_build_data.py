"""Writing the shards of a split from image files and masks.

Covers datasets/pairs.py and datasets/tfrecord.py.
"""

import io
import os
import pathlib
import re
import threading
import time

import numpy as np
import pytest
from PIL import Image, ImageOps

from deeplab.datasets import (
    build_data,
    example,
    images,
    mask_sources,
    orientation,
    pairs,
    planes,
    record_index,
    wire,
)
from deeplab.datasets.mask_ids import MaskIds
from deeplab.errors import DataError
from deeplab.options import BuilderOptions
from tests.helpers import dataset_files


def make_items(folder, count=7, image_format='png'):
    items = []
    encode = dataset_files.png if image_format == 'png' else dataset_files.jpeg
    for seed in range(count):
        image, label = folder / f'{seed}.{image_format}', folder / f'{seed}_mask.png'
        image.write_bytes(encode(dataset_files.pixels(6 + seed, 8, seed)))
        label.write_bytes(dataset_files.png(dataset_files.ids(6 + seed, 8, seed=seed)))
        items.append(pairs.SourceFiles(str(image), str(label), f'name_{seed}'))
    return items


def read_all(summary):
    index = record_index.RecordIndex(summary.shards)
    return [example.parse(index.read(record)) for record in range(len(index))]


def contents(folder):
    """The shards in a folder."""
    return {path.name: path.read_bytes() for path in sorted(pathlib.Path(folder).glob('*.tfrecord'))}


def test_records_hold_the_files_in_order(tmp_path):
    items = make_items(tmp_path, 7, 'jpg')
    summary = build_data.write_split(items, 'train', str(tmp_path / 'out'), num_shards=3)
    assert (summary.split, summary.images, summary.labeled) == ('train', 7, True)
    assert [os.path.basename(shard) for shard in summary.shards] == list(contents(tmp_path / 'out'))
    assert os.path.basename(summary.shards[0]) == 'train-00000-of-00003.tfrecord'
    assert [len(record_index.RecordIndex([shard])) for shard in summary.shards] == [3, 3, 1]
    for item, record in zip(items, read_all(summary), strict=True):
        assert record.image_name == item.name
        assert record.image_bytes == pathlib.Path(item.image).read_bytes()
        assert record.label_bytes == pathlib.Path(item.label).read_bytes()


def test_every_key_tells_the_truth(tmp_path):
    tf = pytest.importorskip('tensorflow')
    (tmp_path / 'a.png').write_bytes(dataset_files.jpeg(dataset_files.pixels(4, 9)))  # the extension does not
    (tmp_path / 'm.png').write_bytes(dataset_files.png(dataset_files.ids(4, 9)))
    item = pairs.SourceFiles(str(tmp_path / 'a.png'), str(tmp_path / 'm.png'), 'a')
    summary = build_data.write_split([item], 'val', str(tmp_path / 'out'), 1)
    message = tf.train.Example.FromString(record_index.RecordIndex(summary.shards).read(0))
    feature = message.features.feature
    assert len(feature) == 8
    assert feature['image/format'].bytes_list.value == [b'jpeg']
    assert feature['image/segmentation/class/format'].bytes_list.value == [b'png']
    assert [feature[f'image/{key}'].int64_list.value[0] for key in ('height', 'width', 'channels')] == [4, 9, 3]


def test_bytes_do_not_depend_on_the_workers(tmp_path):
    items = make_items(tmp_path, 30)
    for workers in (1, 2, 5):
        build_data.write_split(items, 'train', str(tmp_path / f'out{workers}'), 4, workers)
    assert contents(tmp_path / 'out1') == contents(tmp_path / 'out2') == contents(tmp_path / 'out5')


def write_splits(folder, splits, **changes):
    """The numbers of shards of splits that are written with a usual number of four."""
    written = build_data.write_splits(splits, BuilderOptions(output_dir=str(folder), num_classes=3, **changes), 4)
    return [facts['shards'] for facts in written['splits'].values()]


def test_no_more_shards_than_images_unless_they_are_asked_for(tmp_path):
    items = make_items(tmp_path, 7)
    out = tmp_path / 'out'
    assert write_splits(out, {'train': items, 'val': items[:1]}) == [4, 1]
    assert write_splits(out, {'train': items[:2], 'val': items[:5]}) == [4, 1]  # they replace those that are there
    assert write_splits(tmp_path / 'asked', {'val': items[:1]}, num_shards=3) == [3]
    with pytest.raises(DataError, match=r"older 'val' split, such as val-00000-of-00001\.tfrecord"):
        write_splits(out, {'val': items}, num_shards=3)


def test_more_shards_than_images(tmp_path):
    summary = build_data.write_split(make_items(tmp_path, 2), 'val', str(tmp_path / 'out'), 4)
    assert len(read_all(summary)) == 2
    assert len(summary.shards) == 4


def test_a_split_without_masks(tmp_path):
    items = [pairs.SourceFiles(item.image, None, item.name) for item in make_items(tmp_path, 2)]
    summary = build_data.write_split(items, 'test', str(tmp_path / 'out'), 1)
    assert not summary.labeled
    assert [record.label_bytes for record in read_all(summary)] == [None, None]


def test_palette_indices_become_ids(tmp_path):
    (item,) = make_items(tmp_path, 1)
    pathlib.Path(item.label).write_bytes(dataset_files.palette_png(dataset_files.ids()))
    (record,) = read_all(build_data.write_split([item], 'val', str(tmp_path / 'out'), 1, num_classes=3))
    assert images.read_mask(record.label_bytes).mode == 'L'
    np.testing.assert_array_equal(
        images.read_mask(record.label_bytes).counts, np.bincount(dataset_files.ids().ravel(), minlength=256)
    )


IMAGE, MASK = dataset_files.png(dataset_files.pixels(8, 8, 2)), dataset_files.png(dataset_files.ids(8, 8))


@pytest.mark.parametrize(
    ('image', 'label', 'message'),
    [
        (IMAGE[:-30], MASK, "^Cannot use '{image}': it cannot be decoded .*truncated"),
        (
            dataset_files.jpeg(dataset_files.pixels(40, 40))[:-30],
            MASK,
            "^Cannot use '{image}': it cannot be decoded .*truncated",
        ),
        (b'', MASK, "^Cannot use '{image}': it is empty.$"),
        (b'BM....', MASK, "^Cannot use '{image}': it is neither JPEG nor PNG.$"),
        (None, MASK, "^Cannot read '{image}': No such file or directory.$"),
        (IMAGE, None, "^Cannot read '{label}': No such file or directory.$"),
        (IMAGE, MASK[:-30], "^Cannot use '{label}': it cannot be decoded"),
        (
            IMAGE,
            dataset_files.png(dataset_files.pixels()),
            r"^Cannot use '{label}': it has 3 channels \(RGB\), but a mask has one channel of ids",
        ),
        (
            IMAGE,
            dataset_files.png(dataset_files.ids(8, 9)),
            r"^Cannot use '{label}': it is 8 x 9 pixels \(height x width\), its image '{image}' 8 x 8.$",
        ),
        (
            IMAGE,
            dataset_files.png(np.full((8, 8), 77, np.uint8)),
            "^Cannot use '{label}': it contains ids that are neither classes nor the ignore label: 77 on 64 pixels; "
            'set num_classes or ignore_label, or fix the mask.$',
        ),
        (
            IMAGE,
            dataset_files.png(dataset_files.ids(8, 8) + np.uint8(1)),
            r'3 on \d+ pixels; fix the masks, whose ids start at 1 .* subtract 1; otherwise set num_classes or '
            'ignore_label.$',
        ),
    ],
)
@pytest.mark.parametrize('workers', [1, 3])
def test_bad_files_are_named_and_no_shard_is_complete(tmp_path, image, label, message, workers):
    items = make_items(tmp_path, 7)
    for path, content in ((items[5].image, image), (items[5].label, label)):
        if content is None:
            os.remove(path)
        else:
            pathlib.Path(path).write_bytes(content)
    with pytest.raises(DataError) as caught:
        build_data.write_split(items, 'train', str(tmp_path / 'out' / 'deep'), 2, workers, num_classes=3)
    pattern = message.replace('{image}', re.escape(items[5].image)).replace('{label}', re.escape(items[5].label))
    assert re.search(pattern, str(caught.value))
    assert {path.suffix for path in (tmp_path / 'out' / 'deep').iterdir()} == {'.partial'}  # of the first shard


def test_what_was_there_stays_when_a_build_fails(tmp_path):
    items = make_items(tmp_path, 4)
    build_data.write_split(items, 'train', str(tmp_path / 'out'), 2)
    before = contents(tmp_path / 'out')
    pathlib.Path(items[3].image).write_bytes(b'broken')
    with pytest.raises(DataError):
        build_data.write_split(items, 'train', str(tmp_path / 'out'), 2)
    assert contents(tmp_path / 'out') == before


def test_ids_are_free_without_num_classes_and_ignore_label_is_always_allowed(tmp_path):
    (item,) = make_items(tmp_path, 1)
    pathlib.Path(item.label).write_bytes(dataset_files.png(np.full((6, 8), 254, np.uint8)))
    build_data.write_split([item], 'a', str(tmp_path / 'out'), 1)
    build_data.write_split([item], 'b', str(tmp_path / 'out'), 1, num_classes=3, ignore_label=254)
    with pytest.raises(DataError, match='254 on 48 pixels'):
        build_data.write_split([item], 'c', str(tmp_path / 'out'), 1, num_classes=3)
    assert list(contents(tmp_path / 'out')) == ['a-00000-of-00001.tfrecord', 'b-00000-of-00001.tfrecord']


def test_shards_of_another_number_are_not_mixed_in(tmp_path):
    items = make_items(tmp_path, 2)
    build_data.write_split(items, 'train', str(tmp_path / 'out'), 2)
    build_data.write_split(items, 'train-small', str(tmp_path / 'out'), 1)
    with pytest.raises(
        DataError, match="contains shards of an older 'train' split, such as train-00000-of-00002.tfrecord"
    ):
        build_data.write_split(items, 'train', str(tmp_path / 'out'), 1)
    build_data.write_split(items, 'val', str(tmp_path / 'out'), 1)
    (tmp_path / 'out' / 'val-00000-of-00001.tfrecord').rename(tmp_path / 'out' / 'val-000-of-001.tfrecord')
    with pytest.raises(DataError, match="older 'val' split, such as val-000-of-001.tfrecord"):
        build_data.write_split(items, 'val', str(tmp_path / 'out'), 1)


def test_nothing_to_write(tmp_path):
    with pytest.raises(DataError, match="^Split 'val' has no image: there is nothing to write.$"):
        build_data.write_split([], 'val', str(tmp_path), 1)


def test_output_folder_that_cannot_be(tmp_path):
    items = make_items(tmp_path, 1)
    with pytest.raises(DataError, match=r"^Cannot create the folder '.*0.png/out': .*output_dir.$"):
        build_data.write_split(items, 'val', f'{items[0].image}/out', 1)


def test_in_order_stays_only_a_little_ahead():
    started = []
    lock = threading.Lock()

    def work(number):
        with lock:
            started.append(number)
        time.sleep(0.001 * (number % 3))
        return number

    results = []
    for number in build_data.in_order(work, range(60), num_workers=2):
        results.append(number)
        assert len(started) <= len(results) + 2 * build_data._AHEAD + 1
    assert results == list(range(60))


def build_one(folder, image, label, **arguments):
    """The record of an image and its mask, and the sizes that it states."""
    (folder / 'image').write_bytes(image)
    (folder / 'mask').write_bytes(label or b'')
    item = pairs.SourceFiles(str(folder / 'image'), str(folder / 'mask') if label else None, 'name')
    summary = build_data.write_split([item], 'train', str(folder / 'out'), 1, **arguments)
    content = record_index.RecordIndex(summary.shards).read(0)
    features = wire.read_features(content)
    return example.parse(content), (features['image/height'], features['image/width'])


def array(content):
    return np.asarray(Image.open(io.BytesIO(content)))


@pytest.mark.parametrize('encode', [dataset_files.png, dataset_files.jpeg])
@pytest.mark.parametrize('value', range(2, 9))
def test_images_are_turned_as_viewers_show_them(tmp_path, caplog, encode, value):
    caplog.set_level('INFO')
    rows, columns = np.mgrid[:16, :24]
    pixels = np.stack([rows * 9, columns * 9, rows + columns], axis=2).astype(np.uint8)
    image = dataset_files.with_exif(encode(pixels), dataset_files.exif(value))
    wanted = np.asarray(ImageOps.exif_transpose(Image.open(io.BytesIO(image)))).astype(int)
    label = dataset_files.png(dataset_files.ids(*wanted.shape[:2]))
    record, size = build_one(tmp_path, image, label)
    assert np.abs(array(record.image_bytes) - wanted).max() <= (8 if encode is dataset_files.jpeg else 0)
    assert orientation.read(record.image_bytes) == 1
    assert record.label_bytes == label
    assert size == wanted.shape[:2]
    (line,) = [each.getMessage() for each in caplog.records if 'EXIF' in each.getMessage()]
    assert line.startswith("Split 'train': 1 of 1 images") and ('1 JPEG files' in line) == (
        encode is dataset_files.jpeg
    )


def test_stored_pixels_are_kept_where_they_alone_fit_the_mask(tmp_path, caplog):
    caplog.set_level('INFO')
    plain = dataset_files.jpeg(dataset_files.pixels(6, 8))
    record, size = build_one(
        tmp_path, dataset_files.with_exif(plain, dataset_files.exif(6)), dataset_files.png(dataset_files.ids(6, 8))
    )
    assert record.image_bytes == dataset_files.with_exif(
        plain, dataset_files.exif(1)
    )  # no byte changes but the orientation
    assert size == (6, 8)
    assert '1 keep their stored pixels' in caplog.text


def test_masks_are_turned_too(tmp_path):
    label = dataset_files.ids(6, 8)
    image = dataset_files.png(np.repeat(np.rot90(label, -1)[..., np.newaxis], 3, axis=2))
    for content in (dataset_files.png(label), dataset_files.palette_png(label), dataset_files.few_bit_png(label, 2)):
        record, _ = build_one(tmp_path, image, dataset_files.with_exif(content, dataset_files.exif(6)), num_classes=3)
        np.testing.assert_array_equal(array(record.label_bytes), np.rot90(label, -1))
        assert record.image_bytes == image


def test_images_without_masks_are_turned(tmp_path):
    pixels = dataset_files.pixels(6, 8)
    record, size = build_one(tmp_path, dataset_files.with_exif(dataset_files.png(pixels), dataset_files.exif(8)), None)
    np.testing.assert_array_equal(array(record.image_bytes), np.rot90(pixels))
    assert size == (8, 6)


def test_an_orientation_of_1_changes_no_byte(tmp_path, caplog):
    caplog.set_level('INFO')
    image = dataset_files.with_exif(dataset_files.jpeg(dataset_files.pixels(6, 8)), dataset_files.exif(1))
    record, _ = build_one(tmp_path, image, dataset_files.png(dataset_files.ids(6, 8)))
    assert record.image_bytes == image
    assert 'EXIF' not in caplog.text


@pytest.mark.parametrize(
    ('value', 'mask', 'parts'),
    [
        (6, (5, 8), ['5 x 8', '6 x 8', 'the image has EXIF orientation 6', '8 x 6']),
        (3, (8, 6), ['the image has EXIF orientation 3', '6 x 8']),
        (1, (8, 6), ['lost the EXIF orientation']),
    ],
)
def test_sizes_that_differ_name_the_orientation(tmp_path, value, mask, parts):
    image = dataset_files.with_exif(dataset_files.png(dataset_files.pixels(6, 8)), dataset_files.exif(value))
    with pytest.raises(DataError) as caught:
        build_one(tmp_path, image, dataset_files.png(dataset_files.ids(*mask)))
    for part in parts:
        assert part in str(caught.value)


@pytest.mark.parametrize('bits', [1, 2, 4])
def test_masks_of_few_bits_hold_ids(tmp_path, bits):
    label = dataset_files.ids(6, 8, classes=2**bits)
    record, _ = build_one(
        tmp_path, dataset_files.png(dataset_files.pixels()), dataset_files.few_bit_png(label, bits), num_classes=2**bits
    )
    np.testing.assert_array_equal(array(record.label_bytes), label)


def test_unsure_orientations_beside_kept_ones_are_warned_of(tmp_path, caplog):
    items = make_items(tmp_path, 2)
    for item, value in zip(items, (6, 3), strict=True):
        path = pathlib.Path(item.image)
        path.write_bytes(dataset_files.with_exif(path.read_bytes(), dataset_files.exif(value)))
    build_data.write_split(items, 'train', str(tmp_path / 'out'), 1)
    assert [each.levelname for each in caplog.records if 'build the records again' in each.getMessage()] == ['WARNING']


def test_a_name_with_a_line_break_is_on_one_line():
    with pytest.raises(DataError, match=r"^Cannot use 'a\\nb\.png': it is empty\.$"):
        with pairs.naming('a\nb.png'):
            raise DataError('it is empty')


class TestInstances:
    """Instance masks beside class masks."""

    ids = np.arange(30, dtype=np.uint16).reshape(5, 6) * 2000
    classes = np.ones((5, 6), np.uint8)

    def built(self, folder, image=None, mask=None, instances=None):
        files = {
            'image': dataset_files.jpeg(dataset_files.pixels(5, 6)) if image is None else image,
            'mask': dataset_files.png(self.classes) if mask is None else mask,
            'instances': dataset_files.png(self.ids) if instances is None else instances,
        }
        for name, content in files.items():
            (folder / name).write_bytes(content)
        source = mask_sources.FileBeside(str(folder / 'instances'))
        item = pairs.SourceFiles(str(folder / 'image'), str(folder / 'mask'), 'name', source)
        return example.parse(pairs.read(item, MaskIds(2, 255)).record)

    def read(self, record, size=(5, 6)):
        return planes.read(planes.INSTANCE, record.features, size)[..., 0]

    def test_they_are_read_back(self, tmp_path):
        record = self.built(tmp_path)
        np.testing.assert_array_equal(self.read(record), self.ids)
        assert record.label_bytes == dataset_files.png(self.classes)
        few = self.built(tmp_path, instances=dataset_files.palette_png((self.ids // 2000).astype(np.uint8)))
        np.testing.assert_array_equal(self.read(few), self.ids // 2000)

    @pytest.mark.parametrize('value', range(2, 9))
    def test_they_are_turned_as_the_class_mask(self, tmp_path, value):
        photo = dataset_files.with_exif(dataset_files.jpeg(dataset_files.pixels(5, 6)), dataset_files.exif(value))
        shown = orientation.turned_pixels(self.ids, value)
        marked = [dataset_files.with_exif(dataset_files.png(m), dataset_files.exif(value))
                  for m in (self.classes, self.ids)]  # fmt: skip
        record = self.built(tmp_path, photo, *marked)
        np.testing.assert_array_equal(self.read(record, shown.shape), shown)
        upright = dataset_files.png(np.ones(shown.shape, np.uint8))
        record = self.built(tmp_path, photo, upright, dataset_files.png(shown))
        np.testing.assert_array_equal(self.read(record, shown.shape), shown)
        record = self.built(tmp_path, dataset_files.jpeg(dataset_files.pixels(*shown.shape)), upright, marked[1])
        np.testing.assert_array_equal(self.read(record, shown.shape), shown)
        record = self.built(tmp_path, photo, upright, marked[1])  # as viewers show both
        np.testing.assert_array_equal(self.read(record, shown.shape), shown)
        if value >= 5:
            stored = self.built(tmp_path, photo)  # both masks have the size of the stored pixels
            np.testing.assert_array_equal(self.read(stored), self.ids)
            with pytest.raises(
                DataError, match='instance mask.*: it fits the image in another EXIF orientation than its class'
            ):
                self.built(tmp_path, photo, upright)

    def test_another_size(self, tmp_path):
        with pytest.raises(DataError, match=r"mask': its instance mask cannot be used: it is 6 x 5 pixels"):
            self.built(tmp_path, instances=dataset_files.png(self.ids.T.copy()))

    def test_an_instance_without_class(self, tmp_path):
        classes = self.classes.copy()
        classes[0, :4] = 255
        with pytest.raises(DataError, match=r'instance 2000, instance 4000, instance 6000 of .* has no class: .* 255'):
            self.built(tmp_path, mask=dataset_files.png(classes))

    def test_files_that_are_no_instances(self, tmp_path):
        with pytest.raises(DataError, match=r'it has 3 channels \(RGB\)'):
            self.built(tmp_path, instances=dataset_files.png(dataset_files.pixels(5, 6)))
        with pytest.raises(DataError, match=r"^Cannot read '.*nowhere': No such file"):
            mask_sources.FileBeside(str(tmp_path / 'nowhere')).masks(str(tmp_path / 'mask'))

    def test_a_changed_file_of_instances_is_built_again(self, tmp_path):
        (tmp_path / 'a').write_bytes(b'a')
        source = mask_sources.FileBeside(str(tmp_path / 'a'))
        first = source.key
        (tmp_path / 'a').write_bytes(b'ab')
        assert source.key != first != mask_sources.FileBeside(str(tmp_path / 'b')).key
