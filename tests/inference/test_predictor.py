"""The Predictor: from Python to labels. Covers inference/runners.py."""

import concurrent.futures
import contextlib
import dataclasses
import errno
import gc
import io
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import threading
import time
import types

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

import deeplab
from deeplab import export_model
from deeplab.core import moving_average
from deeplab.errors import CheckpointError, DataError, OptionError
from deeplab.export import tensor_names
from deeplab.inference import any_size, export_metadata, exports, opening, runners, thread_bound
from deeplab.inference import predictor as module
from deeplab.inference.any_size import AnySize
from deeplab.inference.network import InferenceNetwork
from deeplab.inference.prediction import kept_ids
from deeplab.inference.predictor import Predictor
from deeplab.options import (
    EngineOptions,
    ExportOptions,
    FetchOptions,
    PredictionOptions,
    PredictorOptions,
    ResizeOptions,
    WindowOptions,
)
from deeplab.registry import ENGINES, Engine, Exported, Outputs, register
from tests.helpers import checkpoint_files, image_samples, predictor_setup
from tests.helpers.registries import changes_undone

ROOT = pathlib.Path(__file__).parents[2]

pytestmark = pytest.mark.usefixtures('tiny_network')


@pytest.fixture(scope='module')
def predictor(training):
    with Predictor.from_checkpoint(training) as made:
        yield made


def expected(training, image, size):
    """What eval's network of one size gives for an image: labels and probabilities."""
    options = dataclasses.replace(predictor_setup.MODEL, crop_size=size)
    network = InferenceNetwork(options, PredictionOptions(), 1, True)
    padded = np.full((1, *size, 3), network.mean_pixel, np.float32)
    height, width = image.shape[:2]
    padded[0, :height, :width] = image
    with opening.opened(network, opening.Weights(str(training / 'model.ckpt-7')), EngineOptions()) as predict:
        labels, probabilities = predict(padded)
    return labels[0, :height, :width], probabilities[0, :height, :width]


def test_the_labels_are_those_of_eval(predictor, training):
    image = predictor_setup.pixels(40, 60)
    labels, probabilities = expected(training, image, (49, 65))
    prediction = predictor(image)
    assert np.array_equal(prediction.labels, labels) and len(np.unique(labels)) > 1
    assert prediction.labels.dtype == np.uint8
    assert np.array_equal(prediction.probabilities, probabilities)
    assert prediction.class_names == predictor.class_names == tuple(predictor_setup.CLASSES)
    assert prediction.colors.tolist() == predictor.colors.tolist() == predictor_setup.COLORS


def test_a_crop_size_is_that_of_eval(training):
    image = predictor_setup.pixels(40, 60)
    with Predictor.from_checkpoint(training, crop_size=(81, 97), probabilities=True) as cropped:
        found = cropped(image)
        assert np.allclose(found._probabilities, expected(training, image, (81, 97))[1], atol=1e-6)
        assert cropped(predictor_setup.pixels(90, 30)).labels.shape == (90, 30)  # in windows, as it is larger


def test_all_kinds_of_images(predictor, tmp_path):
    image = predictor_setup.pixels(20, 30)
    labels = predictor(image).labels
    Image.fromarray(image).save(tmp_path / 'image.png')
    for same in (tmp_path / 'image.png', str(tmp_path / 'image.png'), Image.fromarray(image), image.astype(np.float64)):
        assert np.array_equal(predictor(same).labels, labels)
    content = (tmp_path / 'image.png').read_bytes()
    with open(tmp_path / 'image.png', 'rb') as file, Image.open(tmp_path / 'image.png') as opened:
        for same in (content, bytearray(content), memoryview(content), io.BytesIO(content), file, opened):
            assert np.array_equal(predictor(same).labels, labels)
        for prediction in predictor([content, file, opened, io.BytesIO(content)]):
            assert np.array_equal(prediction.labels, labels)
    for damaged in (Image.open(io.BytesIO(content[:-200])), content[:-200]):
        with pytest.raises(DataError, match='The image: .*decoded'):
            predictor(damaged)
    with pytest.raises(DataError, match=r'missing\.png.*cannot be read'):
        predictor(tmp_path / 'missing.png')
    with pytest.raises(DataError, match='The image.*uint8'):
        predictor(np.zeros(3))
    with open(tmp_path / 'image.png', encoding='latin-1') as text, pytest.raises(TypeError, match="binary .*'rb'"):
        predictor(text)
    for wrong in (None, [3], Upload()):
        with pytest.raises(TypeError, match='an image is .* bytes .* not (NoneType|int|Upload)'):
            predictor(wrong)


class Upload:
    """A file of an asynchronous web framework."""

    async def read(self):
        return b''


def test_a_photo_is_upright_however_it_is_given(predictor, tmp_path):
    path = tmp_path / 'photo.jpg'
    path.write_bytes(image_samples.turned('JPEG', 6))
    expected = predictor(path)
    assert expected.labels.shape == (image_samples.WIDTH, image_samples.HEIGHT)
    with Image.open(path) as opened, open(path, 'rb') as file:
        for same in (opened, file, path.read_bytes(), Image.open(io.BytesIO(path.read_bytes()))):
            assert np.array_equal(predictor(same).image, expected.image)
        assert predictor(opened.convert('RGB')).labels.shape == expected.labels.shape


def test_a_list_gives_its_predictions_in_order_and_in_batches(training):
    images = [
        predictor_setup.pixels(20, 30, 0),
        predictor_setup.pixels(20, 30, 1),
        predictor_setup.pixels(20, 30, 2),
        predictor_setup.pixels(9, 30, 3),
    ]
    with Predictor.from_checkpoint(training, batch_size=2) as batched:
        sizes = []
        run = batched._runner.run
        batched._runner.run = lambda images, wanted: sizes.append(images.shape[0]) or run(images, wanted)
        found = batched(iter(images))
        assert sizes == [2, 1, 1] and batched([]) == []
        for image, prediction in zip(images, found, strict=True):
            assert np.array_equal(prediction.labels, batched(image).labels)
            assert prediction.image is not None


@pytest.mark.parametrize('batch_size', [1, 2])
def test_a_stream_yields_predictions_before_it_reads_everything(training, tmp_path, batch_size):
    image = predictor_setup.pixels(20, 30)
    (tmp_path / 'damaged.png').write_bytes(b'')
    with Predictor.from_checkpoint(training, batch_size=batch_size) as made:
        found = made.stream([image, tmp_path / 'damaged.png', image])
        assert np.array_equal(next(found).labels, made(image).labels)
        with pytest.raises(DataError, match=r'damaged\.png.*empty'):
            next(found)
        assert [prediction.labels.shape for prediction in made.stream(image)] == [(20, 30)]


def test_a_prediction_does_not_change_with_the_array_of_the_caller(predictor):
    image = predictor_setup.pixels(20, 30)
    prediction = predictor(image)
    image[:] = 0
    assert np.array_equal(prediction.probabilities.argmax(axis=2), prediction.labels)


def test_a_fork_cannot_use_the_predictor(predictor, tmp_path):
    image = predictor_setup.pixels(20, 30)
    Image.fromarray(image).save(tmp_path / 'image.png')
    prediction = predictor(image)
    child = os.fork()
    if child == 0:
        status = 1
        with contextlib.suppress(BaseException):
            network = next(iter(predictor._runner._open.values()))
            uses = [lambda: predictor(image), lambda: predictor(tmp_path / 'image.png'), lambda: prediction.confidence]
            for use in (*uses, lambda: network.call(len, ''), lambda: network.value):
                with pytest.raises(RuntimeError, match='Open the predictor in each process'):
                    use()
            predictor.close()
            thread_bound._close_all(thread_bound._open_objects())
            status = 0
        os._exit(status)
    end = time.monotonic() + 20
    while (ended := os.waitpid(child, os.WNOHANG)) == (0, 0) and time.monotonic() < end:
        time.sleep(0.01)
    if ended == (0, 0):
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    assert ended == (child, 0)
    assert np.array_equal(predictor(image).labels, prediction.labels)


def test_predict_takes_arrays_of_one_shape(predictor):
    image = np.zeros((9, 8, 3), np.uint8)
    for given in ('photo.jpg', pathlib.Path('photo.jpg'), ['photo.jpg'], image, [image[0]]):
        with pytest.raises(TypeError, match=r'a list of arrays .* predictor\(image\)'):
            predictor.predict(given)
    with pytest.raises(ValueError, match=r'\(8, 9, 3\) and \(9, 8, 3\)'):
        predictor.predict([image, image.transpose(1, 0, 2)])
    assert predictor.predict([]) == []
    assert [p.labels.shape for p in predictor.predict(np.stack([image, image]))] == [(9, 8)] * 2


def test_an_export_of_unknown_depth_takes_images_of_8_bits(monkeypatch):
    taken = []

    @contextlib.contextmanager
    def opened(*_):
        def predict(images, _):
            taken.append(images)
            return Outputs(np.zeros(images.shape[:3], np.int32))

        yield Exported(predict, None, True, 3, num_classes=2, has_probabilities=False)

    monkeypatch.setattr(exports, 'opened', opened)
    with Predictor.from_export('network.of_a_plugin') as predictor:
        predictor(np.full((5, 7, 3), 0x1234, np.uint16))
    assert taken[0].dtype == np.uint8 and (taken[0] == 0x12).all()


def test_an_export_that_resizes_images_predicts_large_ones_as_a_whole(monkeypatch):
    taken = []

    @contextlib.contextmanager
    def opened(*_):
        def predict(images, _):
            taken.append(images.shape)
            return Outputs(np.zeros(images.shape[:3], np.int32))

        yield Exported(predict, None, True, 3, num_classes=2, has_probabilities=False, resizes=True)

    monkeypatch.setattr(exports, 'opened', opened)
    monkeypatch.setattr(any_size, 'WHOLE_PIXELS', 100)
    with Predictor.from_export('network.of_a_plugin') as predictor:
        predictor(np.zeros((20, 600, 3), np.uint8))
        assert taken == [(1, 20, 600, 3)] and predictor.resizes
    with pytest.raises(OptionError, match=r'window_stride=\(9, 9\) is not allowed: the export resizes each image'):
        Predictor.from_export('network.of_a_plugin', window_stride=(9, 9))


def test_parts_of_an_image_are_predicted_in_windows_if_the_image_is(predictor, monkeypatch):
    sizes, in_windows = [], AnySize._in_windows
    monkeypatch.setattr(AnySize, '_in_windows', lambda self, image, *wanted: (
        sizes.append(image.shape[:2]) or in_windows(self, image, *wanted)
    ))  # fmt: skip
    image = predictor_setup.pixels(20, 30)
    (whole,) = predictor.predict([image], part_of=(1024, 1024))
    assert not sizes
    (part,) = predictor.predict([image], part_of=(2049, 2048))
    assert np.array_equal(part.labels, whole.labels) and part.probabilities is not None and sizes == [(20, 30)] * 2


def test_a_runner_that_nobody_refers_to_releases_its_networks(monkeypatch):
    released = threading.Event()

    @contextlib.contextmanager
    def opened(*_):
        yield lambda images: Outputs(images[..., 0])
        released.set()

    monkeypatch.setattr(opening, 'opened', opened)
    lost = runners.CheckpointRunner(
        InferenceNetwork(predictor_setup.MODEL, PredictionOptions()), opening.Weights('none'), EngineOptions()
    )
    lost.run(np.zeros((1, 33, 33, 3)), False)
    assert not released.is_set()
    del lost
    gc.collect()
    assert released.wait(10)


def test_windows_give_the_result_of_the_whole_image(predictor, training):
    image = predictor_setup.pixels(150, 230)
    whole = predictor(image)
    # The network sees 12 pixels around each; a quarter of the overlap of 65 pixels is more.
    with Predictor.from_checkpoint(training, window=(97, 129), window_stride=(32, 64), probabilities=True) as tiled:
        found = tiled(image)
        assert np.allclose(found.probabilities, whole.probabilities, atol=1e-5)
        assert (found.labels == whole.labels).mean() > 0.9999
        (confident,) = tiled.predict([image], with_confidence=True)
        assert np.allclose(confident.confidence, whole.probabilities.max(axis=2), atol=1e-3)
        assert confident.confidence.dtype == np.float32
        dark = np.full((70, 250, 3), 0.5, np.float32)  # whose tiles, but not the whole, look like shares of 1
        dark[0, 0] = 200
        assert tiled(dark).labels.shape == (70, 250)
        small = predictor_setup.pixels(30, 40)
        assert np.array_equal(tiled(small).labels, predictor(small).labels)


def test_a_network_of_more_classes_than_a_byte_can_hold_is_refused():
    with pytest.raises(OptionError, match='^The network: 500 classes are not possible, only 1 to 256'):
        AnySize(types.SimpleNamespace(num_classes=500), WindowOptions())


def test_when_windows_are_used(predictor):
    def window_for(size, **options):
        return AnySize(predictor._runner, WindowOptions(**options)).window_for(*size)

    assert window_for((513, 513)) is None and window_for((2048, 2048)) is None
    assert window_for((2049, 2048)) == (513, 513)
    assert AnySize(predictor._runner, WindowOptions((100, 100))).window == (113, 113)
    assert window_for((113, 113), window=(100, 100)) is None
    assert window_for((114, 20), window=(100, 100)) == (113, 113)
    assert window_for((114, 20), window=(100, 100), whole_pixels=10000) is None


def test_a_closed_predictor(training):
    closed = Predictor.from_checkpoint(training)
    kept = closed(predictor_setup.pixels(20, 20))
    closed.close()
    closed.close()
    for use in (lambda: closed(predictor_setup.pixels(20, 20)), lambda: closed('a.jpg'), lambda: kept.probabilities):
        with pytest.raises(ValueError, match='closed.*probabilities=True'):
            use()
    assert kept.labels.shape == (20, 20)
    with pytest.raises(ValueError, match='closed before'):  # another thread was waiting for the network
        closed._runner.run(np.zeros((1, 33, 33, 3), np.float32), False)
    assert not closed._runner._open


def test_large_probabilities_are_kept_in_a_file(monkeypatch):
    monkeypatch.setattr(any_size, '_LARGEST_IN_MEMORY', 100)
    assert isinstance(any_size.room((3, 3, 3)), np.memmap) and not isinstance(any_size.room((5, 5, 1)), np.memmap)

    def is_full(descriptor, offset, size):
        raise OSError(errno.ENOSPC, 'No space left on device')

    monkeypatch.setattr(any_size.os, 'posix_fallocate', is_full)
    with pytest.raises(DataError, match='probabilities of an image, 108 bytes, in .* No space left.*TMPDIR'):
        any_size.room((3, 3, 3))


@pytest.mark.slow
def test_several_scales_and_flips(training):
    image = predictor_setup.pixels(33, 49)
    with Predictor.from_checkpoint(training, scales=(0.7, 1.0), add_flipped_images=True) as several:
        mirrored, plain = several(image[:, ::-1].copy()), several(image)
        assert np.allclose(mirrored.probabilities[:, ::-1], plain.probabilities, atol=1e-5)


def test_resizing_is_undone(training, predictor):
    image = predictor_setup.pixels(40, 60)
    with Predictor.from_checkpoint(training, resize=ResizeOptions(80, 200)) as resizing:
        (found,) = resizing.predict([image], with_confidence=True)
        assert found.labels.shape == found.confidence.shape == (40, 60)
        assert found.probabilities.shape == (40, 60, 4)
        assert resizing._runner._described.resize == ResizeOptions(80, 200)  # of images for calibration
        large = np.asarray(resizing._resizer.resized(image))
        assert large.shape == (80, 120, 3)
        rows, columns = np.arange(40) * 79 / 39, np.arange(60) * 119 / 59
        nearest = predictor(large).labels[np.rint(rows).astype(int)][:, np.rint(columns).astype(int)]
        assert (found.labels == nearest).mean() > 0.99


def test_only_some_classes(training):
    with Predictor.from_checkpoint(training, classes=('road', '3')) as some:
        assert set(np.unique(some(predictor_setup.pixels(40, 60)).labels)) <= {1, 3, 255}
    with pytest.raises(OptionError, match="classes.*'bus'.*sky, road, tree, car"):
        Predictor.from_checkpoint(training, classes=('bus',))


def test_wrong_options(training):
    with pytest.raises(TypeError, match='window_size'):
        Predictor.from_checkpoint(training, window_size=(5, 5))
    with pytest.raises(OptionError, match=r'window=\(97, 97\).*65 x 65'):
        Predictor.from_checkpoint(training, crop_size=(65, 65), window=(97, 97))
    with pytest.raises(OptionError, match='window=5 .*two positive integers'):
        Predictor.from_checkpoint(training, window=5)
    with pytest.raises(OptionError, match="classes='road' .*tuple"):
        Predictor.from_checkpoint(training, classes='road')
    with pytest.raises(OptionError, match="no class 'road'.*Known: .*Names need dataset"):
        kept_ids(('road',), ('0', '1'))
    with pytest.raises(CheckpointError, match='filters|aspp'):
        with Predictor.from_checkpoint(training, aspp=dataclasses.replace(predictor_setup.ASPP, filters=16)) as other:
            other(predictor_setup.pixels(20, 20))


def test_moving_averages_that_are_not_used_are_named(training, monkeypatch, caplog):
    monkeypatch.setattr(moving_average, 'held_by', lambda path: True)
    Predictor.from_checkpoint(training).close()
    assert 'also holds moving averages' in caplog.text and 'use_moving_average' in caplog.text


def test_the_averages_of_a_training_with_a_decay(training, tmp_path):
    image, path = predictor_setup.pixels(33, 33), tmp_path / 'log'
    shutil.copytree(training, path)
    reader = tf.train.load_checkpoint(f'{training}/model.ckpt-7')
    weights = {name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map()}
    averages = {f'{name}/ExponentialMovingAverage': value * 2 for name, value in weights.items() if value.ndim}
    checkpoint_files.write(path / 'model.ckpt-7', weights | averages)
    run = json.loads((path / 'run.json').read_text())
    run['runs'][0]['options']['moving_average_decay'] = 0.99
    (path / 'run.json').write_text(json.dumps(run))
    found = {}
    for asked in (None, True, False):
        with Predictor.from_checkpoint(path, use_moving_average=asked) as predictor:
            found[asked] = predictor(image).probabilities
    assert np.array_equal(found[None], found[True]) and not np.allclose(found[None], found[False])


def test_many_threads_and_the_graph_of_the_caller(predictor):
    images = [predictor_setup.pixels(20 + i, 30, i) for i in range(6)]
    alone = [predictor(image).labels for image in images]
    with concurrent.futures.ThreadPoolExecutor(6) as pool:
        together = [prediction.labels for prediction in pool.map(predictor, images)]
    assert all(np.array_equal(a, b) for a, b in zip(alone, together, strict=True))
    assert tf.executing_eagerly()
    with tf.Graph().as_default() as graph:
        assert np.array_equal(predictor(images[0]).labels, alone[0])
        assert not graph.get_operations()


@pytest.mark.slow
def test_a_network_with_a_fixed_pooling_size_is_built_for_each_size(training, monkeypatch):
    """Images that are smaller than the pooled area are padded to it; only some networks stay open."""
    monkeypatch.setattr(runners, 'MOST_NETWORKS', 2)
    with Predictor.from_checkpoint(training, image_pooling_crop_size=(33, 33)) as pooling:
        for side in (20, 40, 60, 20):
            assert pooling(predictor_setup.pixels(side, side)).labels.shape == (side, side)
        assert [key.size for key in pooling._runner._open] == [(65, 65), (33, 33)]


def test_a_preset_is_fetched_as_the_options_say(training, monkeypatch):
    fetched = []
    monkeypatch.setattr(
        module.model_source, 'of_preset', lambda name, changes: module.model_source.of_run(str(training))
    )
    monkeypatch.setattr(module.fetching, 'fetch', lambda *given: fetched.append(given) or str(training))
    fetch = FetchOptions(cache_dir='cache')
    with Predictor.of_preset('tiny', PredictorOptions(), {}, fetch) as made, Predictor.from_preset('tiny') as same:
        assert made.class_names == same.class_names == tuple(predictor_setup.CLASSES)
    assert fetched == [('tiny', fetch), ('tiny', None)]


def write_export(path, has_probabilities=True, crop=None, names=('ImageTensor', 'SemanticPredictions'), metadata=None):
    """A frozen graph that predicts the red channel divided by 64."""
    with tf.Graph().as_default() as graph:
        image = tf.compat.v1.placeholder(tf.uint8, [1, None, None, 3], name=names[0])
        labels = tf.cast(image[..., 0], tf.int32) // 64
        tf.identity(labels, name=names[1])
        if has_probabilities:
            tf.one_hot(labels, 4, name=tensor_names.PROBABILITIES)
        if crop is not None:
            tf.zeros([1, *crop], name=tensor_names.RAW_PREDICTIONS)
        if metadata is not None:
            tf.constant(export_metadata.dumped(metadata), name=tensor_names.METADATA)
    path.write_bytes(graph.as_graph_def().SerializeToString())
    return path


def test_a_frozen_graph(tmp_path, training):
    image = predictor_setup.pixels(70, 50)
    with Predictor.from_export(write_export(tmp_path / 'graph.pb', crop=(33, 41))) as exported:
        found = exported(image)  # in windows, as the export takes no larger images
        assert np.array_equal(found.labels, image[..., 0] // 64)
        assert found.probabilities.shape == (70, 50, 4) and found.class_names == ('0', '1', '2', '3')
        assert exported([image[:20, :30]])[0].labels.shape == (20, 30)
    with Predictor.from_export(write_export(tmp_path / 'plain.pb', has_probabilities=False)) as plain:
        assert np.array_equal(plain(image).labels, image[..., 0] // 64)
        with pytest.raises(OptionError, match='probabilities'):
            plain(image).probabilities  # noqa: B018
    sized = write_export(tmp_path / 'sized.pb', crop=(33, 41), has_probabilities=False)
    with Predictor.from_export(sized) as small, pytest.raises(DataError, match=r'70 x 50 .*33 x 41.*outputs='):
        small.predict([image])  # an image of many, which does not stop `deeplab predict`
    with Predictor.from_export(tmp_path / 'plain.pb', dataset=str(training / 'tiny.json')) as named:
        assert named.class_names == tuple(predictor_setup.CLASSES)


@pytest.mark.parametrize(
    ('metadata', 'names'),
    [
        ({'class_names': predictor_setup.CLASSES, 'colors': predictor_setup.COLORS}, predictor_setup.CLASSES),
        ({'class_names': predictor_setup.CLASSES, 'colors': predictor_setup.COLORS[1:]}, '0123'),
        ({'class_names': predictor_setup.CLASSES}, '0123'),
        ({'colors': predictor_setup.COLORS}, '0123'),
    ],
)
def test_an_export_has_the_classes_of_its_metadata(metadata, names, tmp_path, training):
    path = write_export(tmp_path / 'graph.pb', metadata={**metadata, 'metadata_version': 1})
    with Predictor.from_export(path) as exported:
        assert exported.class_names == tuple(names)
        assert (exported.colors[:4].tolist() == predictor_setup.COLORS) == (exported.class_names[0] == 'sky')
    with Predictor.from_export(path, dataset=str(training / 'tiny.json')) as named:
        assert named.class_names == tuple(predictor_setup.CLASSES)


def test_what_is_no_export(tmp_path):
    (tmp_path / 'text.pb').write_bytes(b'no graph at all')
    write_export(tmp_path / 'other.pb', names=('a', 'b'))
    for name, reason in (('text.pb', 'cannot be loaded'), ('other.pb', 'ImageTensor'), ('missing.pb', 'loaded')):
        with pytest.raises(CheckpointError, match=f'{name}.*{reason}'):
            Predictor.from_export(tmp_path / name)
    for given in (
        {'scales': (0.5, 1.0)},
        {'add_flipped_images': True},
        {'precision': 'bfloat16'},
        {'resize': ResizeOptions(min_value=33)},
        {'use_moving_average': True},
    ):
        with pytest.raises(OptionError, match='min_value' if 'resize' in given else next(iter(given))):
            Predictor.from_export(tmp_path / 'other.pb', **given)


def test_text(predictor, training, tmp_path):
    text = "model.ckpt-7': tiny at output stride 16, 4 classes (sky, road, tree, car)"
    assert repr(predictor).startswith(f"<Predictor of '{training}") and repr(predictor).endswith(f'{text}>')
    with Predictor.from_export(write_export(tmp_path / 'graph.pb')) as exported:
        assert repr(exported).endswith("graph.pb': 4 classes>")
    assert repr(exported).endswith("graph.pb': 4 classes, closed>")


def test_the_public_names():
    assert deeplab.Predictor is Predictor and 'Predictor' in dir(deeplab)
    for wrong in ('Predicter', '__main__'):
        with pytest.raises(AttributeError, match=wrong):
            getattr(deeplab, wrong)


def test_submodules_are_imported_when_they_are_used():
    code = 'import deeplab; deeplab.plugins.load([]); print(deeplab.launch.__name__)'  # which is in programs/
    result = subprocess.run([sys.executable, '-c', code], cwd=ROOT, capture_output=True, text=True)
    assert (result.stdout, result.returncode) == ('deeplab.launch\n', 0), result.stderr


@pytest.mark.slow
@pytest.mark.parametrize('kind', ['frozen_graph', 'saved_model'])
def test_real_exports_give_the_labels_of_the_checkpoint(training, predictor, tmp_path, kind):
    image = predictor_setup.pixels(40, 60)
    model = dataclasses.replace(predictor_setup.MODEL, crop_size=(65, 65))
    checkpoint = str(training / 'model.ckpt-7')
    for name, resize in (('plain', ResizeOptions()), ('resizing', ResizeOptions(20, 65))):
        path = str(tmp_path / name)
        export_model.run(ExportOptions(model, checkpoint, path, resize, export_format=kind))
        with Predictor.from_export(path, dataset=str(training / 'tiny.json')) as exported:
            assert exported.class_names == tuple(predictor_setup.CLASSES)
            found = exported(image)
            if name == 'plain':
                assert exported._runner.fixed_size == (65, 65)
                with Predictor.from_checkpoint(training, crop_size=(65, 65)) as same:
                    assert np.allclose(found.probabilities, same(image).probabilities, atol=1e-5)
                # Larger than the export takes: in windows, which need not begin where those of a checkpoint do.
                assert exported(predictor_setup.pixels(90, 100)).labels.shape == (90, 100)
            else:
                assert exported._runner.fixed_size is None and found.labels.shape == (40, 60)
                assert exported(predictor_setup.pixels(200, 100)).probabilities.shape == (200, 100, 4)


def test_tensorflow_takes_the_sizes_for_which_the_network_is_not_converted(training, predictor, monkeypatch):
    monkeypatch.setattr(runners, 'MOST_SIZES', 1)
    shapes = []

    @contextlib.contextmanager
    def opened(graph, execution):
        with ENGINES.get('tensorflow').open(graph, execution) as predict:
            yield lambda images: shapes.append(images.shape) or predict(images)

    with changes_undone(ENGINES):
        register(Engine(name='fake', open=opened))
        with Predictor.from_checkpoint(training, engine='fake') as other:
            for side in (20, 40, 60, 30):
                image = predictor_setup.pixels(side, side)
                assert np.array_equal(other(image).labels, predictor(image).labels)
    assert shapes == [(1, 33, 33, 3), (1, 33, 33, 3)]


def test_converted_networks_stay_open(monkeypatch):
    opened_for = []

    @contextlib.contextmanager
    def opened(network, weights, execution, cache_dirs):
        opened_for.append((execution.engine, network.options.crop_size, network.with_probabilities))
        yield lambda images: Outputs(images[..., 0], images)

    monkeypatch.setattr(opening, 'opened', opened)
    with changes_undone(ENGINES):
        register(Engine(name='fake', open=opened))
        network = InferenceNetwork(dataclasses.replace(predictor_setup.MODEL, crop_size=None), PredictionOptions())
        runner = runners.CheckpointRunner(network, opening.Weights('none'), EngineOptions('fake'))
        for _ in range(2):
            for side in (17, 33, 49, 65, 81):
                for with_probabilities in (False, True):
                    runner.run(np.zeros((1, side, side, 3), np.float32), with_probabilities)
        runner.close()
    assert len(opened_for) == len(set(opened_for)) == 10
    others = [each for each in opened_for if each[0] != 'fake']
    assert others == [('tensorflow', None, False), ('tensorflow', None, True)]


@pytest.mark.slow
@pytest.mark.parametrize('engine', ['openvino', 'tflite', 'auto'])
def test_other_engines(training, predictor, engine):
    if engine == 'openvino':
        pytest.importorskip('openvino')
    images = [predictor_setup.pixels(20, 30), predictor_setup.pixels(20, 30, 1)]
    with Predictor.from_checkpoint(training, engine=engine, batch_size=2, crop_size=(33, 33)) as other:
        found = other(images)
        with Predictor.from_checkpoint(training, crop_size=(33, 33)) as usual:
            for prediction, image in zip(found, images, strict=True):
                assert (prediction.labels == usual(image).labels).mean() > 0.999
        assert found[1].probabilities.shape == (20, 30, 4)
