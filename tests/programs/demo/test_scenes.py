"""The generated data set: deterministic, in VOC's layout, with thin objects, and not solvable by color alone.

Covers programs/demo/canvas.py and programs/demo/dataset.py.
"""

import json

import numpy as np
import pytest
from PIL import Image

from deeplab.datasets import descriptor
from deeplab.programs.demo import dataset, scenes

CLASSES = len(scenes.CLASS_NAMES)


def test_a_scene_depends_on_seed_split_and_index_alone():
    first = scenes.draw_scene(3, 'val', 5)
    scenes.draw_scene(3, 'val', 4)
    again = scenes.draw_scene(3, 'val', 5)
    np.testing.assert_array_equal(first.image, again.image)
    np.testing.assert_array_equal(first.mask, again.mask)
    for other in (scenes.draw_scene(4, 'val', 5), scenes.draw_scene(3, 'train', 5), scenes.draw_scene(3, 'val', 6)):
        assert (other.image != first.image).any(axis=2).mean() > 0.5


def test_a_scene_has_the_asked_size_and_known_ids():
    scene = scenes.draw_scene(0, 'train', 0, height=96, width=120)
    assert scene.image.shape == (96, 120, 3) and scene.image.dtype == np.uint8
    assert scene.mask.shape == (96, 120) and scene.mask.dtype == np.uint8
    assert set(np.unique(scene.mask)) <= {*range(CLASSES), 255}


def test_every_class_occurs_and_borders_are_thin():
    masks = [scenes.draw_scene(0, 'train', index).mask for index in range(10)]
    shares = np.bincount(np.concatenate([mask.ravel() for mask in masks]), minlength=256) / np.size(masks)
    assert (shares[:CLASSES] > 0.005).all()
    assert 0.01 < shares[255] < 0.15
    # One pixel wide: hardly any 3x3 window is ignored altogether.
    for mask in masks:
        assert _eroded(mask == 255, 3, 3).mean() < 0.005


def _eroded(mask: np.ndarray, rows: int, columns: int) -> np.ndarray:
    """Windows of rows x columns that are set altogether."""
    return np.lib.stride_tricks.sliding_window_view(mask, (rows, columns)).all(axis=(2, 3))


def test_poles_are_2_to_4_pixels_wide():
    # No window of 5x5 is all pole (posts and arms are thin), and most pole pixels lie in one of 2x2 (they are whole).
    poles = [scenes.draw_scene(0, 'train', index).mask == scenes.POLE for index in range(10)]
    assert sum(_eroded(mask, 5, 5).sum() for mask in poles) == 0
    wide = sum(_eroded(np.pad(mask, 1), 2, 2).sum() for mask in poles)
    assert wide > 0.4 * sum(mask.sum() for mask in poles)


def test_the_data_set_is_written_as_voc_writes_it(tmp_path):
    folder = tmp_path / 'voc'
    dataset.write_dataset(folder, 1, {'train': 3, 'val': 2}, (64, 80))
    assert [path.name for path in tmp_path.iterdir()] == ['voc']
    assert (folder / 'ImageSets/Segmentation/val.txt').read_text() == 'val_0000\nval_0001\n'
    scene = scenes.draw_scene(1, 'val', 1, 64, 80)
    with Image.open(folder / 'SegmentationClass/val_0001.png') as mask:
        assert mask.mode == 'P'
        np.testing.assert_array_equal(np.asarray(mask), scene.mask)
        assert tuple(mask.getpalette()[3 * scenes.CAR : 3 * scenes.CAR + 3]) == scenes.PALETTE[scenes.CAR]
        assert mask.getpalette()[3 * 254 :] == [0, 0, 0, 224, 224, 192]
    with Image.open(folder / 'JPEGImages/val_0001.jpg') as image:
        assert image.mode == 'RGB' and image.size == (80, 64)
        assert np.abs(np.asarray(image, np.int32) - scene.image).mean() < 12


def test_a_drawing_that_stops_leaves_no_data_set(tmp_path, monkeypatch):
    def stop(seed, split, index, *size):
        if index:
            raise KeyboardInterrupt
        return draw(seed, split, index, *size)

    draw = scenes.draw_scene
    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(scenes, 'draw_scene', stop)
        dataset.write_dataset(tmp_path / 'voc', 0, {'train': 2}, (64, 80))
    assert not (tmp_path / 'voc').exists()
    dataset.write_dataset(tmp_path / 'voc', 0, {'train': 2}, (64, 80))
    assert len(list((tmp_path / 'voc/JPEGImages').iterdir())) == 2


def test_the_description_is_one_that_dataset_takes(tmp_path):
    path = tmp_path / 'street.json'
    path.write_text(json.dumps(dataset.description({'train': 3, 'val': 2})))
    street = descriptor.load(str(path))
    assert (street.name, street.num_classes, street.ignore_label) == ('street', CLASSES, 255)
    assert street.splits == {'train': 3, 'val': 2}
    assert tuple(street.class_names) == scenes.CLASS_NAMES
    np.testing.assert_array_equal(street.palette, scenes.PALETTE)


@pytest.mark.parametrize('seed', [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (1, 2))])
def test_mean_colors_do_not_tell_the_classes_apart(seed):
    train = [scenes.draw_scene(seed, 'train', index) for index in range(24)]
    val = [scenes.draw_scene(seed, 'val', index) for index in range(10)]
    miou = nearest_mean_color_miou(train, val)
    assert miou < 0.40
    # Better than one class for all pixels, so the classifier itself works.
    assert miou > 1 / CLASSES / 2


def nearest_mean_color_miou(train, val) -> float:
    """mIoU on `val` of the class whose mean color in `train` is nearest."""
    pixels = np.concatenate([scene.image.reshape(-1, 3) for scene in train]).astype(np.float64)
    labels = np.concatenate([scene.mask.ravel() for scene in train])
    means = np.stack([pixels[labels == label].mean(axis=0) for label in range(CLASSES)])
    confusion = np.zeros((CLASSES, CLASSES), np.int64)
    for scene in val:
        distances = ((scene.image[:, :, None].astype(np.float64) - means) ** 2).sum(axis=3)
        counted = scene.mask != 255
        pairs = scene.mask[counted].astype(np.int64) * CLASSES + distances.argmin(axis=2)[counted]
        confusion += np.bincount(pairs, minlength=CLASSES**2).reshape(CLASSES, CLASSES)
    hits = np.diag(confusion)
    return float((hits / (confusion.sum(0) + confusion.sum(1) - hits)).mean())


def test_the_color_classifier_would_pass_on_flat_colors():
    # Guards the guard: with one color a class the same classifier is perfect.
    scene = next(s for s in (scenes.draw_scene(0, 'train', i) for i in range(9)) if len(np.unique(s.mask)) > CLASSES)
    counted = scene.mask != 255
    flat = np.array(scenes.PALETTE, np.uint8)[np.where(counted, scene.mask, 0)]
    painted = scenes.Scene(flat, scene.mask)
    assert nearest_mean_color_miou([painted], [painted]) == 1.0
