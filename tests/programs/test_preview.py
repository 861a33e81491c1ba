"""The preview program on seven tiny images: it draws the training samples, and refuses what training refuses."""

import dataclasses
import pathlib
import types

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

from deeplab import cli, common
from deeplab.checks import check_cache
from deeplab.datasets import descriptor, planes
from deeplab.errors import DataError, OptionError, OutputError
from deeplab.evaluation.runner import CheckedSplit
from deeplab.options import AugmentOptions, PreviewOptions, ResizeOptions
from deeplab.pictures import plane_pictures
from deeplab.programs import preview
from deeplab.registry import TASKS, Output, Task
from deeplab.training import split_input
from tests.helpers import dataset_files, labeled_images, training_setup
from tests.helpers.registries import changes_undone

EVERYTHING = AugmentOptions(
    settings={
        'jitter_brightness': 0.2,
        'jitter_hue': 0.1,
        'rotation_degrees': 30,
        'blur_sigma': 1.0,
        'cutout_size': 5,
        'cutout_count': 2,
        'rare_class_sampling': 0.5,
    },
)


pytestmark = pytest.mark.usefixtures('tiny_network')


def options(data, tmp_path, augment=EVERYTHING, **changes):
    training = training_setup.options(data, tmp_path / 'log', augment=augment)
    return PreviewOptions(**{'train': training, 'path': str(tmp_path / 'sheets' / 'sheet.png'), 'images': 2} | changes)


def batches(training, count):
    """Images and labels from the training input pipeline, in order."""
    with tf.Graph().as_default():
        pipeline = split_input.build_input(training, training_setup.opened(training), 0)
        with tf.compat.v1.Session() as session:
            session.run(pipeline.initializer)
            for _ in range(count):
                yield session.run(pipeline.samples)


def drawn_content(monkeypatch, made):
    """The result, and what was handed to the layout of the sheet."""
    seen = []
    compose = preview.preview_sheet.compose
    monkeypatch.setattr(preview.preview_sheet, 'compose', lambda content: seen.append(content) or compose(content))
    return preview.run(made), seen[0]


def test_masks_are_warned_of_as_in_training(data, tmp_path, monkeypatch, caplog):
    pathlib.Path(data.name).write_text('{"num_classes": 3, "ignore_label": 2}')
    monkeypatch.setattr(preview, 'views', lambda *_: pytest.fail('the warning comes first'))
    with pytest.raises(pytest.fail.Exception):
        preview.run(options(data, tmp_path))
    assert 'ignore_label is 2' in caplog.text


@pytest.fixture(scope='module')
def everything(tiny_network, tmp_path_factory):
    """A preview with every change: its options, its result, and what was handed to the layout of the sheet."""
    folder = tmp_path_factory.mktemp('everything')
    made = options(training_setup.write_data(folder / 'records'), folder, samples=5)
    with pytest.MonkeyPatch.context() as patched:
        return made, *drawn_content(patched, made)


def test_a_sheet_with_a_column_for_each_change(everything):
    made, result, content = everything
    titles = [column.title for column in content.columns]
    assert titles == [
        'Record',
        'Colors',
        'Rotation',
        'Scale and crop',
        'Crop at a rare class',
        'Blur',
        'Cutout',
        'Flip',
    ]
    assert content.columns[2].details == 'up to +/-30 degrees'
    assert content.columns[5].details == 'sigma up to 1, on 50% of the images'
    assert [len(row) for row in content.rows] == [8, 8]
    assert len(content.samples) == 5
    assert result.report.splitlines()[-1] == f'Preview: {made.path}'
    with Image.open(made.path) as sheet:
        assert sheet.format == 'PNG' and sheet.mode == 'RGB'
    sheets = pathlib.Path(made.path).parent
    assert [path.name for path in sheets.iterdir()] == ['sheet.png']
    assert list((sheets.parent / 'log').glob('record_check-*.npz'))  # which training need not do again


def test_samples_are_the_first_ones_of_training(everything):
    made, result, content = everything
    labels = []
    for number, batch in enumerate(batches(made.train, 3)):
        for i in range(2 if number < 2 else 1):
            cell = content.samples[2 * number + i]
            assert cell.caption == f'{2 * number + i + 1}: {batch[common.IMAGE_NAME][i].decode()}'
            np.testing.assert_array_equal(cell.ids, batch[common.LABEL][i, ..., 0])
            np.testing.assert_array_equal(cell.image, np.rint(batch[common.IMAGE][i]))
            labels.append(cell.ids)
    counts = np.bincount(np.ravel(labels), minlength=256)
    np.testing.assert_allclose(result.class_shares, counts[:3] / counts[:3].sum())
    assert result.ignored_share == pytest.approx(counts[255] / counts.sum())


def test_each_column_shows_its_change_alone(everything):
    *_, content = everything
    for row in content.rows:
        record, colors, rotation, crop, rare, blur, cutout, flip = row
        number = int(record.caption.removeprefix('image_'))
        np.testing.assert_array_equal(record.image, dataset_files.pixels(20 + number, 30 - number, number))
        np.testing.assert_array_equal(record.ids, dataset_files.ids(20 + number, 30 - number, seed=number))
        for still in (colors, blur):
            np.testing.assert_array_equal(still.ids, record.ids)
            assert (still.image != record.image).any()
        assert rotation.ids.shape == record.ids.shape and (rotation.ids != record.ids).any()
        assert crop.ids.shape == rare.ids.shape == (17, 33)
        np.testing.assert_array_equal(cutout.image[cutout.ids != 255], record.image[cutout.ids != 255])
        assert (cutout.ids == 255).any()
        np.testing.assert_array_equal(flip.ids, record.ids[:, ::-1])  # every record, though half of the samples flip


def test_a_plain_training_has_scale_crop_and_flip(data, tmp_path, monkeypatch):
    made = options(data, tmp_path, AugmentOptions(), images=20, samples=9)
    result, content = drawn_content(monkeypatch, made)
    assert [column.title for column in content.columns] == ['Record', 'Scale and crop', 'Flip']
    assert len(content.rows) == training_setup.IMAGES  # there are no more records than these
    assert len(content.samples) == 9
    report = result.report.splitlines()
    assert report[0] == 'Share of the pixels in the 9 samples drawn (in the whole split):'
    assert [line.split()[0] for line in report[1:4]] == ['0', '1', '2']
    assert all('% (3' in line for line in report[1:4])  # three classes, a third each
    assert report[4].startswith('  ignored  ') and report[4].endswith('% (0.0%) of all pixels')


def test_records_are_resized_to_the_range_first(data, tmp_path, monkeypatch):
    made = options(data, tmp_path, AugmentOptions(settings={'rotation_degrees': 30}))
    made = dataclasses.replace(made, train=dataclasses.replace(made.train, resize=ResizeOptions(12, 16)))
    _, content = drawn_content(monkeypatch, made)
    for row in content.rows:
        assert min(row[0].ids.shape) >= 20  # as it is
        assert max(row[1].ids.shape) <= 16


def test_percentages_for_people():
    shown = [preview.percent(share) for share in (0, 0.0001, 0.0123, 0.0996, 0.5, 1)]
    assert shown == ['0.0%', '<0.1%', '1.2%', '10%', '50%', '100%']


def test_of_many_classes_those_in_the_samples_are_shown():
    shares = np.zeros(100)
    shares[[3, 77]] = 0.5
    check_result = types.SimpleNamespace(class_pixels=np.ones(100, np.int64), ignored_pixels=300)
    data = CheckedSplit(descriptor.DatasetDescriptor('many', 100), None, check_result)
    shown = [(line.name, line.figures) for line in preview._legend(shares, 0.25, data)]
    name = data.descriptor.class_name
    assert shown == [(name(3), '50% (1.0%)'), (name(77), '50% (1.0%)'), ('ignored', '25% (75%)')]


@pytest.mark.parametrize('channels', [1, 2, 4])
def test_images_of_other_channels_are_shown(channels):
    batch = {
        common.IMAGE: np.full((1, 2, 3, channels), 300.0, np.float32),
        common.LABEL: np.zeros((1, 2, 3, 1), np.int32),
        common.IMAGE_NAME: np.array([b'name']),
    }
    cell = preview._cell(batch, types.SimpleNamespace(has_labels=True, reader=types.SimpleNamespace(planes=())))
    assert cell.image.shape == (2, 3, 3) and (cell.image == 255).all()


# --- The command line ------------------------------------------------------------------------------------------------


def test_a_line_of_train_with_another_word():
    line = [
        '--logtostderr',
        '--training_number_of_steps=300',
        '--train_split=train',
        '--model_variant=xception_65',
        '--atrous_rates=6',
        '--train_crop_size=65,65',
        '--train_batch_size=4',
        '--dataset=camvid',
        '--train_logdir=logs',
        '--dataset_dir=records',
        '--rotation_degrees=5',
    ]
    made = cli.options_of('preview', line)
    assert made.train == cli.options_of('train', line)
    assert (made.path, made.images, made.samples) == ('logs/preview.png', 4, 8)
    assert set(cli.find_program('train').flags) < set(cli.find_program('preview').flags)


def test_where_the_sheet_goes(tmp_path):
    def path(*words):
        return cli.options_of('preview', ['--dataset_dir=records', *words]).path

    assert path() == './preview.png'
    assert path(f'--preview_path={tmp_path}') == str(tmp_path / 'preview.png')
    assert path('--preview_path=new/', '--train_logdir=logs') == 'new/preview.png'
    assert path('--preview_path=mine.PNG') == 'mine.PNG'


def test_a_run_without_a_log_folder(data, tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    line = [f'--dataset={data.name}', f'--dataset_dir={data.directory}', '--train_crop_size=17,33']
    assert cli.main(['preview', *line, '--model_variant=tiny', '--preview_samples=1', '--preview_images=1']) == 0
    assert capfd.readouterr().out.splitlines()[-1] == 'Preview: ./preview.png'
    assert {path.name for path in tmp_path.iterdir()} == {'records', 'preview.png'}


# --- What is refused -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ('changes', 'message'),
    [
        (
            {'path': 'sheet.jpg'},
            "^path='sheet.jpg' is not allowed: the sheet is a PNG file; pass a folder, or a name",
        ),
        ({'images': 0}, '^images=0 is not allowed: it must be from 1 to 64'),
        ({'samples': 65}, '^samples=65 is not allowed: it must be from 1 to 64'),
    ],
)
def test_options_are_checked(data, tmp_path, changes, message):
    with pytest.raises(OptionError, match=message):
        options(data, tmp_path, **changes)


def test_what_training_refuses_is_refused(data, tmp_path):
    made = options(data, tmp_path)
    (tmp_path / 'empty').mkdir()
    nowhere = dataclasses.replace(data, directory=str(tmp_path / 'empty'))
    with pytest.raises(DataError, match=r"There is no shard 'train-\*' in .*[Bb]uild the records first"):
        preview.run(dataclasses.replace(made, train=dataclasses.replace(made.train, dataset=nowhere)))
    dataset_files.write_split(
        tmp_path / 'records', 'bad', [[dataset_files.record(0, label=dataset_files.png(dataset_files.ids(classes=9)))]]
    )
    bad = dataclasses.replace(data, split='bad')
    with pytest.raises(DataError, match='neither among the 3 classes'):
        preview.run(dataclasses.replace(made, train=dataclasses.replace(made.train, dataset=bad)))
    unknown = dataclasses.replace(made.train.model, model_variant='resnet_7')
    with pytest.raises(OptionError, match='resnet_7'):
        preview.run(dataclasses.replace(made, train=dataclasses.replace(made.train, model=unknown)))
    assert not (tmp_path / 'sheets').exists()


def test_an_image_that_cannot_be_decoded_is_named(data, tmp_path):
    whole = dataset_files.png(dataset_files.pixels())
    dataset_files.write_split(tmp_path / 'records', 'torn', [[dataset_files.record(0, image=whole[: len(whole) - 40])]])
    made = options(data, tmp_path)
    torn = dataclasses.replace(made.train, dataset=dataclasses.replace(data, split='torn'))
    with pytest.raises(DataError, match='torn-00000-of-00001'):
        preview.run(dataclasses.replace(made, train=torn))


def test_a_path_that_cannot_be_written(data, tmp_path):
    (tmp_path / 'file').write_text('')
    path = str(tmp_path / 'file' / 'sheet.png')
    with pytest.raises(OutputError, match=f"path: '{path}' cannot be written: .* use another path") as caught:
        preview.run(options(data, tmp_path, AugmentOptions(), path=path, samples=1, images=1))
    assert caught.value.report.startswith('Share of the pixels') and path not in caught.value.report


def test_only_a_sheet_is_overwritten_by_an_equal_one_unless_the_seed_is_another(data, tmp_path, monkeypatch):
    """The result of the record check is used again."""
    path = tmp_path / 'photo.png'
    path.write_bytes(dataset_files.png(dataset_files.pixels()))
    made = options(data, tmp_path, AugmentOptions(), path=str(path), samples=1, images=1)
    with pytest.raises(OptionError, match=f"path: '{path}' exists and is not an image of deeplab preview"):
        preview.run(made)
    assert path.read_bytes() == dataset_files.png(dataset_files.pixels())
    path.unlink()
    pictures = []
    for seed in (3, 3, 4):
        preview.run(dataclasses.replace(made, train=dataclasses.replace(made.train, seed=seed)))
        pictures.append(path.read_bytes())
        monkeypatch.setattr(check_cache, 'inspect', lambda *_: pytest.fail('checked again'))
    assert pictures[0] == pictures[1] != pictures[2]


def preview_of_task(tmp_path, monkeypatch, has_labels):
    """What is drawn of a task with a plane of instances and a target of half the size."""
    ids = dataset_files.ids(20, 30, classes=200)
    record = dataset_files.example.encode(
        dataset_files.png(dataset_files.pixels(20, 30)), 'png', 'image', 20, 30, 3,
        dataset_files.png(dataset_files.ids(20, 30)) if has_labels else None,
        {planes.INSTANCE.feature: dataset_files.png(ids)},
    )  # fmt: skip
    data = training_setup.write_data(tmp_path / 'records')
    dataset_files.write_split(tmp_path / 'records', 'train', [[record]])
    for path in (tmp_path / 'records').glob('train-*-of-00002.tfrecord'):
        path.unlink()
    task = Task(
        name='count',
        outputs=lambda options: [Output('count', 1)],
        losses=lambda maps, targets, context: {},
        decode=lambda maps, context: {},
        planes=(planes.INSTANCE,),
        needs_labels=has_labels,
        targets=lambda sample, context: {
            'count': tf.cast(sample[common.INSTANCE], tf.float32)[::2, ::2], 'label': sample[common.LABEL],
            'same': tf.cast(sample[common.INSTANCE], tf.float32),
        },
    )  # fmt: skip
    made = options(data, tmp_path, AugmentOptions(), images=1, samples=1)
    model = dataclasses.replace(made.train.model, task='count')
    with changes_undone(TASKS):
        TASKS.add(task)
        made = dataclasses.replace(made, train=dataclasses.replace(made.train, model=model))
        return ids, *drawn_content(monkeypatch, made)


def test_planes_move_with_the_image_and_targets_are_drawn(tmp_path, monkeypatch):
    ids, result, content = preview_of_task(tmp_path, monkeypatch, has_labels=True)
    ((record, _, flip),) = content.rows
    np.testing.assert_array_equal(record.further['instance'], plane_pictures.instances(record.image, ids))
    np.testing.assert_array_equal(flip.further['instance'], plane_pictures.instances(flip.image, ids[:, ::-1]))
    (sample,) = content.samples
    assert list(sample.further) == ['instance', 'count/count']  # the label is drawn as the mask, `same` as the plane
    assert sample.further['count/count'].shape == (9, 17, 3)
    assert len(result.class_shares) == 3


def test_a_task_without_class_ids_has_no_masks(tmp_path, monkeypatch):
    _, result, content = preview_of_task(tmp_path, monkeypatch, has_labels=False)
    assert all(cell.ids is None for cell in (*content.rows[0], *content.samples))
    assert content.columns[0].details == 'unchanged' and not content.legend
    assert (result.class_shares, result.ignored_share) == ((), 0.0)
    assert result.report.splitlines()[0] == '1 sample drawn.'


def test_a_classifier_s_sheet_has_its_preprocessing_and_the_classes(tmp_path, monkeypatch):
    folder = labeled_images.LabeledImages({'train': 3}).write(tmp_path / 'classes')
    words = [f'--dataset_dir={folder}', '--task=classification', '--model_variant=lenet', '--rotation_degrees=9']
    words += ['--preview_images=1', '--preview_samples=3', f'--preview_path={tmp_path}/sheet.png']
    _, content = drawn_content(monkeypatch, cli.options_of('preview', words))
    assert [column.title for column in content.columns] == ['Record', 'Preprocessing', 'Rotation']  # no flip
    assert content.columns[1].details == 'lenet, 28 x 28' and content.rows[0][1].image.shape == (28, 28, 3)
    captions = sorted(sample.caption.partition(': ')[2] for sample in content.samples)
    assert captions == ['bar (train_1)', 'disk (train_0)', 'frame (train_2)']
    assert all(sample.further == {} for sample in content.samples)  # the target is no map
