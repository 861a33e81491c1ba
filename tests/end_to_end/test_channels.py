"""Images that are not 8-bit RGB in all programs: build, train, eval, vis and export on tiny data."""

import dataclasses
import json
import pathlib

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

from deeplab import cli, common, eval, export_model, train, vis
from deeplab.core import checkpoints
from deeplab.errors import OptionError
from deeplab.options import (
    AugmentOptions,
    DatasetOptions,
    EvalOptions,
    ExportOptions,
    PreviewOptions,
    ValidationOptions,
    VisOptions,
    WaitOptions,
)
from deeplab.programs import preview
from deeplab.training import split_input
from tests.helpers import dataset_files, training_setup

ONCE = WaitOptions(max_rounds=1, timeout_secs=60)


pytestmark = pytest.mark.usefixtures('tiny_network')


def write_data(folder, channels, bits, contents):
    """A split of images with masks, and the description of the data set."""
    records = [
        dataset_files.example.encode(
            content, 'png', f'image_{number}', 14, 20, channels, dataset_files.png(dataset_files.ids(14, 20))
        )
        for number, content in enumerate(contents)
    ]
    dataset_files.write_split(pathlib.Path(folder), 'train', [records])
    (folder / 'it.json').write_text(json.dumps({'num_classes': 3, 'image_channels': channels, 'image_bits': bits}))
    return DatasetOptions('train', str(folder), str(folder / 'it.json'))


def pixels(channels, kind=np.uint8, seed=0):
    return np.random.RandomState(seed).randint(0, np.iinfo(kind).max + 1, (14, 20, channels)).astype(kind)


def train_options(data, logdir, channels, **changes):
    options = training_setup.options(data, logdir, 2, **changes)
    return dataclasses.replace(options, model=dataclasses.replace(options.model, input_channels=channels))


KINDS = {  # channels, bits, files
    'gray': (
        1,
        8,
        [dataset_files.png(pixels(1)[..., 0]), dataset_files.jpeg(pixels(1)[..., 0]), dataset_files.png(pixels(2))],
    ),
    'mixed': (
        3,
        8,
        [dataset_files.png(pixels(3)), dataset_files.jpeg(pixels(3)), dataset_files.jpeg(pixels(1)[..., 0])],
    ),
    'deep_gray': (1, 16, [dataset_files.deep_png(pixels(1, np.uint16)), dataset_files.png(pixels(1)[..., 0])]),
    'deep': (
        3,
        16,
        [
            dataset_files.deep_png(pixels(3, np.uint16)),
            dataset_files.jpeg(pixels(3)),
            dataset_files.npy(pixels(3, np.uint16)),
        ],
    ),
    'rgba': (4, 8, [dataset_files.png(pixels(4)), dataset_files.npy(pixels(4))]),
    'five': (5, 16, [dataset_files.npy(pixels(5, np.uint16)), dataset_files.npy(pixels(5))]),
}


# Each of the others shares its channels or its bits with one of these; tests/datasets reads records of each kind.
MARKS = {'five': (), 'gray': pytest.mark.slow, 'deep': pytest.mark.slow}


@pytest.mark.slow
@pytest.mark.parametrize('kind', [pytest.param(kind, marks=MARKS.get(kind, pytest.mark.long)) for kind in KINDS])
def test_from_records_to_an_export(kind, tmp_path):
    channels, bits, contents = KINDS[kind]
    data = write_data(tmp_path, channels, bits, contents)
    validation = ValidationOptions('train', every=2)
    options = train_options(data, tmp_path / 'log', channels, save_summaries_images=True, validation=validation)
    trained = train.run(options)
    assert list((tmp_path / 'log' / 'best').glob('*.index'))
    assert np.isfinite(trained.loss)
    weights = checkpoints.entries(trained.checkpoint)['tiny/conv1/weights']
    assert weights.shape == (3, 3, channels, 8)

    measured = eval.run(EvalOptions(options.model, data, str(tmp_path / 'log'), str(tmp_path / 'eval'), wait=ONCE))
    assert measured.rounds[0].images == len(contents)

    pictured = vis.run(VisOptions(options.model, data, str(tmp_path / 'log'), str(tmp_path / 'vis'), wait=ONCE))
    with Image.open(f'{pictured.pictures_dir}/000000_image.png') as picture:
        assert (picture.mode, picture.size) == ('L' if channels == 1 else 'RGB', (20, 14))

    path = str(tmp_path / 'graph.pb')
    exported = export_model.run(ExportOptions(options.model, trained.checkpoint, path, image_bits=bits))
    assert exported.agreement == 1.0
    assert f'ImageTensor:0 uint{bits} [1, height, width, {channels}]' in exported.report
    graph_def = tf.compat.v1.GraphDef.FromString(pathlib.Path(path).read_bytes())
    with tf.Graph().as_default() as graph, tf.compat.v1.Session() as session:
        tf.graph_util.import_graph_def(graph_def, name='')
        image = graph.get_tensor_by_name('ImageTensor:0')
        assert image.dtype == (tf.uint8 if bits == 8 else tf.uint16)
        assert image.shape.as_list() == [1, None, None, channels]
        labels = session.run('SemanticPredictions:0', {image: pixels(channels, image.dtype.as_numpy_dtype)[np.newaxis]})
    assert labels.shape == (1, 14, 20)


EVERYTHING = AugmentOptions(
    settings={
        'jitter_brightness': 0.2,
        'jitter_contrast': 0.2,
        'jitter_saturation': 0.2,
        'jitter_hue': 0.1,
        'rotation_degrees': 20.0,
        'blur_sigma': 1.0,
        'cutout_size': 4,
        'rare_class_sampling': 0.5,
    },
)


def with_every_change(kind, folder):
    channels, bits, contents = KINDS[kind]
    return train_options(write_data(folder, channels, bits, contents), folder / 'log', channels, augment=EVERYTHING)


def test_samples_with_every_change(tmp_path):
    training = with_every_change('deep_gray', tmp_path)
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        pipeline = split_input.build_input(training, training_setup.opened(training), 0)
        session.run(pipeline.initializer)
        images = session.run(pipeline.samples)[common.IMAGE]
    assert images.shape == (2, 17, 33, 1)
    assert np.isfinite(images).all() and len(np.unique(images)) > 10


@pytest.mark.parametrize(
    'kind', [pytest.param('deep_gray', marks=pytest.mark.slow), pytest.param('five', marks=pytest.mark.long)]
)
def test_preview_with_every_change(kind, tmp_path):
    training = with_every_change(kind, tmp_path)
    result = preview.run(PreviewOptions(training, str(tmp_path / 'sheet.png'), images=2, samples=2))
    with Image.open(result.path) as sheet:
        assert sheet.mode == 'RGB'


def test_the_export_sees_what_eval_sees(tmp_path):
    """16-bit images give the network the same input from a record and through ImageTensor."""
    values = pixels(1, np.uint16)
    data = write_data(tmp_path, 1, 16, [dataset_files.deep_png(values)])
    options = train_options(data, tmp_path / 'log', 1)
    trained = train.run(options)
    seen = vis.run(
        VisOptions(
            options.model, data, str(tmp_path / 'log'), str(tmp_path / 'vis'), wait=ONCE, also_save_raw_predictions=True
        )
    )
    export = ExportOptions(options.model, trained.checkpoint, str(tmp_path / 'saved'), export_format='saved_model')
    export_model.run(dataclasses.replace(export, image_bits=16))
    signature = tf.saved_model.load(str(tmp_path / 'saved')).signatures['serving_default']
    labels = signature(image=tf.constant(values[np.newaxis]))['predictions'][0]
    with Image.open(f'{seen.pictures_dir}/000000_image.png') as picture:
        assert (picture.mode, picture.size) == ('L', (20, 14))
    with Image.open(f'{seen.raw_dir}/image_0.png') as raw:
        np.testing.assert_array_equal(np.asarray(raw), labels)


@pytest.mark.slow
def test_a_gray_network_from_one_for_colors(tmp_path, caplog):
    """Before its first step a network for grayscale images has the same loss as the RGB network."""
    contents = [dataset_files.png(pixels(1, seed=seed)[..., 0]) for seed in range(3)]
    (tmp_path / 'rgb').mkdir()
    write_data(tmp_path / 'rgb', 3, 8, contents)
    colors = training_setup.trained(training_setup.write_data(tmp_path / 'others'), tmp_path / 'first', 1)
    (tmp_path / 'gray').mkdir()
    gray = write_data(tmp_path / 'gray', 1, 8, contents)
    same = {'initial_checkpoint': colors.checkpoint, 'fine_tune_batch_norm': False}
    losses = {}
    for channels, data in ((1, gray), (3, dataclasses.replace(gray, name=str(tmp_path / 'rgb' / 'it.json')))):
        options = train_options(data, tmp_path / f'log{channels}', channels, **same)
        with caplog.at_level('INFO'):
            losses[channels] = train.run(dataclasses.replace(options, number_of_steps=1)).loss
    assert losses[1] == pytest.approx(losses[3], rel=1e-4)
    assert 'The first convolution (tiny/conv1/weights) has 3 channels in the checkpoint' in caplog.text


@pytest.mark.parametrize('channels', [1, 5])
def test_three_channels_where_the_data_set_has_others(tmp_path, channels):
    data = write_data(tmp_path, channels, 8, [dataset_files.npy(pixels(channels))])
    message = f"The network takes images of 3 channels, images of the data set 'it' have {channels}"
    options = train_options(data, tmp_path / 'log', 3)
    with pytest.raises(OptionError, match=message):
        train.run(options)
    with pytest.raises(OptionError, match=message):
        eval.run(EvalOptions(options.model, data, str(tmp_path / 'log'), str(tmp_path / 'eval')))


def test_lines_take_the_channels_from_the_data_set(tmp_path):
    (tmp_path / 'it.json').write_text('{"num_classes": 3, "image_channels": 6, "image_bits": 16}')
    dataset = f'--dataset={tmp_path / "it.json"}'
    logs = {'train': ['--train_logdir=a'], 'eval': ['--checkpoint_dir=a', '--eval_logdir=b']}
    logs['vis'] = ['--checkpoint_dir=a', '--vis_logdir=b']
    for program, words in logs.items():
        options = cli.options_of(program, [dataset, '--dataset_dir=records', *words])
        assert (options.model.input_channels, options.model.num_classes) == (6, 3)
    assert cli.options_of('networks', [dataset]).model.input_channels == 6
    assert cli.options_of('networks', [dataset, '--image_channels=2']).model.input_channels == 2
    assert cli.options_of('networks', [dataset, '--num_classes=9']).model.input_channels == 6
    assert cli.options_of('networks', []).model.input_channels == 3
    words = ['--checkpoint_path=a', '--export_path=b', '--image_channels=6', '--image_bits=16']
    exported = cli.options_of('export_model', words)
    assert (exported.model.input_channels, exported.image_bits) == (6, 16)


@pytest.mark.parametrize(
    ('word', 'message'),
    [
        ('--image_channels=0', '--image_channels=0 is not allowed: it must be greater than 0'),
        ('--image_bits=12', '--image_bits=12 is not allowed: it must be 8 or 16'),
    ],
)
def test_values_that_are_refused(word, message):
    with pytest.raises(OptionError, match=message):
        cli.options_of('export_model', ['--checkpoint_path=a', '--export_path=b', word])
