"""Descriptors of data sets: by name, from modules and from files, and their errors.

Covers datasets/descriptors/__init__.py and files/user_modules.py.
"""

import hashlib
import json
import os
import re
import sys

import numpy as np
import pytest

from deeplab.datasets import build_camvid_data, cityscapes_labels, descriptor
from deeplab.errors import OptionError
from deeplab.registry import DATASETS


@pytest.mark.parametrize(
    ('name', 'classes', 'ignore', 'splits'),
    [
        ('pascal_voc_seg', 21, 255, {'train': 1464, 'train_aug': 10582, 'trainval': 2913, 'val': 1449}),
        ('ade20k', 151, 0, {'train': 20210, 'val': 2000}),
        ('camvid', 11, 255, {'train': 367, 'val': 101}),
        (
            'cityscapes',
            19,
            255,
            {'train_fine': 2975, 'train_coarse': 22973, 'trainval_fine': 3475, 'trainval_coarse': 23473}
            | {'val_fine': 500, 'test_fine': 1525, 'train': 2975, 'val': 500},
        ),
    ],
)
def test_the_packages_data_sets(name, classes, ignore, splits):
    dataset = descriptor.load(name)
    assert (dataset.name, dataset.num_classes, dataset.ignore_label) == (name, classes, ignore)
    assert splits.items() <= dataset.splits.items()
    assert len(set(dataset.class_names)) == classes or name == 'ade20k'
    assert len(dataset.class_names) == classes
    assert dataset.palette.shape == (classes, 3) and dataset.palette.dtype == np.uint8
    assert not dataset.palette.flags.writeable


@pytest.mark.parametrize(
    ('name', 'digest'),
    [
        ('ade20k', '7ebd74a64a56'),
        ('camvid', '2cb141cc612a'),
        ('camvid32', '85975e3b7023'),
        ('cityscapes', '5af5a8d200c6'),
        ('coco_panoptic', 'efcc320916d0'),
        ('coco_stuff', '0b1ece87d53c'),
        ('mapillary_vistas', 'e52761e16320'),
        ('pascal_voc_seg', '46a99c0d1f42'),
    ],
)
def test_published_colors_do_not_change(name, digest):
    assert hashlib.sha256(descriptor.load(name).palette.tobytes()).hexdigest().startswith(digest)


def test_the_classes_of_a_network_have_the_names_of_a_data_set_of_as_many():
    camvid = descriptor.load('camvid')
    for count in (11, None):
        classes = descriptor.classes_of('camvid', count, is_required=True)
        assert classes.names == camvid.class_names and classes.image_bits == 8
        np.testing.assert_array_equal(classes.palette, camvid.palette)


@pytest.mark.parametrize(('count', 'names'), [(3, ('0', '1', '2')), (None, tuple(map(str, range(256))))])
def test_without_a_data_set_classes_have_numbers(count, names):
    classes = descriptor.classes_of(None, count)
    assert classes.names == names and classes.palette.shape == (len(names), 3)


@pytest.mark.parametrize(
    ('name', 'message'),
    [('camvid', r"The network has 3 classes, the data set 'camvid' 11\. Set dataset to the one"), ('camvit', 'camvit')],
)
def test_a_data_set_that_does_not_fit_a_network_is_an_error_or_a_warning(name, message, caplog):
    with pytest.raises(OptionError, match=message):
        descriptor.classes_of(name, 3, is_required=True)
    assert not caplog.messages
    assert descriptor.classes_of(name, 3).names == ('0', '1', '2')
    assert re.search(f'The names of the classes are unknown: .*{message}', caplog.text)


def test_the_11_classes_of_camvid_have_colors_and_splits_of_the_32():
    dataset = descriptor.load('camvid')
    assert dataset.splits == descriptor.load('camvid32').splits
    colors = {(group, color) for _, color, group in build_camvid_data.classes()}
    assert {*zip(dataset.class_names, map(tuple, dataset.palette.tolist()), strict=True)} <= colors


def test_known_names_are_found_without_a_list():
    assert {'ade20k', 'camvid', 'cityscapes', 'pascal_voc_seg'} <= set(DATASETS.names())


def test_cityscapes_evaluation_ids():
    wanted = (7, 8, 11, 12, 13, 17, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 31, 32, 33)
    assert descriptor.load('cityscapes').eval_ids == cityscapes_labels.EVALUATED == wanted


def test_ade20k_names_stand_at_their_ids():
    names = descriptor.load('ade20k').class_names
    assert [names[i] for i in (0, 1, 13, 45, 66, 90, 150)] == [
        'other', 'wall', 'person', 'chest of drawers', 'toilet', 'television receiver', 'flag',
    ]  # fmt: skip


def test_class_name_falls_back_to_the_number():
    assert descriptor.DatasetDescriptor('x', 3).class_name(2) == '2'
    assert descriptor.load('camvid').class_name(2) == 'pole'


def test_unknown_name():
    message = (
        "Unknown dataset 'voc'. Did you mean pascal_voc_seg? Known: ade20k, camvid, camvid32, cifar10, cityscapes, "
        'coco_panoptic, coco_stuff, flowers, imagenet, mapillary_vistas, mnist, pascal_voc_seg, visualwakewords. Or '
        'pass a Python module that defines DATASET (by its name, or as a file), or a JSON or YAML file.'
    )
    with pytest.raises(OptionError, match=f'^{re.escape(message)}$'):
        descriptor.load('voc')


@pytest.mark.parametrize('name', ['example', 'nowhere.at_all', 'deeplab.datasets.nowhere', '..', ''])
def test_names_that_are_no_data_sets(name):
    with pytest.raises(OptionError, match='^Unknown dataset'):
        descriptor.load(name)


def test_module_by_its_path(tmp_path, monkeypatch):
    (tmp_path / 'my_birds').mkdir()
    (tmp_path / 'my_birds' / 'small.py').write_text(
        'from deeplab.datasets.descriptor import DatasetDescriptor\nDATASET = DatasetDescriptor("birds", 2)\n'
    )
    (tmp_path / 'my_birds' / 'empty.py').write_text('')
    (tmp_path / 'my_birds' / 'broken.py').write_text('import a_module_that_is_not_there\n')
    monkeypatch.syspath_prepend(str(tmp_path))
    assert descriptor.load('my_birds.small').name == 'birds'
    with pytest.raises(
        OptionError, match="^Module 'my_birds.empty' does not describe a data set: it must define DATASET"
    ):
        descriptor.load('my_birds.empty')
    with pytest.raises(OptionError, match=r"broken.py, line 1: ModuleNotFoundError: .*'a_module_that_is_not_there'"):
        descriptor.load('my_birds.broken')


MODULE = 'from deeplab.datasets.descriptor import DatasetDescriptor\nDATASET = DatasetDescriptor("birds", 2)\n'


@pytest.mark.parametrize(
    'name', ['birds', 'birds.py', './birds.py', 'data.birds', 'data/birds.py', '{folder}/birds.py']
)
def test_a_module_in_the_current_folder(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    for folder in (tmp_path, tmp_path / 'data'):
        folder.mkdir(exist_ok=True)
        (folder / 'birds.py').write_text(f'import {folder.name}_beside\n{MODULE}')
        (folder / f'{folder.name}_beside.py').write_text('')
    path = list(sys.path)
    assert descriptor.load(name.format(folder=tmp_path)).name == 'birds'
    assert sys.path == path


def test_a_module_that_changes_is_run_again(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for classes, changed in ((2, 10), (3, 20)):
        (tmp_path / 'birds.py').write_text(MODULE.replace('2', str(classes)))
        os.utime('birds.py', (changed, changed))
        assert descriptor.load('birds').num_classes == classes
        assert descriptor.load('birds') is descriptor.load('./birds.py')


def test_names_of_the_package_come_first(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / 'camvid.py').write_text(MODULE)
    assert descriptor.load('camvid').name == 'camvid'
    assert descriptor.load('camvid.py').name == 'birds'


@pytest.mark.parametrize(
    ('text', 'parts'),
    [
        ('\n1 / 0\n', ['birds.py, line 2: ZeroDivisionError: division by zero']),
        ('a = (\n', ['birds.py, line 1: SyntaxError']),
        (MODULE.replace('2', '-5'), ['birds.py, line 2: ', 'num_classes is -5', '1 to 256']),
        ('import numpy\nnumpy.zeros(-1)\n', ['birds.py, line 2: ValueError']),
        ('import json\njson.loads("{")\n', ['birds.py, line 2: JSONDecodeError']),
        ('import birds_helper\n', ['birds_helper.py, line 3: KeyError']),
        ('', ["'birds.py' does not describe a data set"]),
    ],
)
def test_an_error_inside_a_module_names_file_and_line(tmp_path, monkeypatch, text, parts):
    monkeypatch.chdir(tmp_path)
    (tmp_path / 'birds.py').write_text(text)
    (tmp_path / 'birds_helper.py').write_text('\n\n{}[1]\n')
    with pytest.raises(OptionError) as caught:
        descriptor.load('birds')
    assert '\n' not in str(caught.value)
    for part in parts:
        assert part in str(caught.value)


def test_a_module_file_that_is_not_there():
    with pytest.raises(OptionError, match="'nowhere/birds.py', does not exist"):
        descriptor.load('nowhere/birds.py')


def test_names_of_classes_that_are_alike_are_refused(tmp_path):
    with pytest.raises(OptionError, match="'a' appears twice in class_names, for the classes 0 and 2"):
        descriptor.load(write(tmp_path, {'num_classes': 4, 'class_names': ['a', 'b', 'a', 'b']}))


def write(tmp_path, content, name='birds.json'):
    path = tmp_path / name
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return str(path)


def test_json_file(tmp_path):
    content = {
        'num_classes': 2,
        'ignore_label': 254,
        'splits': {'train': 5, 'val': None},
        'class_names': ['sky', 'bird'],
        'palette': [[0, 0, 255], [255, 0, 0]],
        'eval_ids': [3, 9],
    }
    dataset = descriptor.load(write(tmp_path, content))
    assert (dataset.name, dataset.ignore_label, dataset.eval_ids) == ('birds', 254, (3, 9))
    assert dataset.splits == {'train': 5, 'val': None}
    assert dataset.palette.tolist() == [[0, 0, 255], [255, 0, 0]]


def test_json_file_with_names_of_splits_and_of_a_palette(tmp_path):
    dataset = descriptor.load(write(tmp_path, {'num_classes': 2, 'splits': ['train'], 'palette': 'cityscapes'}))
    assert dataset.splits == {'train': None}
    assert dataset.palette[1].tolist() == [244, 35, 232]


def test_images_are_of_three_channels_and_eight_bits_unless_a_file_says_otherwise(tmp_path):
    (tmp_path / 'a.json').write_text('{"num_classes": 2}')
    (tmp_path / 'b.json').write_text('{"num_classes": 2, "image_channels": 12, "image_bits": 16}')
    found = [descriptor.load(str(tmp_path / name)) for name in ('a.json', 'b.json')]
    assert [(each.image_channels, each.image_bits) for each in found] == [(3, 8), (12, 16)]


@pytest.mark.parametrize(
    ('key', 'value', 'allowed'),
    [('image_channels', 0, '1 to 1000'), ('image_channels', '1', '1 to 1000'), ('image_bits', 12, '8 or 16')],
)
def test_channels_and_bits_are_checked(tmp_path, key, value, allowed):
    (tmp_path / 'a.json').write_text(json.dumps({'num_classes': 2, key: value}))
    with pytest.raises(OptionError, match=f"Data set 'a': {key} is {value!r}, but must be {allowed}."):
        descriptor.load(str(tmp_path / 'a.json'))


def test_yaml_file(tmp_path):
    assert descriptor.load(write(tmp_path, 'num_classes: 2\nsplits: {train: 3}\n', 'b.yaml')).splits == {'train': 3}
    with pytest.raises(OptionError, match='is not YAML'):
        descriptor.load(write(tmp_path, 'num_classes: [2', 'c.yaml'))


@pytest.mark.parametrize(
    ('content', 'message'),
    [
        (
            {'num_class': 2},
            "unknown key 'num_class'. Did you mean num_classes? Allowed: name, num_classes",
        ),
        ({}, "the key 'num_classes' is missing"),
        ([], 'the file must contain one object with the keys name, num_classes'),
        ('{', 'is not JSON: line 1, column 2: Expecting property name'),
        ({'num_classes': '2'}, "num_classes is '2', but must be a whole number from 1 to 256"),
        ({'num_classes': True}, 'num_classes is True'),
        ({'num_classes': 3000}, '3,000 classes are not possible, only 1 to 256'),
        ({'class_names': ['a'] * 257}, '257 classes are not possible, only 1 to 256'),
        ({'num_classes': 2, 'name': 5}, "'name' is 5, but must be a string"),
        ({'num_classes': 2, 'ignore_label': 256}, 'ignore_label is 256, but must be a whole number from 0 to 255'),
        ({'num_classes': 2, 'class_names': ['a']}, r"class_names is ['a'], but must be a list of 2 names"),
        ({'num_classes': 2, 'class_names': 'ab'}, 'class_names is'),
        ({'num_classes': 2, 'eval_ids': [1, 300]}, 'eval_ids is [1, 300], but must be a list of 2 whole numbers'),
        (
            {'num_classes': 2, 'splits': {'train': -1}},
            "splits is {'train': -1}, but must be a number of images (or null)",
        ),
        (
            {'num_classes': 2, 'palette': [[0, 0, 0]]},
            'palette is [[0, 0, 0]], but must be a list of at least 2 colors',
        ),
        ({'num_classes': 1, 'palette': [[0, 0, 256]]}, 'palette is'),
        ({'num_classes': 2, 'palette': [[0, 0], [1, 2, 3]]}, 'palette is'),
        ({'num_classes': 1, 'palette': [[0.5, 0, 1]]}, 'palette is'),
        ({'num_classes': 1, 'palette': 'rainbow'}, "palette 'rainbow' is unknown. Use a list of [red, green, blue]"),
    ],
)
def test_mistakes_in_a_file_are_named(tmp_path, content, message):
    path = write(tmp_path, content)
    with pytest.raises(OptionError, match=re.escape(message)) as caught:
        descriptor.load(path)
    assert str(caught.value).startswith(path)


def test_missing_file(tmp_path):
    with pytest.raises(OptionError, match="^The file of the data set, 'none.json', does not exist.$"):
        descriptor.load('none.json')
    (tmp_path / 'folder.json').mkdir()
    with pytest.raises(OptionError, match='folder.json cannot be read'):
        descriptor.load(str(tmp_path / 'folder.json'))


def test_bits_of_an_id_go_to_the_channels_in_turn_from_the_top():
    colors = descriptor.bit_shift_palette(70)
    assert colors.dtype == np.uint8
    assert colors[[0, 1, 2, 4, 7, 8, 64]].tolist() == [
        [0, 0, 0], [128, 0, 0], [0, 128, 0], [0, 0, 128], [128, 128, 128], [64, 0, 0], [32, 0, 0],
    ]  # fmt: skip


def test_the_data_set_without_its_first_classes():
    flowers = descriptor.load('flowers').without_first(2)
    assert (flowers.num_classes, flowers.class_names) == (3, ('roses', 'sunflowers', 'tulips'))
    assert flowers.labels_offset == 2 and len(flowers.palette) == 3
    assert descriptor.load('imagenet').without_first(1).num_classes == 1000
    with pytest.raises(OptionError, match='labels_offset=5 is not allowed: it must be from 0 to 4'):
        descriptor.load('flowers').without_first(5)


def test_colors_of_ids_differ():
    assert len(np.unique(descriptor.bit_shift_palette(512), axis=0)) == 512
    assert descriptor.bit_shift_palette(0).shape == (0, 3)


def test_things_of_the_packages_data_sets():
    things = {name: descriptor.load(name).things for name in DATASETS.names()}
    numbers = {name: None if ids is None else len(ids) for name, ids in things.items()}
    assert numbers == {
        'ade20k': 100, 'camvid': None, 'camvid32': None, 'cityscapes': 8, 'coco_panoptic': 80, 'coco_stuff': None,
        'mapillary_vistas': 37, 'pascal_voc_seg': None, 'cifar10': None, 'flowers': None, 'imagenet': None,
        'mnist': None, 'visualwakewords': None,
    }  # fmt: skip
    coco = descriptor.load('coco_panoptic')
    assert things['coco_panoptic'] == tuple(i for i, kind in enumerate(coco.categories) if kind == 'thing')
    cityscapes = descriptor.load('cityscapes')
    kinds = [cityscapes.categories[i] for i in things['cityscapes']]
    assert set(kinds) == {'human', 'vehicle'} and things['cityscapes'] == tuple(range(11, 19))


@pytest.mark.parametrize(
    ('field', 'value', 'allowed'),
    [
        ('things', [3], 'a list of ids of classes, 0 to 2, each once'),
        ('things', [1, 1], 'each once'),
        ('things', 'all', 'a list'),
        ('label_divisor', 0, 'a whole number from 1 to 65536'),
        ('label_divisor', 70000, 'a whole number from 1 to 65536'),
        ('depth_scale', 0, 'a number above 0'),
        ('depth_scale', float('inf'), 'a number above 0'),
        ('depth_scale', True, 'a number above 0'),
    ],
)
def test_fields_about_planes_are_checked(field, value, allowed):
    with pytest.raises(OptionError, match=f"Data set 'own': {field} is .*{re.escape(allowed)}"):
        descriptor.DatasetDescriptor('own', 3, **{field: value})
