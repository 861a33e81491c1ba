import dataclasses
import io
import os
import pathlib
import subprocess
import sys
import zipfile

import numpy as np
import pytest
from PIL import Image

from deeplab import common
from deeplab import vis as vis_program
from deeplab.core import preprocess_utils
from deeplab.datasets import descriptor
from deeplab.errors import DataError, OptionError
from deeplab.inference import any_size
from deeplab.options import VIS_SAVED, ResizeOptions, VisOptions, WaitOptions
from deeplab.pictures import drawing
from deeplab.utils import save_annotation
from tests.helpers import checkpoint_files
from tests.helpers import evaluation_setup as setup

ONCE = WaitOptions(interval_secs=0, max_rounds=1, timeout_secs=0)
EVAL_IDS = np.array([7, 8, 11, 26])


@pytest.fixture
def options(tmp_path, monkeypatch):
    setup.use_small_network(monkeypatch)
    dataset = setup.write_data(tmp_path / 'records')
    (tmp_path / 'train').mkdir()
    return VisOptions(
        setup.MODEL,
        dataset,
        str(tmp_path / 'train'),
        str(tmp_path / 'vis'),
        wait=ONCE,
        batch_size=2,
        also_save_raw_predictions=True,
    )


def read(*parts):
    return np.asarray(Image.open(pathlib.Path(*parts)))


def expected_ids(number):
    return setup.image(number)[..., 0] // 10


def test_moving_averages_take_the_place_of_the_weights(options, caplog):
    values = {'weight': np.zeros(1, np.float32), 'weight/ExponentialMovingAverage': np.ones(1, np.float32)}
    checkpoint_files.write(pathlib.Path(options.checkpoint_dir) / 'model.ckpt-3', values)
    result = vis_program.run(dataclasses.replace(options, use_moving_average=True))
    np.testing.assert_array_equal(read(result.raw_dir, 'image_0.png'), EVAL_IDS[expected_ids(0)])
    assert 'use_moving_average' not in caplog.text
    result = vis_program.run(options)
    assert 'Set use_moving_average=True to use them' in caplog.text
    checkpoint_files.write_run(options.checkpoint_dir, 0.99)
    vis_program.run(options)
    np.testing.assert_array_equal(read(result.raw_dir, 'image_0.png'), EVAL_IDS[expected_ids(0)])


def test_files_names_sizes_and_colors(options):
    setup.write_checkpoint(options.checkpoint_dir)
    result = vis_program.run(options)
    colors = descriptor.load(options.dataset.name).palette
    for number in range(5):
        np.testing.assert_array_equal(read(result.pictures_dir, f'{number:06d}_image.png'), setup.image(number))
        ids = expected_ids(number)
        np.testing.assert_array_equal(read(result.pictures_dir, f'{number:06d}_prediction.png'), colors[ids])
        np.testing.assert_array_equal(read(result.raw_dir, f'image_{number}.png'), EVAL_IDS[ids])
    assert len(list(pathlib.Path(result.pictures_dir).iterdir())) == 10
    assert len(list(pathlib.Path(result.raw_dir).iterdir())) == 5
    assert result.pictures_dir == str(pathlib.Path(options.vis_logdir) / 'segmentation_results')
    assert result.raw_dir == str(pathlib.Path(options.vis_logdir) / 'raw_segmentation_results')
    assert result.report.startswith('5 images in ')
    assert result.raw_dir in result.report


def test_a_smaller_split_replaces_all_that_a_larger_one_left(options, tmp_path):
    setup.write_checkpoint(options.checkpoint_dir)
    vis_program.run(options)
    folder = pathlib.Path(options.vis_logdir)
    for mine in ('segmentation_results/000009_image.png', 'raw_segmentation_results/mine.png', 'notes.txt'):
        (folder / mine).write_text('mine')
    smaller = setup.write_data(tmp_path / 'few', names=['x', 'y', 'z', 'u', 'v'])
    os.remove(tmp_path / 'few' / 'val-00001-of-00002.tfrecord')
    os.rename(tmp_path / 'few' / 'val-00000-of-00002.tfrecord', tmp_path / 'few' / 'val-00000-of-00001.tfrecord')
    vis_program.run(dataclasses.replace(options, dataset=smaller))
    pictures = {f'{number:06d}_{kind}.png' for number in range(3) for kind in ('image', 'prediction')}
    assert set(os.listdir(folder / 'segmentation_results')) == pictures | {'000009_image.png'}
    assert set(os.listdir(folder / 'raw_segmentation_results')) == {'x.png', 'y.png', 'z.png', 'mine.png'}
    vis_program.run(dataclasses.replace(options, dataset=smaller, also_save_raw_predictions=False))
    assert os.listdir(folder / 'raw_segmentation_results') == ['mine.png']
    assert (folder / 'notes.txt').exists()


def test_the_resize_is_undone_where_both_bounds_are_set(options):
    setup.write_checkpoint(options.checkpoint_dir)
    result = vis_program.run(dataclasses.replace(options, resize=ResizeOptions(min_value=9, max_value=17)))
    for number, size in enumerate(setup.SIZES):
        assert read(result.raw_dir, f'image_{number}.png').shape == size
        np.testing.assert_array_equal(read(result.pictures_dir, f'{number:06d}_image.png'), setup.image(number))


STREETS = [f'berlin_00000{number}_000019' for number in range(5)]


def test_further_pictures_and_the_archive_of_a_server_have_the_sizes_of_the_images(options, tmp_path):
    setup.write_checkpoint(options.checkpoint_dir)
    changed = dataclasses.replace(
        options,
        dataset=setup.write_data(tmp_path / 'streets', names=STREETS),
        resize=ResizeOptions(min_value=9, max_value=17),
        save=VIS_SAVED,
        overlay_alpha=1.0,
        submission='cityscapes',
    )
    result = vis_program.run(changed)
    colors = descriptor.load(changed.dataset.name).palette
    for number, size in enumerate(setup.SIZES):
        seen = {kind: read(result.pictures_dir, f'{number:06d}_{kind}.png') for kind in ('prediction', *VIS_SAVED)}
        truth, predicted = setup.truth(number), read(result.raw_dir, f'{STREETS[number]}.png')
        np.testing.assert_array_equal(seen['overlay'], seen['prediction'])
        np.testing.assert_array_equal(
            seen['errors'] == drawing.WRONG,
            np.repeat((predicted != EVAL_IDS[truth % 4]) & (truth < 255), 3).reshape(*size, 3),
        )
        assert (seen['errors'][0, 0] == drawing.WITHOUT_TRUTH).all()
        assert (seen['confidence'] == 255).all() and seen['confidence'].shape == size
        assert seen['contours'].shape == (*size, 3)
    legend = read(result.pictures_dir, 'legend.png')
    assert {tuple(color) for color in colors} <= {tuple(color) for color in np.unique(legend.reshape(-1, 3), axis=0)}
    with zipfile.ZipFile(result.submission) as archive:
        for name in STREETS:
            ids = np.asarray(Image.open(io.BytesIO(archive.read(f'{name}.png'))))
            np.testing.assert_array_equal(ids, read(result.raw_dir, f'{name}.png'))
        assert len(archive.namelist()) == 5
    assert result.submission in result.report and 'legend.png' in result.report
    # Names that the server does not know end the next run before it changes anything.
    with pytest.raises(DataError, match='berlin_000000_000019: image_0, image_1, image_2 and 2 more'):
        vis_program.run(dataclasses.replace(options, submission='cityscapes'))
    assert pathlib.Path(result.submission).exists()
    vis_program.run(options)  # removes all of it
    assert not pathlib.Path(result.submission).exists()
    assert len(os.listdir(result.pictures_dir)) == 10


def test_error_maps_need_masks_and_submissions_the_sizes_of_the_images(options, tmp_path):
    setup.write_checkpoint(options.checkpoint_dir)
    bare = setup.write_data(tmp_path / 'bare', 'anything', with_labels=False)
    with pytest.raises(DataError, match='have no mask.*without error maps'):
        vis_program.run(dataclasses.replace(options, dataset=bare, save=('errors',)))
    with pytest.raises(OptionError, match='submission.*both bounds'):
        dataclasses.replace(options, submission='voc', resize=ResizeOptions(max_value=6))
    for wrong in ({'save': ('mask',)}, {'overlay_alpha': 1.5}, {'submission': 'coco'}):
        with pytest.raises(OptionError, match=next(iter(wrong))):
            dataclasses.replace(options, **wrong)


def test_one_bound_alone_keeps_the_resized_size(options):
    setup.write_checkpoint(options.checkpoint_dir)
    result = vis_program.run(dataclasses.replace(options, resize=ResizeOptions(max_value=6)))
    assert read(result.raw_dir, 'image_0.png').shape == (4, 6)
    assert read(result.pictures_dir, '000000_image.png').shape == (4, 6, 3)


def test_a_split_without_labels_and_without_raw_predictions(options, tmp_path):
    setup.write_checkpoint(options.checkpoint_dir)
    dataset = setup.write_data(tmp_path / 'bare', 'anything', with_labels=False)
    result = vis_program.run(dataclasses.replace(options, dataset=dataset, also_save_raw_predictions=False))
    assert result.raw_dir is None
    assert result.rounds[0].images == 5
    assert not (pathlib.Path(options.vis_logdir) / 'raw_segmentation_results').exists()


def test_names_with_folders_extensions_and_twins(options, tmp_path):
    setup.write_checkpoint(options.checkpoint_dir)
    names = ['data/images/ADE_1.jpg', 'a/one', 'b/one', 'dotted.name', '']
    dataset = setup.write_data(tmp_path / 'named', names=names)
    result = vis_program.run(dataclasses.replace(options, dataset=dataset))
    written = sorted(path.name for path in pathlib.Path(result.raw_dir).iterdir())
    assert written == ['000004.png', 'ADE_1.png', 'dotted.name.png', 'one.png', 'one_000002.png']


def test_a_later_round_writes_over_an_earlier_one(options, monkeypatch):
    setup.write_checkpoint(options.checkpoint_dir, 1, weight=0.0)
    later = iter([lambda: setup.write_checkpoint(options.checkpoint_dir, 2)])
    monkeypatch.setattr('deeplab.evaluation.waiting.time.sleep', lambda seconds: next(later, lambda: None)())
    wait = WaitOptions(interval_secs=0, max_rounds=2, timeout_secs=20)
    result = vis_program.run(dataclasses.replace(options, wait=wait))
    assert [r.global_step for r in result.rounds] == [1, 2]
    np.testing.assert_array_equal(read(result.raw_dir, 'image_1.png'), EVAL_IDS[expected_ids(1)])


def test_color_maps_by_name():
    camvid, ade20k = descriptor.load('camvid'), descriptor.load('ade20k')
    np.testing.assert_array_equal(vis_program.choose_colormap(None, camvid), camvid.palette)
    assert vis_program.choose_colormap('pascal', camvid)[1].tolist() == [128, 0, 0]
    np.testing.assert_array_equal(vis_program.choose_colormap('ade20k', ade20k), ade20k.palette)
    many = descriptor.DatasetDescriptor('many', 200)
    with pytest.raises(OptionError, match="colormap_type='ade20k' has 151 colors, the data set 'many' 200 classes"):
        vis_program.choose_colormap('ade20k', many)


@pytest.mark.parametrize('size', [(5, 9), (3, 3), (1, 2), (13, 4)])
def test_nearest_equals_the_op(size):
    values = np.arange(35, dtype=np.int32).reshape(5, 7, 1)
    np.testing.assert_array_equal(any_size.nearest(values, *size), preprocess_utils.resize_label(values, size))


def test_an_error_while_writing_ends_the_run(options, monkeypatch):
    setup.write_checkpoint(options.checkpoint_dir)

    def fail(*_):
        raise DataError('The disk is full.')

    monkeypatch.setattr('deeplab.utils.save_annotation.save_image', fail)
    with pytest.raises(DataError, match='The disk is full.'):
        vis_program.run(options)
    assert not list((pathlib.Path(options.vis_logdir) / 'segmentation_results').iterdir())


def test_a_crop_smaller_than_an_image_is_refused(options):
    model = dataclasses.replace(options.model, crop_size=(5, 5))
    with pytest.raises(DataError, match=r'Set crop_size=\(17, 17\)\.'):
        vis_program.run(dataclasses.replace(options, model=model))


def test_the_file_can_be_called_from_its_own_folder():
    file = pathlib.Path(vis_program.__file__)
    done = subprocess.run([sys.executable, file.name, '--help'], cwd=file.parent, capture_output=True, text=True)
    assert done.returncode == 0
    assert '--vis_crop_size' in done.stdout


HOSTILE_NAMES = [
    b'a\0b',
    b'a\nb',
    b'\x1b[31ma',
    b'x' * 248,
    b'x' * 5000,
    b'a',
    b'a',
    b'a_000006',
    b'a_000006',
    b'',
    b'caf\xe9',
]


def test_any_name_of_an_image_gives_a_file_of_its_own(tmp_path, caplog):
    def write(number, name, sample):
        save_annotation.save_image(np.full((2, 2), number, np.uint8), str(tmp_path), name)

    with vis_program.Writer(write) as writer:
        writer.add_batch({common.IMAGE_NAME: np.array(HOSTILE_NAMES, object)})
    files = sorted(tmp_path.iterdir())
    assert sorted(np.asarray(Image.open(path))[0, 0] for path in files) == list(range(len(HOSTILE_NAMES)))
    assert {'a_b_000000.png', 'a_b_000001.png', 'a.png', 'a_000006.png', '000009.png'} <= {path.name for path in files}
    assert all(path.name.isprintable() for path in files)
    assert all(record.getMessage().isprintable() and len(record.getMessage()) < 400 for record in caplog.records)
    assert r"'a\x00b'" in caplog.text
