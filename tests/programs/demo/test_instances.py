"""The baseline of the panoptic demo, by hand, and its pictures."""

import numpy as np
import pytest
from PIL import Image

from deeplab.core import connected_components
from deeplab.programs.demo import dataset, instances, scenes

SIZE = (64, 96)


def write_scene(folder, class_ids, instance_ids):
    for name in (dataset.MASKS, dataset.INSTANCES, dataset.LISTS):
        (folder / name).mkdir(parents=True)
    (folder / dataset.LISTS / 'val.txt').write_text('one\n')
    Image.fromarray(class_ids).save(folder / dataset.MASKS / 'one.png')
    Image.fromarray(instance_ids).save(folder / dataset.INSTANCES / 'one.png')


def test_objects_that_touch_are_one_component(tmp_path):
    class_ids = np.full((4, 8), scenes.SKY, np.uint8)
    class_ids[1:3, 1:5] = scenes.CAR  # two cars side by side
    class_ids[1, 6] = scenes.PERSON
    instance_ids = np.zeros((4, 8), np.uint16)
    instance_ids[1:3, 1:3], instance_ids[1:3, 3:5], instance_ids[1, 6] = 1, 2, 3
    write_scene(tmp_path / 'voc', class_ids, instance_ids)
    (tmp_path / 'raw').mkdir()
    Image.fromarray(class_ids).save(tmp_path / 'raw/one.png')
    # Sky and person are right; of the cars, one component covers half of itself with each.
    assert instances.components_quality(tmp_path / 'voc', tmp_path / 'raw') == pytest.approx(2 / 3)


def test_even_true_classes_leave_objects_together(tmp_path):
    dataset.write_dataset(tmp_path / 'voc', 0, {'val': 4}, SIZE, with_instances=True)
    (tmp_path / 'raw').mkdir()
    for index in range(4):
        scene = scenes.draw_scene(0, 'val', index, *SIZE, crowded=True)
        Image.fromarray(scene.mask).save(tmp_path / f'raw/val_{index:04d}.png')
        Image.fromarray(connected_components.thing_components(scene.mask, scenes.THINGS).astype(np.uint16)).save(
            tmp_path / 'voc' / dataset.INSTANCES / f'val_{index:04d}_components.png'
        )
    assert instances.components_quality(tmp_path / 'voc', tmp_path / 'raw') < 0.95
    for index in range(4):  # with components as the truth, nothing is wrong
        path = tmp_path / 'voc' / dataset.INSTANCES / f'val_{index:04d}.png'
        path.with_name(f'val_{index:04d}_components.png').replace(path)
    assert instances.components_quality(tmp_path / 'voc', tmp_path / 'raw') == 1


def test_neighbors_of_one_class_have_different_colors():
    scene = scenes.draw_scene(0, 'val', 1, *SIZE, crowded=True)
    drawn = instances.drawn(np.zeros_like(scene.image), scene.mask, scene.instances)
    assert drawn.shape == (*SIZE, 3) and drawn.dtype == np.uint8
    colors = {tuple(np.median(drawn[scene.instances == i], axis=0)) for i in np.unique(scene.instances)[1:]}
    assert len(colors) == scene.instances.max()
    without = instances.drawn(np.full_like(scene.image, 255), np.full(SIZE, 255, np.uint8), np.zeros(SIZE, np.uint16))
    assert (without == without[0, 0]).all() and (without[0, 0] < 255).all()  # the color of ignored pixels
