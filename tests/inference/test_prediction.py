"""The prediction for one image: shares, pictures, files."""

import copy
import dataclasses
import functools
import io
import pickle
import threading

import numpy as np
import pytest
from PIL import Image

from deeplab import common
from deeplab.core import panoptic_merge
from deeplab.datasets import task_data
from deeplab.datasets.descriptor import DatasetDescriptor
from deeplab.errors import DataError, OptionError
from deeplab.inference import prediction as module
from deeplab.inference.prediction import NO_CLASS, Prediction
from deeplab.inference.task_decoding import TaskDecoder, TaskPrediction
from deeplab.options import ModelOptions
from deeplab.pictures import drawing

IMAGE = np.full((2, 4, 3), 100, np.uint8)
LABELS = np.array([[0, 0, 1, 2], [0, 0, 1, 2]], np.uint8)
COLORS = np.array([(0, 0, 0), (200, 0, 0), (0, 50, 255)], np.uint8)
CLASSES = DatasetDescriptor('', 3, class_names=('sky', 'road', 'car'), palette=COLORS)
SCORES = np.eye(3, dtype=np.float32)[LABELS] * np.float32(0.5) + np.float32(0.25)


def made(kept=(0, 1, 2), image=IMAGE, compute=lambda: SCORES):
    is_kept = np.ones(256, bool) if len(kept) == 3 else np.isin(np.arange(256), kept)
    return Prediction(image, LABELS, CLASSES, is_kept, (None, None), compute)


def test_shares_and_text():
    assert made().shares == {'sky': 0.5, 'road': 0.25, 'car': 0.25}
    assert '2 x 4' in repr(made()) and 'sky 50.0%' in repr(made())
    assert made(kept=[2]).shares == {'car': 0.25}


def test_classes_that_are_not_kept():
    some = made(kept=[1])
    assert some.labels.tolist() == [[NO_CLASS, NO_CLASS, 1, NO_CLASS]] * 2
    assert some.colored()[0].tolist() == [[0, 0, 0], [0, 0, 0], [200, 0, 0], [0, 0, 0]]
    assert some.overlay()[0].tolist() == [[100] * 3, [100] * 3, [150, 50, 50], [100] * 3]


def test_files_of_panoptic_segments_have_kept_classes_alone(tmp_path):
    model = ModelOptions({common.OUTPUT_TYPE: 3}, task='panoptic')
    things = dataclasses.replace(CLASSES, things=(1, 2))
    class_ids = np.array([[0, 0, 2, 2], [0, 0, 1, 2]], np.uint8)  # in one pixel not the most probable class
    instance_ids = np.array([[0, 0, 1, 1], [0, 0, 1, 1]], np.uint16)
    instances = [panoptic_merge.Instance(number, 1, (0, 0), 2, 0.5) for number in (1, 2)]
    result = {'class_ids': class_ids, 'instance_ids': instance_ids, 'instances': instances}
    tasks = TaskPrediction({'panoptic': result}, TaskDecoder(model, task_data.context_of(things, model)))
    is_kept = np.isin(np.arange(256), [2])
    some = Prediction(IMAGE, LABELS, things, is_kept, (None, None), lambda: SCORES, tasks)
    for kind, void in (('class_ids', 255), ('instances', 0)):
        some.save(tmp_path / f'{kind}.png', kind)
        kept = np.where(class_ids == 2, result[kind.replace('instances', 'instance_ids')], void)
        np.testing.assert_array_equal(np.asarray(Image.open(tmp_path / f'{kind}.png')), kept)
    np.testing.assert_array_equal((some.overlay() != IMAGE).any(axis=2), class_ids == 2)
    segments = some.entry('panoptic', 'a.png')['segments_info']
    assert [each['category_id'] for each in segments] == [2]
    assert some.class_ids.tolist() == class_ids.tolist()  # results have all classes


def test_overlay(monkeypatch):
    assert made().overlay(0.25)[1].tolist() == [[75, 75, 75], [75, 75, 75], [125, 75, 75], [75, 88, 139]]
    assert np.array_equal(made().overlay(1.0), made().colored())
    whole = made().overlay()
    monkeypatch.setattr(drawing, '_BAND', 4)  # one row
    assert np.array_equal(made().overlay(), whole) and made().shares['sky'] == 0.5
    gray = made(image=IMAGE[..., :1].astype(np.float32))
    assert np.array_equal(gray.overlay(), whole)
    with pytest.raises(OptionError, match='alpha=7.*0 to 1'):
        gray.overlay(7)


def test_probabilities_are_computed_once_when_they_are_read():
    calls = []
    lazy = made(compute=lambda: calls.append(1) or SCORES)
    assert lazy.labels is not None and not calls
    of_images = IMAGE.nbytes + LABELS.nbytes
    assert lazy.nbytes == of_images
    assert lazy.probabilities.shape == (2, 4, 3) and np.allclose(lazy.confidence, 0.75)
    assert lazy.probabilities is lazy.probabilities and calls == [1]
    assert lazy.nbytes == of_images + SCORES.nbytes + lazy.confidence.nbytes
    heights = np.zeros((2, 4), np.float32)
    tasks = TaskPrediction({'height': {'heights': heights, 'unit': 'm'}}, None)
    known = Prediction(IMAGE, LABELS, CLASSES, np.ones(256, bool), (None, SCORES), lambda: SCORES, tasks)
    assert known.nbytes == of_images + SCORES.nbytes + heights.nbytes


def test_the_confidence_does_not_keep_the_probabilities():
    lazy = made()
    assert np.allclose(lazy.confidence, 0.75) and lazy._probabilities is None
    assert lazy.nbytes == IMAGE.nbytes + LABELS.nbytes + LABELS.size * 4


def test_copies():
    lazy = made(compute=functools.partial(lambda lock: SCORES, threading.Lock()))  # which cannot be copied
    assert copy.deepcopy(lazy).probabilities is SCORES
    sent = pickle.loads(pickle.dumps(lazy))
    assert np.array_equal(sent.labels, lazy.labels) and sent.shares == lazy.shares
    with pytest.raises(ValueError, match='pickled has no network.*probabilities=True'):
        sent.confidence  # noqa: B018
    assert lazy.confidence is not None
    assert np.array_equal(pickle.loads(pickle.dumps(lazy)).confidence, lazy.confidence)


def test_files(tmp_path):
    result = made()
    for kind, name in (('mask', 'm.png'), ('color', 'c.png'), ('overlay', 'o.png'), ('confidence', 'f.png')):
        result.save(tmp_path / name, kind)
    result.save(tmp_path / 'o.jpg', 'overlay')
    result.save(str(tmp_path / 'p.npy'), 'probabilities')
    mask, color = Image.open(tmp_path / 'm.png'), Image.open(tmp_path / 'c.png')
    assert mask.mode == 'L' and np.array_equal(mask, LABELS)
    assert color.mode == 'P' and np.array_equal(color, LABELS)
    assert np.array_equal(color.convert('RGB'), result.colored())
    assert np.array_equal(Image.open(tmp_path / 'o.png'), result.overlay())
    assert (tmp_path / 'o.jpg').read_bytes()[:3] == b'\xff\xd8\xff'
    assert np.all(np.asarray(Image.open(tmp_path / 'f.png')) == 191)
    assert np.array_equal(np.load(tmp_path / 'p.npy'), SCORES)
    assert not list(tmp_path.glob('*.partial'))


@pytest.mark.parametrize(
    ('name', 'kind'), [('m.jpg', 'mask'), ('m.png', 'masks'), ('p.npz', 'probabilities'), ('m', 'mask')]
)
def test_files_that_cannot_hold_a_prediction(tmp_path, name, kind):
    with pytest.raises(OptionError, match=name):
        made().save(tmp_path / name, kind)
    with pytest.raises(DataError, match='nowhere'):
        made().save(tmp_path / 'nowhere' / 'm.png')


def read(path):
    with Image.open(path) as image:
        return image.copy()


def colors_in(picture):
    return {color for _, color in picture.convert('RGB').getcolors(1 << 16)}


def test_notebooks_show_the_overlay_with_a_legend(monkeypatch):
    monkeypatch.setattr(module, '_PREVIEW_SIDE', 2)
    shown = Image.open(io.BytesIO(made(kept=[1])._repr_png_()))
    expected = Image.fromarray(made(kept=[1]).overlay())
    expected.thumbnail((2, 2))
    assert expected.size == (2, 1) and np.array_equal(shown.crop((0, 0, 2, 1)), expected)
    assert shown.width > 60 and shown.getpixel((2, 0)) == drawing.PAPER
    assert (200, 0, 0) in colors_in(shown) and (0, 50, 255) not in colors_in(shown)
    nothing = Prediction(IMAGE, LABELS, CLASSES, np.zeros(256, bool), (None, None), lambda: SCORES)
    assert Image.open(io.BytesIO(nothing._repr_png_())).size == (2, 1)


def test_a_legend_beside_an_overlay(tmp_path):
    sizes = set()
    only_sky = Prediction(IMAGE, LABELS * 0, CLASSES, np.ones(256, bool), (None, None), lambda: SCORES)
    for result, suffix in ((made(), 'png'), (only_sky, 'png'), (made(), 'jpg')):
        for legend in ('present', 'all'):
            result.save(tmp_path / f'{legend}.{suffix}', 'overlay', 0.25, legend)
        present, complete = (read(tmp_path / f'{name}.{suffix}') for name in ('present', 'all'))
        if suffix == 'png':
            assert np.array_equal(present.crop((0, 0, 4, 2)), result.overlay(0.25))
            assert ((200, 0, 0) in colors_in(present)) == (result is not only_sky)
            assert {(0, 0, 0), (200, 0, 0), (0, 50, 255)} <= colors_in(complete)
        sizes.add(complete.size)
    assert len(sizes) == 1  # so that frames of a video have one size
    for kind, legend in (('color', 'all'), ('overlay', 'some'), ('mask', 'present')):
        with pytest.raises(OptionError, match=f"legend='{legend}'.*'present' or 'all'.*overlays only"):
            made().save(tmp_path / 'a.png', kind, legend=legend)


def test_an_overlay_that_is_too_long_for_jpeg():
    assert module.overlay_suffix(10, 70000) == '.png' and module.overlay_suffix(10, 60000) == '.jpg'
