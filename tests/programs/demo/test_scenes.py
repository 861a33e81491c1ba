"""The generated data set: deterministic, in VOC's layout, with thin objects, and not solvable by color alone.

Covers programs/demo/canvas.py and programs/demo/dataset.py.
"""

import hashlib
import json

import numpy as np
import pytest
from PIL import Image

from deeplab.datasets import descriptor
from deeplab.programs.demo import canvas, dataset, scenes

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


@pytest.mark.parametrize(
    'scene, digest',
    [
        ((0, 'train', 0), 'a02e3dabeeed8e3f cc2b8bd2e17d9c1d'),
        ((0, 'val', 7), '245c5a743e2eb784 1e1734ed23dcbd05'),
        ((3, 'train', 11), '6be37bd1299f968b 09c88b72f84ed89c'),
        ((1, 'val', 2, 64, 80), 'e1a38a503fc1aabb 18b499b1f40462c4'),
    ],
)
def test_scenes_do_not_change(scene, digest):
    # The figures of the documentation are of these pictures. Another version of Pillow or NumPy may draw otherwise.
    image, mask, _ = scenes.draw_scene(*scene)
    assert ' '.join(hashlib.sha256(pixels.tobytes()).hexdigest()[:16] for pixels in (image, mask)) == digest


@pytest.mark.parametrize('crowded', [False, True])
def test_instances_are_the_objects_of_the_thing_classes(crowded):
    for index in range(6):
        _, mask, instances = scenes.draw_scene(0, 'train', index, crowded=crowded)
        assert instances.shape == mask.shape and instances.dtype == np.uint16
        np.testing.assert_array_equal(instances > 0, np.isin(mask, scenes.THINGS))
        for number in range(1, instances.max() + 1):
            assert len(np.unique(mask[instances == number])) == 1


def test_crowded_scenes_are_others():
    plain, crowded = scenes.draw_scene(2, 'val', 1), scenes.draw_scene(2, 'val', 1, crowded=True)
    np.testing.assert_array_equal(crowded.image, scenes.draw_scene(2, 'val', 1, crowded=True).image)
    assert (plain.image != crowded.image).any(axis=2).mean() > 0.5


def touching(scene) -> set[int]:
    """Instances that touch, at a side or a corner, another one of their class."""
    classes, numbers = (np.pad(ids.astype(np.int64), 1) for ids in (scene.mask, scene.instances))
    center = np.s_[1:-1, 1:-1]
    result = set()
    for y, x in np.ndindex(3, 3):
        beside = np.s_[y : y + scene.mask.shape[0], x : x + scene.mask.shape[1]]
        is_other = (numbers[beside] > 0) & (numbers[center] > 0) & (numbers[beside] != numbers[center])
        result |= set(numbers[center][is_other & (classes[beside] == classes[center])].tolist())
    return result


def test_a_third_of_the_instances_in_crowded_scenes_touch_another_of_their_class():
    drawn = [scenes.draw_scene(0, 'val', index, 96, 132, crowded=True) for index in range(60)]
    assert sum(len(touching(scene)) for scene in drawn) >= sum(int(scene.instances.max()) for scene in drawn) / 3
    # There are some in most scenes, and both classes have many.
    assert np.median([scene.instances.max() for scene in drawn]) >= 4
    for label in scenes.THINGS:
        assert sum(len(np.unique(scene.instances[scene.mask == label])) for scene in drawn) >= 60


def two_overlapping(**options) -> canvas.Drawing:
    """Two objects of class 3, and in front of both one of class 4, on class 0."""
    painting = canvas.Canvas(6, 12)
    painting.begin(0)
    painting.bar(0, 0, 12, 6, (0, 0, 0))
    for label, (left, right) in ((3, (1, 6)), (3, (4, 9)), (4, (8, 11))):
        painting.begin(label, has_border=True)
        painting.bar(left, 1, right, 5, (9, 9, 9))
    return painting.finish(**options)


def test_nearer_objects_cover_farther_ones_in_labels_and_layers():
    drawing = two_overlapping()
    assert drawing.layers[2].tolist() == [1, 2, 2, 2, 3, 3, 3, 3, 4, 4, 4, 1]
    assert drawing.labels[2].tolist() == [255, 3, 3, 255, 3, 3, 3, 255, 4, 4, 4, 255]


def test_objects_of_one_class_touch_if_there_is_no_border_between_them():
    drawing = two_overlapping(border_within_class=False)
    assert drawing.labels[2].tolist() == [255, 3, 3, 3, 3, 3, 3, 255, 4, 4, 4, 255]
    np.testing.assert_array_equal(drawing.layers, two_overlapping().layers)
    np.testing.assert_array_equal(drawing.labels[[0, 5]], two_overlapping().labels[[0, 5]])


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


def test_instances_are_written_as_16_bit_files(tmp_path):
    dataset.write_dataset(tmp_path / 'voc', 1, {'val': 2}, (64, 80), with_instances=True)
    scene = scenes.draw_scene(1, 'val', 1, 64, 80, crowded=True)
    np.testing.assert_array_equal(dataset.pixels(tmp_path / 'voc/SegmentationClass/val_0001.png'), scene.mask)
    instances = dataset.pixels(tmp_path / 'voc/SegmentationObject/val_0001.png')
    np.testing.assert_array_equal(instances, scene.instances)
    assert instances.dtype == np.uint16 and instances.max() > 1
    street = descriptor.load(str(tmp_path / 'voc/street.json'))
    assert street.things == scenes.THINGS and street.class_names[street.things[1]] == 'person'


def test_scenes_without_instances_have_no_folder_for_them(tmp_path):
    dataset.write_dataset(tmp_path / 'voc', 1, {'train': 1}, (64, 80))
    assert not (tmp_path / 'voc' / dataset.INSTANCES).exists()
    assert 'things' not in json.loads((tmp_path / 'voc/street.json').read_text())


def test_a_drawing_that_stops_leaves_no_data_set(tmp_path, monkeypatch):
    def stop(seed, split, index, *size, **options):
        if index:
            raise KeyboardInterrupt
        return draw(seed, split, index, *size, **options)

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
    painted = scene._replace(image=flat)
    assert nearest_mean_color_miou([painted], [painted]) == 1.0
