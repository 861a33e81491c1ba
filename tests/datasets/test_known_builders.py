"""Builders of known data sets, each on a tiny folder with the structure and the names of the real one.

Covers datasets/build_camvid_data.py, datasets/build_coco_data.py,
datasets/build_coco_stuff_data.py, datasets/build_mapillary_data.py, datasets/coco_annotations.py
and datasets/coco_folders.py.
"""

import importlib
import json
import os
import pathlib

import numpy as np
import pytest
from PIL import Image

from deeplab import cli
from deeplab.datasets import (
    build_camvid_data,
    build_coco_data,
    build_coco_stuff_data,
    build_folder_data,
    build_mapillary_data,
    description_file,
    descriptor,
    mask_sources,
)
from deeplab.datasets.annotations import run_lengths
from deeplab.errors import DataError, OptionError
from deeplab.options import (
    BuildCamvidOptions,
    BuildCocoOptions,
    BuildCocoStuffOptions,
    BuildFolderOptions,
    BuildMapillaryOptions,
)
from tests.datasets.test_builders import failure, records
from tests.helpers import dataset_files


def write(root, contents):
    """Writes files, given by their paths."""
    for path, content in contents.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
    return str(root)


def built(run, options):
    """The masks that a builder wrote, by split and name of the image; every image has the bytes of its file."""
    summary = run(options)
    assert descriptor.load(summary['description']).num_classes == summary['num_classes']
    found = {}
    for split, part in summary['splits'].items():
        for record in records(options.output_dir, split):
            assert record.image_bytes == IMAGE
            label = None if record.label_bytes is None else mask_sources.ids_of(record.label_bytes)
            found.setdefault(split, {})[record.image_name] = label
        assert len(found[split]) == part['images']
    return found


def same(masks, wanted):
    assert {split: list(found) for split, found in masks.items()} == {
        split: list(found) for split, found in wanted.items()
    }
    for split, found in wanted.items():
        for name, mask in found.items():
            np.testing.assert_array_equal(masks[split][name], mask)


IMAGE = dataset_files.jpeg(dataset_files.pixels())
IDS = dataset_files.ids(classes=11)


def test_the_usual_number_of_shards_of_a_split():
    wanted = {'ade20k': 4, 'camvid': 4, 'cityscapes': 10, 'coco': 10, 'coco_stuff': 10, 'folder': 4}
    wanted |= {'mapillary': 10, 'voc2012': 4}
    modules = {name: importlib.import_module(f'deeplab.datasets.build_{name}_data') for name in wanted}
    assert {name: module.DEFAULT_NUM_SHARDS for name, module in modules.items()} == wanted


def camvid(tmp_path, **more):
    return BuildCamvidOptions(camvid_root=str(tmp_path), output_dir=str(tmp_path / 'records'), num_shards=1, **more)


def test_camvid_of_segnet_has_indices_and_void_11(tmp_path):
    index = IDS.copy()
    index[0, 0] = 11
    wanted = IDS.copy()
    wanted[0, 0] = 255
    frames = {'train': '0001TP_006690', 'val': '0016E5_07959', 'test': 'Seq05VD_f00000'}
    for split, frame in frames.items():
        write(tmp_path, {f'{split}/{frame}.png': IMAGE, f'{split}annot/{frame}.png': dataset_files.png(index)})
    same(built(build_camvid_data.run, camvid(tmp_path)), {split: {frame: wanted} for split, frame in frames.items()})
    assert '11 classes' in failure(lambda: build_camvid_data.run(camvid(tmp_path, classes='32')))


@pytest.mark.parametrize(
    'layout', ['701_StillsRaw_full LabeledApproved_full _L', 'images labels _P', 'train train_labels _L']
)
def test_camvid_of_32_colors_or_codes(tmp_path, layout):
    images, masks, suffix = layout.split()
    numbers = dataset_files.ids(classes=32, seed=3)
    colors = np.array([color for _, color, _ in build_camvid_data.classes()], np.uint8)
    mask = dataset_files.png(numbers) if suffix == '_P' else dataset_files.png(colors[numbers])
    frames = ['0001TP_006690'] if images == 'train' else ['0006R0_f00930', '0016E5_08159', '0001TP_008550']
    for frame in frames:
        write(tmp_path, {f'{images}/{frame}.png': IMAGE, f'{masks}/{frame}{suffix}.png': mask})
    if suffix == '_P':
        write(tmp_path, {'codes.txt': '\r\n'.join(name for name, _, _ in build_camvid_data.classes()).encode()})
    known = descriptor.load('camvid')
    groups = [group for _, _, group in build_camvid_data.classes()]
    table = np.array([255 if group is None else known.class_names.index(group) for group in groups], np.uint8)
    splits = dict(zip(('train', 'val', 'test'), frames, strict=False))
    options = camvid(tmp_path)
    same(built(build_camvid_data.run, options), {split: {frame: table[numbers]} for split, frame in splits.items()})
    same(
        built(build_camvid_data.run, camvid(tmp_path, classes='32')),
        {split: {frame: numbers} for split, frame in splits.items()},
    )
    assert descriptor.load(description_file.beside(options.output_dir)).ignore_label == 30


def test_camvid_palettes_count_by_their_colors(tmp_path):
    """Image programs choose the order of a palette, so that few classes may have small indices."""
    names = ('Sky', 'Car', 'Void')
    colors = [color for name in names for known, color, _ in build_camvid_data.classes() if known == name]
    indices = dataset_files.ids()
    image = Image.fromarray(indices)
    image.putpalette([part for color in colors for part in color])
    write(tmp_path, {'train/a.png': IMAGE, 'train_labels/a_L.png': dataset_files.encoded(image, 'PNG')})
    wanted = np.array([0, 8, 255], np.uint8)[indices]
    same(built(build_camvid_data.run, camvid(tmp_path)), {'train': {'a': wanted}})
    write(tmp_path, {'train_labels/a_L.png': dataset_files.palette_png(indices)})  # of other colors: the indices count
    same(built(build_camvid_data.run, camvid(tmp_path)), {'train': {'a': indices}})


def test_camvid_splits_of_frames():
    split = build_camvid_data.split_of
    assert [split(name) for name in ('0016E5_07957', '0016E5_07959', '0016E5_08159', '0016E5_08190')] == [
        'train', 'val', 'val', 'train',
    ]  # fmt: skip
    assert [split(name) for name in ('0001TP_008520', '0001TP_008550', 'Seq05VD_f05100', 'a')] == [
        'train', 'test', 'test', None,
    ]  # fmt: skip
    if dataset_files.CAMVID.is_dir():
        for name in ('train', 'val'):
            frames = (dataset_files.CAMVID / 'ImageSets' / 'Segmentation' / f'{name}.txt').read_text().split()
            assert {split(frame) for frame in frames} == {name}


def test_camvid_mistakes(tmp_path):
    message = failure(lambda: build_camvid_data.run(camvid(tmp_path)))
    assert 'LabeledApproved_full' in message and 'build_voc2012_data for the layout of PASCAL VOC' in message
    assert 'does not exist. Set camvid_root' in failure(lambda: build_camvid_data.run(camvid(tmp_path / 'no')))
    write(
        tmp_path,
        {f'images/x{i:02d}.png': IMAGE for i in range(12)}
        | {'labels/x00_L.png': dataset_files.png(dataset_files.pixels())},
    )
    message = failure(lambda: build_camvid_data.run(camvid(tmp_path)))
    assert '11 of 12 images' in message and 'x01, x02' in message and 'x10 and 1 more' in message
    for path in list((tmp_path / 'images').iterdir())[:]:
        if path.stem != 'x00':
            path.unlink()
    assert '1 images' in failure(lambda: build_camvid_data.run(camvid(tmp_path)))
    (tmp_path / 'images' / 'x00.png').rename(tmp_path / 'images' / '0001TP_1.png')
    (tmp_path / 'labels' / 'x00_L.png').rename(tmp_path / 'labels' / '0001TP_1_L.png')
    assert 'not in the color table' in failure(lambda: build_camvid_data.run(camvid(tmp_path)))
    write(tmp_path, {'codes.txt': b'Road\nMoon'})
    assert 'Moon' in failure(lambda: build_camvid_data.run(camvid(tmp_path)))


@pytest.mark.parametrize('form', ['182', 'contiguous'])
def test_coco_stuff(tmp_path, form):
    places = dataset_files.ids(classes=171, seed=5)
    ids = np.array(build_coco_stuff_data.PRESENT, np.uint8)[places]
    places[0, 0] = ids[0, 0] = 255
    contents = {}
    for split, name in (('train2017', '000000000009'), ('val2017', '000000000139')):
        if form == '182':  # as the archives of the data set are unpacked
            contents |= {
                f'images/{split}/{name}.jpg': IMAGE,
                f'annotations/{split}/{name}.png': dataset_files.palette_png(ids),
            }
        else:
            contents |= {f'{split}/{name}.JPG': IMAGE, f'stuffthingmaps/{split}/{name}.png': dataset_files.png(ids)}
            contents[f'stuffthingmaps/{split}/{name}_labelTrainIds.png'] = dataset_files.png(places)
    root = write(tmp_path, contents)
    for classes, wanted in (('171', places), ('182', ids)):
        options = BuildCocoStuffOptions(
            coco_root=root, classes=classes, output_dir=str(tmp_path / classes), num_shards=1
        )
        same(
            built(build_coco_stuff_data.run, options),
            {'train': {'000000000009': wanted}, 'val': {'000000000139': wanted}},
        )
    known = descriptor.load(description_file.beside(str(tmp_path / '171')))
    assert (known.class_names[0], known.class_names[-1], known.class_names[80]) == ('person', 'wood', 'banner')


def test_coco_stuff_mistakes(tmp_path):
    options = BuildCocoStuffOptions(coco_root=str(tmp_path), output_dir=str(tmp_path / 'r'))
    assert 'stuffthingmaps/train2017' in failure(lambda: build_coco_stuff_data.run(options))
    write(
        tmp_path,
        {'train2017/1.jpg': IMAGE, 'stuffthingmaps/train2017/1.png': dataset_files.png(np.full((6, 8), 200, np.uint8))},
    )
    assert 'does not have: 200 on 48 pixels' in failure(lambda: build_coco_stuff_data.run(options))
    write(tmp_path, {'stuffthingmaps/train2017/2.png': dataset_files.png(IDS)})
    assert '1 of 2 masks' in failure(lambda: build_coco_stuff_data.run(options))
    write(tmp_path / 'small', {'images/1.jpg': IMAGE, 'annotations/1.mat': b'MATLAB'})
    options = BuildCocoStuffOptions(coco_root=str(tmp_path / 'small'), output_dir=str(tmp_path / 'r'))
    assert 'COCO-Stuff 10k' in failure(lambda: build_coco_stuff_data.run(options))


CATEGORIES = [
    {'id': 1, 'name': 'person', 'isthing': 1, 'color': [220, 20, 60], 'supercategory': 'person'},
    {'id': 3, 'name': 'car', 'isthing': 1, 'color': [0, 0, 142], 'supercategory': 'vehicle'},
    {'id': 149, 'name': 'road', 'isthing': 0, 'color': [128, 64, 128], 'supercategory': 'ground'},
    {'id': 187, 'name': 'sky-other-merged', 'isthing': 0, 'color': [70, 130, 180], 'supercategory': 'sky'},
]
SEGMENTS = {0: None, 5: 1, 300: 3, 70000: 149, 16777215: 187}  # id of the segment: its category


def write_panoptic(root, **changes):
    """Two splits of one image; the segment of each pixel."""
    segments = np.array(list(SEGMENTS))[dataset_files.ids(classes=5, seed=1)]
    mask = dataset_files.png(np.stack([segments >> shift & 255 for shift in (0, 8, 16)], axis=-1).astype(np.uint8))
    info = [{'id': id_, 'category_id': category, 'iscrowd': 0} for id_, category in SEGMENTS.items() if category]
    contents = {}
    for number, split in ((9, 'train2017'), (139, 'val2017')):
        name = f'{number:012d}'
        contents |= {f'{split}/{name}.jpg': IMAGE, f'annotations/panoptic_{split}/{name}.png': mask}
        contents[f'annotations/panoptic_{split}.json'] = {
            'images': [{'id': number, 'file_name': f'{name}.jpg', 'height': 6, 'width': 8}],
            'annotations': [{'image_id': number, 'file_name': f'{name}.png', 'segments_info': info}],
            'categories': CATEGORIES,
        } | changes
    return write(root, contents), segments


@pytest.mark.parametrize(
    ('classes', 'ids', 'names'),
    [
        ('all', [255, 0, 1, 2, 3], ['person', 'car', 'road', 'sky-other-merged']),
        ('things', [255, 1, 2, 0, 0], ['other', 'person', 'car']),
        ('stuff', [255, 0, 0, 1, 2], ['other', 'road', 'sky-other-merged']),
    ],
)
def test_coco_panoptic(tmp_path, classes, ids, names):
    root, segments = write_panoptic(tmp_path)
    options = BuildCocoOptions(coco_root=root, classes=classes, output_dir=str(tmp_path / 'records'), num_shards=1)
    wanted = np.array(ids, np.uint8)[np.searchsorted(list(SEGMENTS), segments)]
    same(built(build_coco_data.run, options), {'train': {'000000000009': wanted}, 'val': {'000000000139': wanted}})
    known = descriptor.load(description_file.beside(options.output_dir))
    assert list(known.class_names) == names
    assert known.palette[-1].tolist() == CATEGORIES[1 if classes == 'things' else 3]['color']
    assert known.eval_ids == (tuple(category['id'] for category in CATEGORIES) if classes == 'all' else None)


def test_a_description_of_coco_without_category_ids_is_of_the_same_classes(tmp_path):
    root, _ = write_panoptic(tmp_path)
    options = BuildCocoOptions(coco_root=root, output_dir=str(tmp_path / 'records'), num_shards=1)
    path = pathlib.Path(build_coco_data.run(options)['description'])
    complete = path.read_text()
    older = [line for line in complete.splitlines(keepends=True) if not line.startswith('eval_ids')]
    path.write_text(''.join(older))
    assert path.read_text() != complete
    build_coco_data.run(options)
    assert path.read_text() == complete and not os.path.exists(f'{path}.old')


@pytest.mark.parametrize('run', [build_coco_data.run, build_coco_stuff_data.run])
def test_a_split_of_coco_without_images_is_named_and_left_out(tmp_path, run, caplog):
    root, _ = write_panoptic(tmp_path)
    kind = BuildCocoOptions if run is build_coco_data.run else BuildCocoStuffOptions
    for split, name in (('train', '000000000009'), ('val', '000000000139')):
        write(tmp_path, {f'stuffthingmaps/{split}2017/{name}.png': dataset_files.png(IDS)})
    (tmp_path / 'train2017').rename(tmp_path / 'elsewhere')
    summary = run(kind(coco_root=root, output_dir=str(tmp_path / 'records')))
    assert summary['splits'].keys() == {'val'}
    assert 'There is no folder of the images of train2017: the split is not built.' in caplog.text


def test_coco_panoptic_mistakes(tmp_path):
    options = BuildCocoOptions(coco_root=str(tmp_path), output_dir=str(tmp_path / 'records'))
    assert 'panoptic_train2017.json' in failure(lambda: build_coco_data.run(options))
    write_panoptic(tmp_path)
    mask = tmp_path / 'annotations' / 'panoptic_val2017' / '000000000139.png'
    mask.write_bytes(dataset_files.png(np.full((6, 8, 3), 7, np.uint8)))
    assert f'segment {7 + 7 * 256 + 7 * 65536} is not in segments_info' in failure(lambda: build_coco_data.run(options))
    mask.write_bytes(dataset_files.png(IDS))
    assert 'RGB PNG of segment ids' in failure(lambda: build_coco_data.run(options))
    mask.unlink()
    assert "1 of 1 masks of split 'val'" in failure(lambda: build_coco_data.run(options))
    (tmp_path / 'train2017' / '000000000009.jpg').unlink()
    assert '000000000009.jpg' in failure(lambda: build_coco_data.run(options))
    path = 'annotations/panoptic_val2017.json'
    for content, part in ((b'{', 'not JSON'), ({'images': []}, 'not a file of COCO panoptic'), ([], 'not a file')):
        write(tmp_path, {path: content})
        assert part in failure(lambda: build_coco_data.run(options))
    write_panoptic(tmp_path, categories=[{'id': number, 'name': f'c{number}'} for number in range(256)])
    message = failure(lambda: build_coco_data.run(options))
    assert '256 classes are not possible, only 1 to 255' in message and '255 means ignored' in message
    write_panoptic(tmp_path, categories=[])
    assert '0 categories' in failure(lambda: build_coco_data.run(options))
    with pytest.raises(OptionError, match='things alone'):
        BuildCocoOptions(masks='instances', classes='stuff')


def write_instances(root, regions, height=6, width=8):
    """One image with regions: (category, area, segmentation); crowds have a negative area."""
    annotations = [
        {
            'id': number,
            'image_id': 9,
            'category_id': category,
            'area': area,
            'iscrowd': int(area < 0),
            'segmentation': region,
        }
        for number, (category, area, region) in enumerate(regions)
    ]
    image = {'id': 9, 'file_name': '000000000009.jpg', 'height': height, 'width': width}
    empty = {'id': 10, 'file_name': '000000000010.jpg', 'height': 6, 'width': 8}
    categories = [{name: each[name] for name in ('id', 'name', 'supercategory')} for each in CATEGORIES[:2]]
    content = {'images': [image, empty], 'annotations': annotations, 'categories': categories}
    return write(
        root,
        {f'train2017/0000000000{name}.jpg': IMAGE for name in ('09', '10')}
        | {'annotations/instances_train2017.json': content},
    )


def rle(mask):
    """Run lengths of a mask in the order of its columns."""
    flat = mask.T.ravel()
    borders = np.flatnonzero(np.diff(flat.astype(int))) + 1
    runs = np.diff([0, *borders, flat.size]).tolist()
    return {'size': list(mask.shape), 'counts': [0, *runs] if flat[0] else runs}


def test_coco_instances(tmp_path):
    """Smaller instances lie above larger ones, and those above crowds."""
    mask_api = pytest.importorskip('pycocotools.mask')
    random = np.random.RandomState(0)
    crowd = random.rand(6, 8) < 0.4
    small = random.rand(6, 8) < 0.5
    packed = mask_api.encode(np.asfortranarray(small, np.uint8))
    box = [1.0, 1.0, 5.0, 1.0, 5.0, 4.0, 1.0, 4.0]
    text = {'size': [6, 8], 'counts': packed['counts'].decode()}
    root = write_instances(tmp_path, [(3, 3, text), (1, -1, rle(crowd)), (3, 12, [box, box[:4]])])
    wanted = np.zeros((6, 8), np.uint8)
    wanted[crowd] = 1
    wanted[1:4, 1:5] = 2
    wanted[small] = 2
    options = BuildCocoOptions(coco_root=root, masks='instances', output_dir=str(tmp_path / 'records'), num_shards=1)
    empty = np.zeros((6, 8), np.uint8)
    same(built(build_coco_data.run, options), {'train': {'000000000009': wanted, '000000000010': empty}})
    known = descriptor.load(description_file.beside(options.output_dir))
    assert list(known.class_names) == ['background', 'person', 'car']


@pytest.mark.parametrize(
    ('region', 'part'),
    [
        ({'size': [8, 6], 'counts': [48]}, r'8 x 6 pixels .*its image has 6 x 8'),
        ({'size': [6, 8], 'counts': [47]}, '47 pixels, but its size is 6 x 8'),
        ({'size': [6, 8], 'counts': [-1, 49]}, 'whole numbers'),
        ({'size': [6, 8], 'counts': 'P'}, 'end within a number'),
        ({'size': [6, 8]}, "'counts' is missing"),
        ({'size': [6]}, 'another form'),
        ('text', 'coordinates'),
        ([[1, 2, 3]], 'coordinates'),
        ([[1, 2, float('nan'), 3, 4, 5]], 'coordinates'),
        ([3], 'not a file of COCO instances'),
    ],
)
def test_coco_regions_that_are_wrong(tmp_path, region, part):
    write_instances(tmp_path, [(1, 1, region)])
    options = BuildCocoOptions(coco_root=str(tmp_path), masks='instances', output_dir=str(tmp_path / 'records'))
    with pytest.raises(DataError, match=part):
        build_coco_data.run(options)


def test_two_programs_draw_a_coco_file_as_pycocotools_does(tmp_path):
    mask_api = pytest.importorskip('pycocotools.mask')
    ring = [0.6, 0.3, 7.2, 2.6, 5.4, 5.7, 3.3, 3.1]
    write_instances(tmp_path, [(1, 9, [ring])])
    drawn = mask_api.merge(mask_api.frPyObjects([ring], 6, 8))
    wanted = np.zeros((6, 8), np.uint8)
    runs = run_lengths.of_coco_text(drawn['counts'])
    wanted[run_lengths.alternating(runs, 6, 8, by_columns=True)] = 1
    assert wanted.any()
    options = BuildCocoOptions(coco_root=str(tmp_path), masks='instances', output_dir=str(tmp_path / 'records'))
    assert built(build_coco_data.run, options)['train']['000000000009'].tolist() == wanted.tolist()
    options = BuildFolderOptions(
        annotations=str(tmp_path / 'annotations'), image_folder=str(tmp_path), output_dir=str(tmp_path / 'folder')
    )
    assert built(build_folder_data.run, options)['train']['train2017/000000000009'].tolist() == wanted.tolist()


def test_coco_files_without_polygons_need_no_pycocotools(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__('sys').modules, 'pycocotools', None)
    covered = np.eye(6, 8, dtype=np.uint8)
    coco = BuildCocoOptions(coco_root=str(tmp_path), masks='instances', output_dir=str(tmp_path / 'records'))
    folder = BuildFolderOptions(
        annotations=str(tmp_path / 'annotations'), image_folder=str(tmp_path), output_dir=str(tmp_path / 'folder')
    )
    write_instances(tmp_path, [(1, 9, rle(covered))])
    assert built(build_coco_data.run, coco)['train']['000000000009'].tolist() == covered.tolist()
    assert built(build_folder_data.run, folder)['train']['train2017/000000000009'].tolist() == covered.tolist()
    write_instances(tmp_path, [(1, 9, rle(covered)), (1, 9, [[1, 1, 5, 1, 5, 4]])])
    for run, options in ((build_coco_data.run, coco), (build_folder_data.run, folder)):
        with pytest.raises(OptionError, match=r'deeplab-toolkit\[coco\]'):
            run(options)


def test_coco_instances_mistakes(tmp_path):
    pytest.importorskip('pycocotools.mask')
    options = BuildCocoOptions(coco_root=str(tmp_path), masks='instances', output_dir=str(tmp_path / 'records'))
    write_instances(tmp_path, [(2, 1, [])])
    assert '000000000009.jpg has the category 2, which is not listed' in failure(lambda: build_coco_data.run(options))
    write_instances(tmp_path, [(1, 1, {'size': [1, 1], 'counts': [1]})])
    assert 'annotation 0 of 000000000009.jpg: its run lengths' in failure(lambda: build_coco_data.run(options))
    write_instances(tmp_path, [], height=8)
    assert '8 x 8 pixels' in failure(lambda: build_coco_data.run(options))
    write_instances(tmp_path, [], height=10**6, width=10**6)
    assert '1000000 x 1000000 is too large' in failure(lambda: build_coco_data.run(options))
    write_instances(tmp_path, [], height=None, width=None)
    assert '000000000009.jpg: it has no height and width' in failure(lambda: build_coco_data.run(options))
    write_instances(tmp_path, [(1, 1, [])])
    path = tmp_path / 'annotations' / 'instances_train2017.json'
    path.write_text(path.read_text().replace('"area": 1', '"area": "large"'))
    assert 'not a file of COCO instances' in failure(lambda: build_coco_data.run(options))
    write_instances(tmp_path, [])
    for change, part in (
        ('"id": 10', '2 images with the id 9'),
        ('000000000010.jpg', '2 images named 000000000009.jpg'),
    ):
        content = path.read_text()
        path.write_text(content.replace(change, change.replace('10', '09' if 'jpg' in change else '9')))
        assert part in failure(lambda: build_coco_data.run(options))
        path.write_text(content)


LABELS = [
    {'color': [165, 42, 42], 'instances': True, 'readable': 'Bird', 'name': 'animal--bird', 'evaluate': True},
    {'color': [0, 0, 0], 'instances': False, 'readable': 'Dynamic', 'name': 'void--dynamic', 'evaluate': False},
    {
        'color': [128, 64, 128],
        'instances': False,
        'readable': 'Road',
        'name': 'construction--flat--road',
        'evaluate': True,
    },
    {'color': [0, 0, 0], 'instances': False, 'readable': 'Unlabeled', 'name': 'void--unlabeled', 'evaluate': False},
]


@pytest.mark.parametrize('version', ['v1.2', 'v2.0'])
def test_mapillary(tmp_path, version):
    ids = dataset_files.ids(classes=4)
    inner = '' if version == 'v1.2' else 'v2.0/'
    contents = {('config.json' if version == 'v1.2' else 'config_v2.0.json'): {'labels': LABELS, 'version': '1.1'}}
    for split, name in (('training', '__CRyFzoDOXn6unQ6a3DnQ'), ('validation', '_1Gn_xkw7sa_i9GU4mkxxQ')):
        contents |= {
            f'{split}/images/{name}.jpg': IMAGE,
            f'{split}/{inner}labels/{name}.png': dataset_files.palette_png(ids),
        }
        contents[f'{split}/{inner}instances/{name}.png'] = b''
    contents['testing/images/-0BbKh.jpg'] = IMAGE
    root = write(tmp_path, contents)
    options = BuildMapillaryOptions(mapillary_root=root, output_dir=str(tmp_path / 'records'), num_shards=1)
    wanted = np.array([0, 255, 1, 255], np.uint8)[ids]
    masks = built(build_mapillary_data.run, options)
    assert masks.pop('test') == {'-0BbKh': None}
    same(masks, {'train': {'__CRyFzoDOXn6unQ6a3DnQ': wanted}, 'val': {'_1Gn_xkw7sa_i9GU4mkxxQ': wanted}})
    known = descriptor.load(description_file.beside(options.output_dir))
    assert list(known.class_names) == ['Bird', 'Road'] and known.palette[1].tolist() == [128, 64, 128]
    assert known.name == 'mapillary_vistas' + inner.strip('/').replace('v', '_v')


def test_mapillary_mistakes(tmp_path):
    options = BuildMapillaryOptions(mapillary_root=str(tmp_path), output_dir=str(tmp_path / 'records'))
    assert 'config_v1.2.json' in failure(lambda: build_mapillary_data.run(options))
    for content, part in (
        (b'{', 'not JSON'),
        ({'labels': [{'color': 3}]}, "list 'labels'"),
        ([], "list 'labels'"),
        ({'labels': LABELS[1:2]}, '1 labels'),
        ({'labels': [{**LABELS[0], 'color': [1, 2, 900]}]}, "config_v1.2.json': Data set"),
    ):
        write(tmp_path, {'config_v1.2.json': content})
        assert part in failure(lambda: build_mapillary_data.run(options))
    write(tmp_path, {'config_v1.2.json': {'labels': LABELS}})
    assert 'training/images' in failure(lambda: build_mapillary_data.run(options))
    write(tmp_path, {'training/images/a.jpg': IMAGE})
    assert "training/labels' does not exist" in failure(lambda: build_mapillary_data.run(options))
    write(tmp_path, {'training/labels/a.png': dataset_files.png(np.full((6, 8), 4, np.uint8))})
    assert 'does not have: 4 on 48 pixels' in failure(lambda: build_mapillary_data.run(options))


def test_known_data_sets_of_the_new_builders():
    names = ('camvid32', 'coco_stuff', 'coco_panoptic', 'mapillary_vistas')
    assert [descriptor.load(name).num_classes for name in names] == [32, 171, 133, 65]
    stuff, panoptic = descriptor.load('coco_stuff'), descriptor.load('coco_panoptic')
    assert stuff.class_names[:80] == panoptic.class_names[:80]
    assert panoptic.categories.count('thing') == stuff.categories.count('thing') == 80
    labels = dict(zip(stuff.class_names, build_coco_stuff_data.PRESENT, strict=True))  # COCO's ids, from 0 on
    ids = dict(zip(panoptic.class_names, panoptic.eval_ids, strict=True))
    shared = labels.keys() & ids.keys()
    assert len(shared) > 100 and all(ids[name] == labels[name] + 1 for name in shared)
    assert sorted(set(panoptic.eval_ids)) == list(panoptic.eval_ids) and ids['tree-merged'] == 184


def test_command_lines_of_the_new_builders(tmp_path, capsys):
    assert cli.options_of('build_camvid_data', ['--classes=32']) == BuildCamvidOptions(classes='32')
    assert cli.options_of('build_coco_data', ['--year=2014', '--masks=instances']) == BuildCocoOptions(
        year=2014, masks='instances'
    )
    assert cli.options_of('build_coco_stuff_data', []) == BuildCocoStuffOptions()
    assert cli.options_of('build_mapillary_data', []) == BuildMapillaryOptions()
    write_panoptic(tmp_path)
    output = tmp_path / 'records'
    assert cli.main(['build_coco_data', f'--coco_root={tmp_path}', f'--output_dir={output}', '--num_shards=1']) == 0
    assert sorted(name for name in os.listdir(output) if name.endswith('.tfrecord')) == [
        'train-00000-of-00001.tfrecord',
        'val-00000-of-00001.tfrecord',
    ]
    assert cli.options_of('train', [f'--dataset_dir={output}', f'--train_logdir={tmp_path}']).model.num_classes == 4
