"""Exports of labeling tools with several instances of a class, each of one image of `SIZE`.

Each writer draws the same scene: a road; two cars, of which the second covers a part of the first; a car of two parts
that are apart; and a car with a hole that shows the road. It returns the options of the builder.
"""

import base64
import json
import zlib

import numpy as np

from deeplab.datasets.annotations import run_lengths
from tests.helpers import dataset_files
from tests.helpers.annotation_exports import COLORS, brush_bytes, centers, corners, counts_of, flat, put

SIZE = 16, 24
HOLE = (14, 10, 17, 13)  # left, top, right, bottom; the last two are excluded
# Label, box, group, and whether it has the hole.
SCENE = (
    ('road', (0, 8, 24, 16), None, False),
    ('car', (1, 2, 7, 8), None, False),
    ('car', (5, 4, 11, 10), None, False),
    ('car', (13, 2, 16, 5), 7, False),
    ('car', (18, 2, 21, 5), 7, False),
    ('car', (12, 8, 20, 15), None, True),
)
NUMBERS = (1, 2, 3, 4, 4, 5)  # in drawing order, if all classes are things


def image():
    return dataset_files.png(dataset_files.pixels(*SIZE))


def mask_of(box, has_hole):
    mask = np.zeros(SIZE, bool)
    mask[box[1] : box[3], box[0] : box[2]] = True
    if has_hole:
        mask[HOLE[1] : HOLE[3], HOLE[0] : HOLE[2]] = False
    return mask


def part_of(box, has_hole):
    """The pixels inside the box."""
    return mask_of(box, has_hole)[box[1] : box[3], box[0] : box[2]]


def truth(numbers=NUMBERS):
    """Ids of classes (0 for none, 1 for the road, 2 for a car), and numbers of instances."""
    ids, instances = np.zeros(SIZE, np.uint8), np.zeros(SIZE, np.uint16)
    for (label, box, _, has_hole), number in zip(SCENE, numbers, strict=True):
        mask = mask_of(box, has_hole)
        ids[mask] = list(COLORS).index(label) + 1
        instances[mask] = number
    return ids, instances


def labelme(root):
    shapes = []
    for label, box, group, has_hole in SCENE:
        shape = {'label': label, 'group_id': group, 'shape_type': 'polygon', 'points': centers(box), 'flags': {}}
        if has_hole:
            encoded = base64.b64encode(dataset_files.png(part_of(box, has_hole))).decode()
            shape |= {'shape_type': 'mask', 'points': centers(box)[::2], 'mask': encoded}
        shapes.append(shape)
    content = {'shapes': shapes, 'imagePath': 'a.png', 'imageData': None, 'imageHeight': 16, 'imageWidth': 24}
    put(root / 'a.json', content)
    put(root / 'a.png', image())
    return {'annotations': str(root)}


def cvat_xml(root):
    labels = ''.join(f'<label><name>{name}</name></label>' for name in COLORS)
    text = f'<annotations><meta><task><labels>{labels}</labels></task></meta>'
    text += '<image id="0" name="a.png" width="24" height="16">'
    for label, box, group, has_hole in SCENE:
        left, top, right, bottom = box
        tag, area = 'box', f'xtl="{left}" ytl="{top}" xbr="{right}" ybr="{bottom}"'
        if has_hole:
            runs = ', '.join(map(str, counts_of(part_of(box, has_hole))))
            tag, area = 'mask', f'rle="{runs}" left="{left}" top="{top}" width="{right - left}" height="{bottom - top}"'
        group_id = f'group_id="{group}" ' if group else ''
        text += f'<{tag} label="{label}" occluded="0" {area} z_order="0" {group_id}></{tag}>'
    put(root / 'annotations.xml', f'{text}</image></annotations>')
    put(root / 'images' / 'a.png', image())
    return {'annotations': str(root)}


def cvat_masks(root):
    table = {'background': (0, 0, 0), **COLORS}
    put(root / 'labelmap.txt', ''.join(f'{name}:{",".join(map(str, color))}::\n' for name, color in table.items()))
    ids, instances = truth()
    put(root / 'SegmentationClass' / 'a.png', dataset_files.png(np.array([(0, 0, 0), *COLORS.values()], np.uint8)[ids]))
    of_objects = np.array([(0, 0, 0), (0, 0, 128), (0, 128, 0), (0, 128, 128), (128, 0, 0), (128, 0, 128)], np.uint8)
    put(root / 'SegmentationObject' / 'a.png', dataset_files.png(of_objects[instances]))
    put(root / 'JPEGImages' / 'a.png', image())
    return {'annotations': str(root)}


def label_studio(root):
    height, width = SIZE
    results = []
    for number, (label, box, group, has_hole) in enumerate(SCENE):
        points = [[100 * x / width, 100 * y / height] for x, y in corners(box)]
        kind, value = 'polygonlabels', {'points': points, 'polygonlabels': [label]}
        if has_hole:
            kind = 'brushlabels'
            value = {'format': 'rle', 'rle': brush_bytes(mask_of(box, has_hole)), 'brushlabels': [label]}
        stated = {'original_width': width, 'original_height': height, 'id': f'r{number}', 'type': kind}
        results.append({**stated, 'value': value} | ({'parentID': 'r0'} if number == 5 else {}))
        if group:
            results[-1]['parentID'] = 'r3'
    relation = {'from_id': 'r1', 'to_id': 'r2', 'type': 'relation', 'direction': 'right'}
    task = {'id': 1, 'annotations': [{'id': 1, 'result': [*results, relation]}], 'data': {'image': 'a.png'}}
    put(root / 'project.json', [task])
    put(root / 'a.png', image())
    return {'annotations': str(root / 'project.json')}


def coco(root, crowd=()):
    """The parts of a group are one annotation; `crowd` has the places of annotations that are crowds."""
    annotations = []
    for number, (label, box, group, has_hole) in enumerate(SCENE):
        if group and annotations[-1]['group'] == group:
            annotations[-1]['segmentation'].append(flat(corners(box)))
            continue
        counts = counts_of(mask_of(box, has_hole), by_columns=True)
        region = {'counts': run_lengths.coco_text(counts), 'size': list(SIZE)}
        annotations.append(
            {
                'id': number,
                'image_id': 3,
                'category_id': list(COLORS).index(label) + 1,
                'segmentation': region if has_hole or number in crowd else [flat(corners(box))],
                'iscrowd': int(number in crowd),
                'group': group,
            }
        )
    content = {
        'images': [{'id': 3, 'file_name': 'a.png', 'height': 16, 'width': 24}],
        'categories': [{'id': place, 'name': name} for place, name in enumerate(COLORS, start=1)],
        'annotations': annotations,
    }
    put(root / 'instances.json', content)
    put(root / 'a.png', image())
    return {'annotations': str(root)}


def supervisely(root):
    """The car of two parts is a pair of objects that are bound to each other."""
    put(root / 'meta.json', {'classes': [{'title': name} for name in COLORS]})
    objects = []
    for label, box, group, has_hole in SCENE:
        # The border of a hole belongs to the hole.
        points = {'exterior': centers(box), 'interior': [centers(HOLE)] if has_hole else []}
        bound = {'instance': f'0a1b{group}'} if group else {}
        objects.append({'geometryType': 'polygon', 'classTitle': label, 'points': points, **bound})
    put(root / 'data/ann/a.png.json', {'size': {'height': 16, 'width': 24}, 'objects': objects})
    put(root / 'data/img/a.png', image())
    return {'annotations': str(root)}


def supervisely_multipolygon(root):
    """The car of two parts is a multipolygon; the car with a hole is a bitmap."""
    supervisely(root)
    path = root / 'data/ann/a.png.json'
    content = json.loads(path.read_text())
    objects = content['objects']
    parts = [entry['points'] for entry in objects[3:5]]
    data = base64.b64encode(zlib.compress(dataset_files.png(part_of(*SCENE[5][1::2])))).decode()
    objects[3:] = [
        {'geometryType': 'multipolygon', 'classTitle': 'car', 'parts': parts},
        {'geometryType': 'bitmap', 'classTitle': 'car', 'bitmap': {'origin': list(SCENE[5][1][:2]), 'data': data}},
    ]
    put(path, content)
    return {'annotations': str(root)}


def superannotate_pixels(root):
    """Each part has its own color; the second car stands before the first."""
    parts = np.array([(0, number, 59) for number in range(len(SCENE))], np.uint8)
    _, places = truth(range(len(SCENE)))
    painted = np.where((truth()[0] > 0)[..., np.newaxis], parts[places], 0).astype(np.uint8)
    instances = [
        {'className': label, 'groupId': group or 0, 'parts': [{'color': f'#00{number:02x}3b'}]}
        for number, (label, _, group, _) in enumerate(SCENE)
    ]
    put(root / 'a.png___pixel.json', {'metadata': {'height': 16, 'width': 24}, 'instances': instances})
    put(root / 'a.png___save.png', dataset_files.png(painted))
    put(root / 'a.png', image())
    return {'annotations': str(root)}


def superannotate_vectors(root):
    instances = []
    for label, box, group, has_hole in SCENE:
        exclude = [flat(corners(HOLE))] if has_hole else []
        area = {'type': 'polygon', 'points': flat(corners(box)), 'exclude': exclude}
        instances.append({**area, 'className': label, 'groupId': group or 0})
    put(root / 'a.png.json', {'metadata': {'height': 16, 'width': 24}, 'instances': instances})
    put(root / 'a.png', image())
    return {'annotations': str(root)}


def hasty_json(root):
    """Hasty has no groups: the car of two parts is one mask."""
    labels = []
    for place, (label, box, group, has_hole) in enumerate(SCENE):
        left, top, right, bottom = box
        entry = {'class_name': label, 'bbox': list(box), 'polygon': corners(box), 'mask': None, 'z_index': place}
        if has_hole or group:
            mask = part_of(box, has_hole)
            if group:
                left, top, right, bottom = entry['bbox'] = [13, 2, 21, 5]
                mask = (mask_of(SCENE[3][1], False) | mask_of(SCENE[4][1], False))[top:bottom, left:right]
            starts = np.flatnonzero(np.diff(np.pad(mask.ravel().astype(int), 1)))
            runs = [[first + 1, last - first] for first, last in starts.reshape(-1, 2).tolist()]
            entry |= {'polygon': None, 'mask': flat(runs)}
        if box != SCENE[4][1]:
            labels.append(entry)
    images = [{'image_name': 'a.png', 'image_status': 'DONE', 'width': 24, 'height': 16, 'labels': labels[::-1]}]
    classes = [{'class_name': name, 'color': '#000000'} for name in COLORS]
    put(root / 'p.json', {'label_classes': classes, 'images': images})
    put(root / 'images' / 'a.png', image())
    return {'annotations': str(root)}


ALL = {
    'labelme JSON': labelme,
    'CVAT for images 1.1': cvat_xml,
    'CVAT segmentation mask 1.1': cvat_masks,
    'Label Studio JSON': label_studio,
    'COCO JSON': coco,
    'Supervisely JSON': supervisely,
    'Supervisely JSON, multipolygon': supervisely_multipolygon,
    'SuperAnnotate JSON, pixels': superannotate_pixels,
    'SuperAnnotate JSON, vectors': superannotate_vectors,
    'Hasty JSON': hasty_json,
}
