"""Annotations that are broken, incomplete, or do not fit their images or classes; classes that are merged or dropped.

Covers datasets/annotations/image_search.py, datasets/annotations/label_classes.py and datasets/annotations/reading.py.
"""

import copy
import io
import json
import random

import numpy as np
import pytest
from PIL import Image

from deeplab import cli
from deeplab.datasets import build_folder_data, descriptor, example, pairs, record_index
from deeplab.datasets.annotations import items
from deeplab.errors import DataError, OptionError, UserError
from deeplab.options import BuildFolderOptions
from tests.helpers import annotation_exports, dataset_files

BOX = {'label': 'car', 'points': [[1, 1], [4, 3]], 'shape_type': 'rectangle'}


def labelme(root, name, shapes=(BOX,), with_image=True, **more):
    """One annotated image of 12 x 16 pixels."""
    content = {'shapes': list(shapes), 'imagePath': f'{name}.png', 'imageData': None, **more}
    annotation_exports.put(root / f'{name}.json', content)
    if with_image:
        annotation_exports.put(root / f'{name}.png', annotation_exports.image(0))


def find(path, names=None, **more):
    return items.find(BuildFolderOptions(annotations=str(path), val_fraction=0.0, **more), names, 255)


def mask_of(item):
    with Image.open(io.BytesIO(item.source.masks(item.label).classes)) as image:
        return np.asarray(image)


def failure(path, names=None, kind=DataError, **more):
    with pytest.raises(kind) as caught:
        for item in find(path, names, **more)[1]['train']:
            pairs.read(item, None)
    assert '\n' not in str(caught.value)
    return str(caught.value)


def test_images_that_are_not_there_are_named_and_counted_unless_allowed(tmp_path, caplog):
    for number in range(15):
        labelme(tmp_path, f'{number:02}', with_image=number > 11)
    message = failure(tmp_path)
    assert '12 of 15 annotations' in message and '00.png, 01.png' in message and '09.png and 2 more' in message
    assert 'image_folder' in message and 'allow_unmatched' in message
    found = find(tmp_path, allow_unmatched=True)
    assert [item.name for item in found[1]['train']] == ['12', '13', '14']
    assert '12 of 15 annotations were left out' in caplog.text
    annotation_exports.put(tmp_path / 'bare.png', annotation_exports.image(0))
    annotation_exports.put(tmp_path / 'lists/train.txt', '00.png\n13\nbare\n12.png\n')
    options = {'annotations': str(tmp_path), 'list_folder': str(tmp_path / 'lists'), 'allow_unmatched': True}
    assert [item.name for item in items.find(BuildFolderOptions(**options), None, 255)[1]['train']] == ['13', '12']
    assert '2 files without a partner: 00.png, bare.' in caplog.text


def test_images_of_one_name_in_several_folders(tmp_path):
    labelme(tmp_path / 'labels', 'a', with_image=False)
    for folder in ('one', 'two'):
        annotation_exports.put(tmp_path / 'images' / folder / 'a.png', annotation_exports.image(0))
    images = str(tmp_path / 'images')
    message = failure(tmp_path / 'labels', image_folder=images)
    assert '1 of 1' in message and 'one/a.png' in message and 'two/a.png' in message
    for stated in ('two/a.png', '..\\images\\two\\a.png', 'C:\\data\\two\\a.jpg', '/old/two/a.png'):
        labelme(tmp_path / 'labels', 'a', with_image=False, imagePath=stated)
        item = find(tmp_path / 'labels', image_folder=images)[1]['train'][0]
        assert item.image.replace('labels/../', '') == f'{images}/two/a.png', stated
        assert item.name == 'two/a'


def test_names_that_label_studio_has_changed_and_umlauts_of_other_systems(tmp_path):
    labels, images = tmp_path / 'tasks.json', tmp_path / 'images'
    stated = '/data/upload/3/3f2a1b4c-WhatsApp_Image_2024_1.jpeg'
    annotation_exports.put(labels, [{'data': {'image': stated}, 'annotations': [{'result': []}]}])
    annotation_exports.put(images / 'WhatsApp Image 2024 (1).jpeg', b'')
    (item,) = find(labels, image_folder=str(images))[1]['train']
    assert item.image == f'{images}/WhatsApp Image 2024 (1).jpeg'
    annotation_exports.put(images / 'WhatsApp Image_2024 1.jpeg', b'')
    assert 'are not unique' in failure(labels, image_folder=str(images))
    labelme(tmp_path / 'mac', 'Stra\u00dfe \u00fc', with_image=False)
    annotation_exports.put(images / 'Stra\u00dfe u\u0308.png', b'')
    (item,) = find(tmp_path / 'mac', image_folder=str(images))[1]['train']
    assert item.image == f'{images}/Stra\u00dfe u\u0308.png'
    stated = 'WhatsApp_Image_2024_1.jpeg'
    labelme(tmp_path / 'labelme', 'a', with_image=False, imagePath=stated)  # which changes no names
    assert 'are missing' in failure(tmp_path / 'labelme', image_folder=str(images))


def test_two_annotations_of_one_image(tmp_path):
    labelme(tmp_path, 'a')
    labelme(tmp_path, 'b', with_image=False, imagePath='a.png')
    message = failure(tmp_path)
    assert '1 images have two annotations' in message and 'a.json' in message and 'b.json' in message


def test_shapes_beyond_their_images_are_clipped_and_counted(tmp_path, caplog):
    beyond = {**BOX, 'points': [[10, 8], [40, 30]]}
    labelme(tmp_path / 'in', 'a', [BOX, beyond, {**BOX, 'points': [[50, 50], [60, 60]]}])
    labelme(tmp_path / 'in', 'b', [beyond])
    labelme(tmp_path / 'in', 'c')
    labelme(tmp_path / 'in', 'd', [])
    annotation_exports.put(tmp_path / 'in' / 'e.png', annotation_exports.image(1))
    options = BuildFolderOptions(annotations=str(tmp_path / 'in'), output_dir=str(tmp_path / 'out'), num_shards=1)
    build_folder_data.run(options)
    assert '3 shapes extend beyond their images and were clipped, in 2 images' in caplog.text
    assert '1 shapes cover no pixel, in 1 images' in caplog.text
    assert '1 of 4 images have no shape: all of their pixels become background: d.png' in caplog.text
    assert '1 images beside the annotated ones have no annotation' in caplog.text


@pytest.mark.parametrize(
    ('change', 'said'),
    [
        ({'counts': [1, 2, 3], 'size': [12, 16]}, r'have 6 pixels, but its size is 12 x 16 = 192'),
        ({'counts': '0', 'size': [12, 16]}, 'have 0 pixels'),
        ({'counts': [192], 'size': [16, 12]}, r'16 x 12 .* 12 x 16'),
        ({'counts': 'a b', 'size': [12, 16]}, 'not part of that code'),
        ({'counts': [192]}, "annotation 2: 'size' is missing"),
        ([['x', 1, 2, 3, 4, 5]], 'not all numbers'),
        ([[1, 2, 3, 4, 5, 6, 7]], 'not pairs of x and y'),
        ([[1, 2, 3, 4, 5, float('inf')]], 'finite'),
    ],
)
def test_broken_outlines_of_coco(tmp_path, change, said):
    content = annotation_exports._coco((0,), [{'id': 1, 'name': 'road'}, {'id': 2, 'name': 'car'}])
    content['annotations'][1]['segmentation'] = change
    annotation_exports.put(tmp_path / 'a.png', annotation_exports.image(0))
    annotation_exports.put(tmp_path / '_annotations.coco.json', content)
    message = failure(tmp_path)
    assert '_annotations.coco.json' in message
    with pytest.raises(DataError, match=said):
        raise DataError(message)


def test_masks_of_a_wrong_size_in_other_formats(tmp_path):
    annotation_exports.cvat_xml(tmp_path / 'cvat')
    path = tmp_path / 'cvat' / 'annotations.xml'
    path.write_text(path.read_text().replace('rle="0, 36"', 'rle="0, 35"'))
    message = failure(path)
    assert '35 pixels, but its size is 6 x 6 = 36' in message and "annotations.xml': image 'b.png': shape 1" in message
    annotation_exports.label_studio(tmp_path / 'studio')
    path = next((tmp_path / 'studio').glob('*.json'))
    path.write_text(path.read_text().replace('"original_width": 20', '"original_width": 21'))
    assert '14 x 21' in failure(path)
    path.write_text(path.read_text().replace('"original_width": 21', '"original_width": 20').replace(': 18,', ': 19,'))
    assert 'bitmask is 10 x 18, but its size is 10 x 19' in failure(path)


@pytest.mark.parametrize(
    ('name', 'content', 'said'),
    [
        ('b.json', '', 'b.json.* is empty'),
        ('b.json', 'a text', 'b.json.* is not JSON: line 1'),
        ('b.xml', '<annotations>', 'b.xml.* is not XML'),
        ('b.json', {'shapes': [{}], 'imagePath': 'b.png'}, r"b.json' \(labelme JSON\): shape 1: 'points' is missing"),
        ('b.json', {'shapes': [{**BOX, 'label': 7}], 'imagePath': 'b.png'}, 'shape 1: 7 is not a name'),
        ('b.json', {'shapes': [], 'imagePath': '', 'imageHeight': -1, 'imageWidth': 5}, 'size -1 x 5'),
        ('label_classes.json', [{'png_index': 300, 'class_name': 'car'}], 'class 1: its value 300 is not from 0'),
        ('_classes.csv', 'Pixel Value, Class\n1, car\n1, road\n', 'class 2: an earlier class has the same value 1'),
        ('_classes.csv', 'Pixel Value, Class\n1\n', 'class 1: a value is missing'),
        (
            'b.json',
            annotation_exports._coco((0,), [{'id': 1, 'name': 'road'}, {'id': 2, 'name': 'car'}]),
            'several formats',
        ),
    ],
)
def test_broken_files_are_named(tmp_path, name, content, said):
    labelme(tmp_path, 'a')
    annotation_exports.put(tmp_path / name, content)
    with pytest.raises(DataError, match=said):
        find(tmp_path)


def test_many_broken_files_are_counted(tmp_path):
    for number in range(5):
        annotation_exports.put(tmp_path / f'{number}.json', '')
    message = failure(tmp_path)
    assert (
        '5 annotation files cannot be used' in message
        and '2.json' in message
        and 'And 2 more' in message
        and 'Export' in message
    )


def test_unknown_formats(tmp_path, caplog):
    annotation_exports.put(tmp_path / 'x.json', {'boxes': []})
    caplog.set_level('INFO')
    labelme(tmp_path, 'a')
    find(tmp_path)
    assert '1 file is of no known format' in caplog.text and 'x.json' in caplog.text
    (tmp_path / 'a.json').unlink()
    message = failure(tmp_path)
    assert 'x.json' in message
    for tool in ('labelme', 'CVAT for images', 'labelmap.txt', 'Label Studio', 'COCO', 'Supervisely', 'classes.json'):
        assert tool in message
    assert 'do not exist' in failure(tmp_path / 'none')
    annotation_exports.put(tmp_path / 'export.zip', b'PK')
    assert 'Unpack' in failure(tmp_path / 'export.zip')
    annotation_exports.put(tmp_path / 'video.xml', '<annotations><meta/><track id="0" label="car"/></annotations>')
    assert "'CVAT for images 1.1'" in failure(tmp_path / 'video.xml')
    boxes = annotation_exports._coco((0,), [{'id': 1, 'name': 'road'}, {'id': 2, 'name': 'car'}])
    for annotation in boxes['annotations']:
        annotation['segmentation'] = []
    annotation_exports.put(tmp_path / 'boxes.json', boxes)
    assert 'boxes or keypoints without an outline' in failure(tmp_path / 'boxes.json')


def test_an_image_of_another_size_than_annotated(tmp_path):
    labelme(tmp_path / 'in', 'a', imageHeight=13, imageWidth=16)
    options = BuildFolderOptions(annotations=str(tmp_path / 'in'), output_dir=str(tmp_path / 'out'), val_fraction=0.0)
    with pytest.raises(DataError, match=r'a\.json.*13 x 16.*a\.png.* 12 x 16'):
        build_folder_data.run(options)


SHAPES = [
    {**BOX, 'label': 'tree', 'points': [[0, 0], [15, 11]]},
    {**BOX, 'label': 'car', 'points': [[0, 0], [3, 3]]},
    {**BOX, 'label': 'truck', 'points': [[4, 0], [7, 3]]},
    {**BOX, 'label': '__ignore__', 'points': [[8, 0], [11, 3]]},
    {**BOX, 'label': 'mud', 'points': [[12, 0], [15, 3]]},
]


def ids_of(root, names=None, **more):
    """The ids of the four boxes and of the rest, and the names of the classes."""
    found = find(root, names, **more)
    mask = mask_of(found[1]['train'][0])
    return [int(value) for value in mask[1, [1, 5, 9, 13]]] + [int(mask[8, 8])], found[0].names


def test_labels_that_are_merged_dropped_and_ignored(tmp_path):
    labelme(tmp_path, 'a', SHAPES)
    everything = ('background', 'car', 'mud', 'tree', 'truck')
    assert ids_of(tmp_path) == ([1, 4, 255, 2, 3], everything)
    mapped = {'label_map': ('truck=car', 'mud=', 'tree=background')}
    assert ids_of(tmp_path, **mapped) == ([1, 1, 255, 0, 0], ('background', 'car'))
    mapped = {'label_map': ('*=ignore', 'car=car'), 'unlabeled': 'ignore'}
    assert ids_of(tmp_path, **mapped) == ([0, 255, 255, 255, 255], ('car',))
    names = ('_background_', 'vehicle', 'car')
    mapped = {'label_map': ('truck=vehicle', 'mud=ignore', 'tree=')}
    assert ids_of(tmp_path, names, **mapped) == ([2, 1, 255, 255, 0], names)
    assert ids_of(tmp_path, ('__ignore__', *names), **mapped)[1] == names
    (tmp_path / 'map.txt').write_text('truck=vehicle\n\n*=ignore\n')
    ours = ids_of(tmp_path, names, label_map=(str(tmp_path / 'map.txt'),))
    assert ours == ([2, 1, 255, 255, 255], names)


def test_labels_that_differ_in_case_are_told_of(tmp_path, caplog):
    caplog.set_level('INFO')
    labelme(tmp_path, 'a', [BOX, BOX, {**BOX, 'label': 'Car'}, {**BOX, 'label': 'tree'}])
    assert find(tmp_path)[0].names == ('background', 'Car', 'car', 'tree')
    assert 'number of shapes: Car 1, car 2, tree 1.' in caplog.text
    said = "The classes 'Car', 'car' have the same name except for capitals. To merge them, set label_map='car=Car'."
    assert said in caplog.text
    caplog.clear()
    find(tmp_path, label_map=('Car=car',))
    find(tmp_path, ('background', 'car', 'Car', 'tree'))
    assert 'capitals' not in caplog.text


def test_more_labels_than_classes_are_possible(tmp_path):
    labelme(tmp_path, 'a', [{**BOX, 'label': f'label {number}'} for number in range(300)])
    message = failure(tmp_path)
    assert '301 classes are not possible, only 1 to 256' in message and 'label_map' in message
    message = failure(tmp_path, ('background', 'car'))
    assert '300 labels are not among the classes' in message
    assert 'Add them' not in message and "label_map='label 0=background'" in message
    assert set(find(tmp_path, label_map=('*=car',))[0].ids.values()) == {1}


def test_labels_that_are_no_classes(tmp_path):
    labelme(tmp_path, 'a', SHAPES)
    message = failure(tmp_path, ('background', 'car', 'tree'))
    assert '2 labels are not among the classes' in message and 'mud (1 shapes), truck (1 shapes)' in message
    assert "label_map='mud=background'" in message
    message = failure(tmp_path, ('car', 'tree', 'mud', 'truck'), kind=OptionError)
    assert "class_names='background,car,tree,mud,truck'" in message and "unlabeled='ignore'" in message
    for names, kind in ((('car', 'tree', 'mud', 'truck'), OptionError), (('background', 'car'), DataError)):
        message = failure(tmp_path, names, kind=kind, dataset='rooms.json')
        assert "to dataset='rooms.json'" in message and 'class_names' not in message
    assert 'do not have: bus' in failure(tmp_path, kind=OptionError, label_map=('bus=car',))
    assert 'occurs twice' in failure(tmp_path, kind=OptionError, label_map=('mud=car', 'mud='))
    assert 'is not LABEL=CLASS' in failure(tmp_path, kind=OptionError, label_map=('mud=car', 'mud'))
    assert 'none.txt' in failure(tmp_path, kind=OptionError, label_map=('none.txt',))


def test_records_are_built_again_when_labels_become_other_classes(tmp_path):
    """The files have not changed, but the masks have."""
    labelme(tmp_path / 'in', 'a', SHAPES)
    more = {
        'output_dir': str(tmp_path / 'out'),
        'num_shards': 1,
        'val_fraction': 0.0,
        'class_names': ('_background_', 'x'),
    }
    ids = []
    for label_map in (('*=x',), ('*=',), ('*=',)):
        build_folder_data.run(BuildFolderOptions(annotations=str(tmp_path / 'in'), label_map=label_map, **more))
        index = record_index.RecordIndex([f'{tmp_path}/out/train-00000-of-00001.tfrecord'])
        with Image.open(io.BytesIO(example.parse(index.read(0)).label_bytes)) as image:
            ids.append(sorted(set(np.asarray(image).ravel().tolist())))
    assert ids == [[1, 255], [0, 255], [0, 255]]


def test_a_photo_that_viewers_turn(tmp_path):
    """Tools show photos upright: annotations have the size and the coordinates of what is shown."""
    photo = dataset_files.with_exif(dataset_files.jpeg(dataset_files.pixels(12, 16)), dataset_files.exif(6))
    for stated in ({'imageHeight': 16, 'imageWidth': 12}, {}):
        labelme(tmp_path, 'a', with_image=False, imagePath='a.jpg', **stated)
        annotation_exports.put(tmp_path / 'a.jpg', photo)
        item = find(tmp_path)[1]['train'][0]
        assert mask_of(item).shape == (16, 12)
        assert pairs.read(item, None).turns.turn_image


def test_options_that_do_not_fit_each_other():
    with pytest.raises(OptionError, match=r"unlabeled='ignore' is for annotations.* add annotations="):
        BuildFolderOptions(unlabeled='ignore')
    with pytest.raises(OptionError, match=r"colors='x' is for folders of masks.* omit it"):
        BuildFolderOptions(annotations='y', colors='x')
    with pytest.raises(OptionError, match='background.*ignore'):
        BuildFolderOptions(annotations='y', unlabeled='black')


def test_the_command_line(tmp_path, capsys):
    labelme(tmp_path / 'in', 'a', SHAPES)
    labelme(tmp_path / 'in', 'b', SHAPES)
    words = [f'--annotations={tmp_path}/in', f'--output_dir={tmp_path}/out', '--label_map=truck=car,mud=,tree=ignore']
    assert cli.main(['build_folder_data', *words, '--unlabeled=ignore']) == 0
    assert capsys.readouterr().out.splitlines()[-1].endswith('dataset.yaml: 1 classes')
    assert descriptor.load(str(tmp_path / 'out' / 'dataset.yaml')).class_names == ('car',)
    assert cli.main(['build_folder_data', *words, '--class_names=car']) != 0
    assert '--class_names=background,car' in capsys.readouterr().err


def _changed(value, chance):
    """Removes or replaces one value of a JSON document."""
    places = []

    def collect(inner):
        for key in inner if isinstance(inner, dict) else range(len(inner)):
            places.append((inner, key))
            if isinstance(inner[key], (dict, list)):
                collect(inner[key])

    value = copy.deepcopy(value)
    collect(value)
    inner, key = chance.choice(places)
    if chance.random() < 0.3:
        del inner[key]
    else:
        inner[key] = chance.choice([None, -1, 10**9, 'text', '', [], {}, [1], 1.5, True, [[1, 2], [3]]])
    return value


@pytest.mark.parametrize('tool', [tool for tool in annotation_exports.ALL if tool not in ('CVAT for images 1.1',)])
def test_any_change_of_a_file_is_an_error_for_users_at_most(tmp_path, tool):
    """None ends in a stack trace."""
    write, chance = annotation_exports.ALL[tool], random.Random(tool)
    options = write(tmp_path)
    documents = {path: json.loads(path.read_text()) for path in sorted(tmp_path.rglob('*.json'))}
    for _ in range(20 if documents else 0):
        path, content = chance.choice(list(documents.items()))
        path.write_text(json.dumps(_changed(content, chance)))
        try:
            for item in items.find(BuildFolderOptions(**options, val_fraction=0.0), None, 255)[1]['train']:
                item.source.masks(item.label)
        except UserError as error:
            assert str(error)
        path.write_text(json.dumps(content))
