"""Tests for checks/record_check.py."""

import dataclasses
import errno
import json
import os

import numpy as np
import pytest

from deeplab import cli, wording
from deeplab.checks import check_cache, record_check
from deeplab.cli.program import names_in_messages
from deeplab.datasets import example, planes, record_index, segmentation_dataset
from deeplab.errors import DataError
from deeplab.options import DatasetOptions
from deeplab.system import child_process, processors
from tests.helpers import dataset_files
from tests.helpers.damage import of_later_zip


def dataset_of(folder, *shards):
    dataset_files.write_split(folder, 'train', [list(records) for records in shards])
    return segmentation_dataset.get_dataset('camvid', 'train', str(folder))


def skipping(dataset):
    return dataclasses.replace(dataset, skip_corrupt_records=True)


def message(*arguments, **keywords):
    with pytest.raises(DataError) as caught:
        record_check.check(*arguments, **keywords)
    return str(caught.value)


def test_good_records(tmp_path):
    label = np.array([[0, 1], [1, 255]], np.uint8)
    records = [
        dataset_files.record(0, 2, 2, label=dataset_files.png(label)),
        dataset_files.record(1, 5, 2, label=dataset_files.png(np.zeros((5, 2), np.uint8))),
        dataset_files.record(2, 2, 9, label=dataset_files.png(np.full((2, 9), 2, np.uint8))),
    ]
    check_result = record_check.check(dataset_of(tmp_path, records[:2], records[2:]), 4)
    assert check_result.records.tolist() == [0, 1, 2]
    assert check_result.sizes.tolist() == [[2, 2], [5, 2], [2, 9]]
    assert check_result.class_pixels.tolist() == [11, 2, 18, 0]
    assert check_result.class_image_pixels.tolist() == [3 + 10, 3, 18, 0]
    assert check_result.ignored_pixels == 1
    assert check_result.corrupt == ()


def test_an_ignored_class_counts_as_ignored(tmp_path):
    label = np.array([[0, 1, 1]], np.uint8)
    dataset = dataset_of(tmp_path, [dataset_files.record(0, 1, 3, label=dataset_files.png(label))])
    descriptor = dataclasses.replace(dataset.descriptor, ignore_label=0)
    check_result = record_check.check(dataclasses.replace(dataset, descriptor=descriptor), 2)
    assert (check_result.class_pixels.tolist(), check_result.ignored_pixels) == ([0, 2], 1)
    assert check_result.class_image_pixels.tolist() == [0, 2]


def test_order_and_result_do_not_depend_on_the_threads(tmp_path, monkeypatch):
    dataset = dataset_of(tmp_path, [dataset_files.record(seed, 3 + seed % 5, 4) for seed in range(100)])
    found = []
    for threads in (1, 4):
        monkeypatch.setattr(processors, 'available_cores', lambda threads=threads: threads)
        found.append(record_check.check(dataset, 3))
    one, four = found
    np.testing.assert_array_equal(one.sizes, four.sizes)
    np.testing.assert_array_equal(one.class_pixels, four.class_pixels)
    np.testing.assert_array_equal(one.class_image_pixels, four.class_image_pixels)
    assert one.records.tolist() == list(range(100))


def test_a_check_takes_what_was_begun_for_it_alone(tmp_path, monkeypatch):
    dataset = dataset_of(tmp_path, [dataset_files.record(seed) for seed in range(3)])
    options = DatasetOptions('train', str(tmp_path), 'camvid')
    begun = {}
    monkeypatch.setattr(child_process, 'begin', lambda name, work: begun.update({name: work()}))
    monkeypatch.setattr(child_process, 'result', lambda name: begun.pop(name, None))
    expected = record_check.check(dataset, 3)
    record_check.begin(options, 3, True, None)
    with monkeypatch.context() as patch:
        patch.setattr(check_cache, 'inspect', None)  # is not called
        found = record_check.check(dataset, 3)
    np.testing.assert_array_equal(found.class_pixels, expected.class_pixels)
    assert found.records.tolist() == [0, 1, 2]
    record_check.begin(options, 200, True, None)  # another check, of which this one takes nothing
    assert 'ids that are neither among the 1 classes' in message(dataset, 1)
    record_check.check(dataset, 3, cache_dir=str(tmp_path))
    record_check.begin(options, 3, True, str(tmp_path))
    assert list(begun.values()) == [None]  # the result is cached


def test_ids_outside_the_classes_are_named(tmp_path):
    label = dataset_files.ids(classes=1)
    label[0, :5] = 7
    label[1, 0] = 200
    dataset = dataset_of(
        tmp_path,
        [dataset_files.record(0)],
        [dataset_files.record(1), dataset_files.record(2, label=dataset_files.png(label))],
    )
    assert message(dataset, 3) == (
        "1 of 3 records of split 'train' has a mask with ids that are neither among the 3 classes (0 to 2) nor "
        "ignore_label 255: 'image_2' (train-00001-of-00002.tfrecord, record 1): id 7 on 5 pixels, id 200 on 1 "
        'pixels. Set num_classes or ignore_label in the description of the data set (name), or fix the masks.'
    )


def test_ids_that_show_what_went_wrong(tmp_path):
    """All masks together show it even if one alone does not; another num_classes is the last explanation."""
    levels = [np.full((6, 8), level, np.uint8) for level in (0, 127, 254)]
    records = [dataset_files.record(seed, label=dataset_files.png(label)) for seed, label in enumerate(levels)]
    text = message(dataset_of(tmp_path, records), 3)
    for part in (
        "'image_1' (train-00000-of-00001.tfrecord, record 1): id 127 on 48 pixels",
        "'image_2' (train-00000-of-00001.tfrecord, record 2): id 254 on 48 pixels",
        'a gray level for each class (0, 127, 254)',
        'the ids 0 to 2',
        'num_classes or ignore_label in the description of the data set (name)',
    ):
        assert part in text


def test_many_problems_are_counted_and_the_first_shown(tmp_path):
    bad = [dataset_files.record(seed, label=dataset_files.png(np.full((6, 8), 9, np.uint8))) for seed in range(5)]
    small = dataset_files.record(5, label=dataset_files.png(dataset_files.ids(3, 8)))
    text = message(dataset_of(tmp_path, [*bad, small]), 3)
    assert "1 of 6 records of split 'train' has a mask that differs in size from the image: " in text
    assert "'image_5' (train-00000-of-00001.tfrecord, record 5): image 6 x 8, mask 3 x 8. Resize the masks" in text
    assert "5 of 6 records of split 'train' have a mask with ids" in text
    assert "'image_2' (train-00000-of-00001.tfrecord, record 2): id 9 on 48 pixels; and 2 more. Set num_classes" in text
    assert "'image_3'" not in text and '\n' not in text


def test_palette_and_color_masks(tmp_path):
    text = message(
        dataset_of(tmp_path, [dataset_files.record(0, label=dataset_files.palette_png(dataset_files.ids()))]), 3
    )
    assert 'has a mask with a palette' in text and "'image_0' (" in text
    assert 'remove_gt_colormap' in text
    text = message(dataset_of(tmp_path, [dataset_files.record(0, label=dataset_files.png(dataset_files.pixels()))]), 3)
    assert 'mask in color' in text and "'image_0' (train-00000-of-00001.tfrecord, record 0): RGB" in text
    deep = dataset_files.deep_png(np.ones((6, 8, 1), np.uint16))
    assert "has a 16-bit mask: 'image_0'" in message(dataset_of(tmp_path, [dataset_files.record(0, label=deep)]), 3)


def test_a_split_without_masks(tmp_path):
    dataset = dataset_of(tmp_path, [dataset_files.record(0, label=None), dataset_files.record(1, label=None)])
    assert message(dataset, 3) == (
        "2 of 2 records of split 'train' have no mask: 'image_0' (train-00000-of-00001.tfrecord, record 0); "
        "'image_1' (train-00000-of-00001.tfrecord, record 1). Add masks with the names of the images "
        '(without masks, a split can be visualized without error maps, but neither trained on nor evaluated), then '
        'build the records again.'
    )
    check_result = record_check.check(dataset, 3, needs_labels=False)
    assert check_result.records.tolist() == [0, 1]
    assert check_result.class_pixels.tolist() == [0, 0, 0]


def test_records_of_classes_of_images_name_their_task(tmp_path):
    dataset = dataset_of(tmp_path, [dataset_files.record(0, label=None)])
    described = dataclasses.replace(dataset.descriptor, has_masks=False)
    said = message(dataclasses.replace(dataset, descriptor=described), 3)
    assert 'has no mask' in said
    assert said.endswith("set task='classification', or pass records with masks.")


def test_without_need_masks_are_not_judged(tmp_path):
    dataset = dataset_of(
        tmp_path,
        [
            dataset_files.record(0, label=dataset_files.png(dataset_files.pixels())),
            dataset_files.record(1, label=b'rubbish'),
        ],
    )
    assert len(record_check.check(dataset, 3, needs_labels=False).records) == 2


def test_no_record_at_all(tmp_path):
    dataset = dataset_of(tmp_path, [], [])
    assert message(dataset, 3) == f"The shards of split 'train' in '{tmp_path}' contain no records."


def corrupt_dataset(folder):
    """Five good records; between them a bad checksum, no Example, a cut image and a cut mask; then a cut file."""
    cut_image = dataset_files.record(11, image=dataset_files.png(dataset_files.pixels())[:-20])
    cut_mask = dataset_files.record(12, label=dataset_files.png(dataset_files.ids())[:-20])
    first = [
        dataset_files.record(0),
        dataset_files.record(1),
        b'no example',
        cut_image,
        dataset_files.record(2),
        cut_mask,
    ]
    dataset = dataset_of(folder, first, [dataset_files.record(3), dataset_files.record(4), dataset_files.record(5)])
    with open(dataset.shards[0], 'r+b') as file:
        file.seek(len(first[0]) + 16 + 40)
        byte = file.read(1)
        file.seek(-1, os.SEEK_CUR)
        file.write(bytes([byte[0] ^ 1]))
    os.truncate(dataset.shards[1], os.path.getsize(dataset.shards[1]) - 1)
    return dataset


def test_corrupt_records_are_refused_together(tmp_path):
    dataset = corrupt_dataset(tmp_path)
    assert 'train-00001-of-00002.tfrecord, record 2: the file ends 1 bytes before the end of the record' in message(
        dataset, 3
    )
    dataset_files.write_shard(tmp_path / 'train-00001-of-00002.tfrecord', [])
    text = message(dataset, 3)
    for part in (
        '4 of 6 records',
        'train-00000-of-00002.tfrecord, record 1: its checksum',
        'train-00000-of-00002.tfrecord, record 2: it is not a tf.train.Example',
        "'image_11' (train-00000-of-00002.tfrecord, record 3)",
        'and 1 more',
        'skip_corrupt_records=True',
    ):
        assert part in text


@pytest.mark.parametrize(
    ('record', 'text'),
    [
        (
            b'no example',
            'train-00000-of-00001.tfrecord, record 0: it is not a tf.train.Example',
        ),
        (
            dataset_files.record(3, image=b'\xff\xd8\xff'),
            "'image_3' (train-00000-of-00001.tfrecord, record 0): its header is invalid.",
        ),
        *(
            (
                dataset_files.record(3, image=encode(dataset_files.pixels(60, 80))[:-5]),
                "'image_3' (train-00000-of-00001.tfrecord, record 0): it cannot be",
            )
            for encode in (dataset_files.png, dataset_files.jpeg, dataset_files.npy)
        ),
        (
            dataset_files.record(3, label=dataset_files.png(dataset_files.ids())[:-20]),
            "mask of 'image_3' (train-00000-of-00001.tfrecord, record 0): it cannot be decoded",
        ),
    ],
)
def test_each_corrupt_record_is_named(tmp_path, record, text):
    assert text in message(dataset_of(tmp_path, [record]), 3)


def test_names_of_images_are_escaped_and_cut(tmp_path):
    image = dataset_files.png(dataset_files.pixels())
    bad = [
        example.encode(image[:-9], 'png', name, 6, 8, 3, dataset_files.png(dataset_files.ids()))
        for name in ('a\n\x1b[2J', 'x' * 5000)
    ]
    found = record_check.check(skipping(dataset_of(tmp_path, [dataset_files.record(0), *bad])), 3).corrupt
    assert len(found) == 2
    assert all(text.isprintable() and len(text) < 400 for text in found)
    assert r"'a\n\x1b[2J' (" in found[0]


def test_corrupt_records_are_skipped_and_counted(tmp_path, caplog):
    dataset = corrupt_dataset(tmp_path)
    check_result = record_check.check(skipping(dataset), 3)
    assert check_result.records.tolist() == [0, 4, 6, 7]
    assert len(check_result.corrupt) == 5
    assert [check_result.index.name_of(record) for record in check_result.records[-2:]] == [
        'train-00001-of-00002.tfrecord, record 0',
        'train-00001-of-00002.tfrecord, record 1',
    ]
    assert check_result.class_pixels.sum() == 4 * 6 * 8


def test_nothing_left_after_skipping(tmp_path):
    dataset = dataset_of(tmp_path, [b'no example'])
    text = message(skipping(dataset), 3)
    assert f"split 'train' in '{tmp_path}'" in text and 'train-00000-of-00001.tfrecord, record 0' in text


def test_wrong_masks_are_not_skipped(tmp_path):
    dataset = dataset_of(
        tmp_path, [dataset_files.record(0), dataset_files.record(1, label=dataset_files.png(dataset_files.ids(3, 8)))]
    )
    assert 'differs in size' in message(skipping(dataset), 3)


def test_check_result_is_kept_until_something_changes(tmp_path, monkeypatch):
    dataset = dataset_of(tmp_path / 'records', [dataset_files.record(0), dataset_files.record(1)])
    cache = tmp_path / 'log' / 'deep'
    first = record_check.check(dataset, 3, cache_dir=str(cache))
    (kept,) = cache.iterdir()
    with np.load(kept) as content:
        assert content['records'].tolist() == [0, 1]

    reads = []
    read = record_index.RecordIndex.read
    monkeypatch.setattr(record_index.RecordIndex, 'read', lambda self, n: reads.append(n) or read(self, n))
    again = record_check.check(dataset, 3, cache_dir=str(cache))
    assert reads == []
    np.testing.assert_array_equal(again.sizes, first.sizes)
    np.testing.assert_array_equal(again.class_pixels, first.class_pixels)
    np.testing.assert_array_equal(again.class_image_pixels, first.class_image_pixels)
    assert (again.ignored_pixels, again.corrupt) == (first.ignored_pixels, first.corrupt)

    record_check.check(dataset, 4, cache_dir=str(cache))  # other arguments
    assert len(reads) == 2
    os.utime(dataset.shards[0], ns=(1, 1))  # another file
    record_check.check(dataset, 3, cache_dir=str(cache))
    assert len(reads) == 4
    for path in cache.iterdir():
        path.write_bytes(path.read_bytes()[:-9])  # a broken check_result is none
    record_check.check(dataset, 3, cache_dir=str(cache))
    assert len(reads) == 6
    kept.write_bytes(of_later_zip(kept.read_bytes()))
    record_check.check(dataset, 3, cache_dir=str(cache))
    assert len(reads) == 8


def test_what_the_system_could_not_read_is_checked_again(tmp_path, monkeypatch):
    """Other parts are kept, and so is damage."""
    shards = [dataset_files.record(0), b'no example'], [dataset_files.record(1), dataset_files.record(2)]
    dataset = skipping(dataset_of(tmp_path / 'records', *shards))
    reads, read = [], record_index.RecordIndex._read_at
    failing = [2]

    def observed(self, shard, size, offset):
        (number,) = np.flatnonzero((self.shard == shard) & (self.offset == offset))
        reads.append(number)
        if number in failing:
            raise OSError(errno.EIO, 'Input/output error')
        return read(self, shard, size, offset)

    monkeypatch.setattr(record_index.RecordIndex, '_read_at', observed)
    cache = str(tmp_path / 'log')
    assert record_check.check(dataset, 3, cache_dir=cache).records.tolist() == [0, 3]
    reads.clear()
    failing.clear()
    assert record_check.check(dataset, 3, cache_dir=cache).records.tolist() == [0, 2, 3]
    assert sorted(reads) == [2, 3]
    reads.clear()
    assert record_check.check(dataset, 3, cache_dir=cache).records.tolist() == [0, 2, 3]
    assert reads == []

    os.utime(dataset.shards[1], ns=(1, 1))
    walked = record_index._walked
    none = record_index.Columns(*(np.zeros(0, kind) for kind in ('<i8', '<i8', '<u4')))
    failure = OSError(errno.EIO, 'Input/output error')
    monkeypatch.setattr(record_index, '_walked', lambda path: (none, failure) if '00001-of' in path else walked(path))
    assert record_check.check(dataset, 3, cache_dir=cache).records.tolist() == [0]
    monkeypatch.setattr(record_index, '_walked', walked)
    assert record_check.check(dataset, 3, cache_dir=cache).records.tolist() == [0, 2, 3]


def test_bad_records_leave_no_check_result(tmp_path):
    dataset = dataset_of(tmp_path / 'records', [dataset_files.record(0, label=None)])
    message(dataset, 3, cache_dir=str(tmp_path / 'log'))
    assert not (tmp_path / 'log').exists()


def test_a_folder_that_cannot_keep_the_check_result_is_no_error(tmp_path):
    dataset = dataset_of(tmp_path / 'records', [dataset_files.record(0)])
    (tmp_path / 'file').touch()
    assert len(record_check.check(dataset, 3, cache_dir=str(tmp_path / 'file')).records) == 1


def test_images_beyond_the_crop_are_named(tmp_path):
    dataset = dataset_of(
        tmp_path, [dataset_files.record(0, 20, 30), dataset_files.record(1, 50, 20), dataset_files.record(2, 10, 33)]
    )
    check_result = record_check.check(dataset, 3)
    record_check.require_fit(check_result, (50, 33))
    with pytest.raises(DataError) as caught:
        record_check.require_fit(check_result, (33, 32), output_stride=8)
    assert str(caught.value) == (
        "Image 'image_1' (train-00000-of-00001.tfrecord, record 1) is 50 x 20 pixels (height x width), larger than "
        'crop_size=(33, 32); 2 of 3 images are. Set crop_size=(57, 33).'
    )
    for program, field, flag in (
        ('train', 'ValidationOptions.crop_size', '--eval_crop_size'),
        ('vis', 'ModelOptions.crop_size', '--vis_crop_size'),  # which knows the flags of other programs, too
    ):
        names = wording.flag_names(names_in_messages(cli.find_program(program)))
        with names, pytest.raises(DataError, match=f'larger than {flag}=33,32; .* Set {flag}=57,33.'):
            record_check.require_fit(check_result, (33, 32), 8, field=field)
    record_check.require_fit(check_result, (25, 17), resized=lambda height, width: (height // 2, width // 2))


def dataset_for(folder, channels, bits, *contents):
    """A split of images with good masks, and the data set that describes them."""
    records = [dataset_files.record(seed, image=content) for seed, content in enumerate(contents)]
    dataset_files.write_split(folder, 'train', [records])
    (folder / 'it.json').write_text(json.dumps({'num_classes': 3, 'image_channels': channels, 'image_bits': bits}))
    return segmentation_dataset.get_dataset(str(folder / 'it.json'), 'train', str(folder))


def values(channels, kind=np.uint8):
    return np.zeros((6, 8, channels), kind)


class TestImages:
    @pytest.mark.parametrize(
        ('channels', 'bits', 'contents'),
        [
            (
                1,
                8,
                [
                    dataset_files.png(values(1)[..., 0]),
                    dataset_files.png(values(2)),
                    dataset_files.jpeg(values(1)[..., 0]),
                ],
            ),
            (3, 8, [dataset_files.png(values(1)[..., 0]), dataset_files.png(values(4)), dataset_files.jpeg(values(3))]),
            (
                3,
                16,
                [
                    dataset_files.deep_png(values(3, np.uint16)),
                    dataset_files.png(values(3)),
                    dataset_files.jpeg(values(3)),
                ],
            ),
            (
                4,
                16,
                [
                    dataset_files.deep_png(values(4, np.uint16)),
                    dataset_files.npy(values(4, np.uint16)),
                    dataset_files.npy(values(4)),
                ],
            ),
            (7, 8, [dataset_files.npy(values(7))]),
        ],
    )
    def test_good_ones(self, tmp_path, caplog, channels, bits, contents):
        check_result = record_check.check(dataset_for(tmp_path, channels, bits, *contents), 3)
        assert check_result.sizes.tolist() == [[6, 8]] * len(contents)
        assert caplog.text == ''

    def test_other_channels_are_named(self, tmp_path):
        dataset = dataset_for(
            tmp_path, 4, 8, dataset_files.npy(values(4)), dataset_files.png(values(3)), dataset_files.npy(values(5))
        )
        text = message(dataset, 3)
        for part in (
            "2 of 3 records of split 'train' do not have the 4 channels of the data set",
            "'image_1' (train-00000-of-00001.tfrecord, record 1): 3;",
            "'image_2' (train-00000-of-00001.tfrecord, record 2): 5.",
            'image_channels in the description of the data set (name)',
        ):
            assert part in text

    @pytest.mark.parametrize(
        ('channels', 'content'),
        [(1, dataset_files.deep_png(values(1, np.uint16))), (3, dataset_files.npy(values(3, np.uint16)))],
    )
    def test_sixteen_bits_in_a_data_set_of_eight(self, tmp_path, channels, content):
        text = message(dataset_for(tmp_path, channels, 8, content), 3, needs_labels=False)
        assert "has 16 bits, but the data set has 8: 'image_0'" in text
        assert text.endswith('Set "image_bits": 16 in the description of the data set (name).')

    def test_png_files_that_have_always_lost_bits_are_worth_a_warning(self, tmp_path, caplog):
        deep = dataset_files.deep_png(values(3, np.uint16))
        record_check.check(dataset_for(tmp_path, 3, 8, deep, dataset_files.png(values(3))), 3)
        assert "1 of 2 images of split 'train' have 16 bits, of which the lower 8 are lost." in caplog.text

    def test_an_array_that_should_be_a_png(self, tmp_path):
        assert 'an image stored as a NumPy array that PNG could hold' in message(
            dataset_for(tmp_path, 3, 8, dataset_files.npy(values(3))), 3
        )

    def test_the_check_result_is_that_of_these_channels(self, tmp_path):
        dataset = dataset_for(tmp_path, 1, 16, dataset_files.png(values(1)[..., 0]))
        record_check.check(dataset, 3, cache_dir=str(tmp_path))
        (tmp_path / 'it.json').write_text('{"num_classes": 3, "image_channels": 2}')
        other = segmentation_dataset.get_dataset(str(tmp_path / 'it.json'), 'train', str(tmp_path))
        assert 'not have the 2 channels' in message(other, 3, cache_dir=str(tmp_path))


def test_samples_of_few_bits_are_ids(tmp_path):
    label = np.array([[0, 1, 1]], np.uint8)
    records = [dataset_files.record(0, 1, 3, label=dataset_files.few_bit_png(label, bits)) for bits in (1, 2, 4)]
    assert record_check.check(dataset_of(tmp_path, records), 2).class_pixels.tolist() == [3, 6]


def test_an_orientation_that_explains_a_size_is_named(tmp_path):
    turned = dataset_files.with_exif(dataset_files.jpeg(dataset_files.pixels(6, 8)), dataset_files.exif(6))
    records = [
        dataset_files.record(0),
        dataset_files.record(1, image=turned, label=dataset_files.png(dataset_files.ids(8, 6))),
    ]
    text = message(dataset_of(tmp_path, records), 3)
    for part in ("'image_1' (", 'image 6 x 8, mask 8 x 6', 'EXIF orientation 6', '8 x 6', 'Build the records again'):
        assert part in text


def test_orientations_in_records_are_warned_of(tmp_path, caplog):
    turned = dataset_files.with_exif(dataset_files.jpeg(dataset_files.pixels(6, 8)), dataset_files.exif(3))
    record_check.check(dataset_of(tmp_path, [dataset_files.record(0), dataset_files.record(1, image=turned)]), 3)
    (line,) = [each.getMessage() for each in caplog.records if 'EXIF' in each.getMessage()]
    assert line.startswith("1 of 2 images of split 'train'")


def with_instances(label, instances):
    return example.encode(
        dataset_files.png(dataset_files.pixels()), 'png', 'name', 6, 8, 3, dataset_files.png(label),
        {planes.INSTANCE.feature: dataset_files.png(instances)},
    )  # fmt: skip


class TestPlanes:
    """Planes that a task needs."""

    label = dataset_files.ids()
    instances = np.arange(48, dtype=np.uint16).reshape(6, 8)

    def test_good_planes_and_no_need_of_planes(self, tmp_path):
        good = with_instances(self.label, self.instances)
        dataset = dataset_of(tmp_path, [good, good])
        assert len(record_check.check(dataset, 4, planes=[planes.INSTANCE]).records) == 2
        dataset = dataset_of(tmp_path, [good, dataset_files.record()])
        assert len(record_check.check(dataset, 4, cache_dir=str(tmp_path)).records) == 2
        text = message(dataset, 4, cache_dir=str(tmp_path), planes=[planes.INSTANCE])  # the cache is of another check
        assert "1 of 2 records of split 'train' has no plane (such as instance ids or depth) that the" in text
        assert "record 1) has no plane 'instance' (the key 'image/segmentation/instance/encoded')" in text
        assert '--instances' in text

    def test_planes_of_another_size(self, tmp_path):
        text = message(
            dataset_of(tmp_path, [with_instances(self.label, self.instances.T)]), 4, planes=[planes.INSTANCE]
        )
        assert "plane 'instance': it is 8 x 6 pixels (height x width), its image 6 x 8" in text

    def test_instances_without_class(self, tmp_path):
        label = self.label.copy()
        label[1, :5] = 255
        text = message(dataset_of(tmp_path, [with_instances(label, self.instances)]), 4, planes=[planes.INSTANCE])
        assert 'an instance whose pixels are all ignored' in text
        assert 'instance 8, instance 9, instance 10' in text and 'Give these instances a class' in text
