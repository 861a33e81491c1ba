"""Exports of labeling tools, with the structure and the names that the tools give them, of a few tiny images.

Each writer draws the same scene: a road, and a car that covers a part of it. It returns the options of the builder.
"""

import base64
import json
import pathlib
import zlib

import numpy as np

from deeplab.datasets.annotations import run_lengths
from tests.helpers import dataset_files

SIZES = ((12, 16), (14, 20), (10, 18))  # height and width of each image
NAMES = ('a', 'b', 'c')
COLORS = {'road': (128, 64, 128), 'car': (0, 0, 142)}
ROAD = (2, 1, 10, 9)  # left, top, right, bottom; the last two are excluded


def car(number):
    return 6 + number, 4, 12 + number, 10


def box_mask(number, box):
    mask = np.zeros(SIZES[number], bool)
    mask[box[1] : box[3], box[0] : box[2]] = True
    return mask


def truth(number):
    """[h, w]: 0 where nothing is labeled, 1 for the road, 2 for the car."""
    ids = np.zeros(SIZES[number], np.uint8)
    ids[box_mask(number, ROAD)] = 1
    ids[box_mask(number, car(number))] = 2
    return ids


def corners(box):
    """The corners of a box in coordinates of pixels' corners."""
    left, top, right, bottom = box
    return [[left, top], [right, top], [right, bottom], [left, bottom]]


def centers(box):
    """The corners of a box in coordinates of pixels' centers."""
    return corners((box[0], box[1], box[2] - 1, box[3] - 1))


def flat(points):
    return [value for point in points for value in point]


def image(number):
    return dataset_files.png(dataset_files.pixels(*SIZES[number], seed=number))


def hexed(name):
    return '#{:02x}{:02x}{:02x}'.format(*COLORS[name])


def put(path, content):
    path = pathlib.Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    if isinstance(content, bytes):
        path.write_bytes(content)
    else:
        path.write_text(content if isinstance(content, str) else json.dumps(content))


def counts_of(mask, by_columns=False):
    """Run lengths that begin with the pixels that are not covered."""
    values = (mask.T if by_columns else mask).reshape(-1)
    ends = np.flatnonzero(np.diff(values)) + 1
    runs = np.diff([0, *ends, len(values)]).tolist()
    return [0, *runs] if values[0] else runs


def brush_bytes(mask):
    """A brush mask of Label Studio: repeated words, and a literal run at the end."""
    words = np.repeat(mask.reshape(-1) * np.uint8(255), 4)
    bits = f'{len(words):032b}' + f'{7:05b}' + ''.join(f'{size - 1:04b}' for size in (3, 4, 8, 16))
    ends = [*(np.flatnonzero(np.diff(words[:-8].astype(int))) + 1), len(words) - 8]
    start = 0
    for end in ends:
        bits += f'111{end - start - 1:016b}{words[start]:08b}'
        start = end
    bits += f'000{7:03b}' + ''.join(f'{word:08b}' for word in words[-8:])
    bits += '0' * (-len(bits) % 8)
    return [int(bits[place : place + 8], 2) for place in range(0, len(bits), 8)]


def labelme(root):
    """One JSON file beside each image; the third image is in its JSON file only."""
    for number, name in enumerate(NAMES):
        height, width = SIZES[number]
        left, top, right, bottom = car(number)
        shapes = [
            {'label': 'road', 'points': centers(ROAD), 'shape_type': 'polygon'},
            {'label': 'car', 'points': [[right - 1, bottom - 1], [left, top]], 'shape_type': 'rectangle'},
            {'label': 'lane', 'points': [[1, 1], [5, 5]], 'shape_type': 'linestrip'},
            {'label': 'nut', 'points': [[1, 1]], 'shape_type': 'point'},
        ]
        if number == 1:
            mask = np.ones((bottom - top, right - left), bool)
            encoded = base64.b64encode(dataset_files.png(mask)).decode()
            points = [[left, top], [right - 1, bottom - 1]]
            shapes[1] = {'label': 'car', 'points': points, 'shape_type': 'mask', 'mask': encoded}
        content = {
            'version': '5.4.1',
            'flags': {},
            'shapes': [{**shape, 'group_id': None, 'flags': {}} for shape in shapes],
            'imagePath': f'{name}.png',
            'imageData': base64.b64encode(image(number)).decode() if number == 2 else None,
            'imageHeight': height,
            'imageWidth': width,
        }
        put(root / f'{name}.json', content)
        if number != 2:
            put(root / f'{name}.png', image(number))
    return {'annotations': str(root)}


def cvat_xml(root):
    """annotations.xml of a project with subsets; the car stands before the road that it covers."""
    labels = ''.join(
        f'<label><name>{name}</name><color>{hexed(name)}</color><type>any</type><attributes/></label>'
        for name in COLORS
    )
    text = (
        '<?xml version="1.0" encoding="utf-8"?>\n<annotations><version>1.1</version><meta><project><name>p</name>'
        f'<labels>{labels}<label><name>spot</name><color>#ffffff</color><type>points</type></label></labels>'
        '</project></meta>'
    )
    for number, name in enumerate(NAMES):
        height, width = SIZES[number]
        left, top, right, bottom = car(number)
        runs = ', '.join(map(str, counts_of(np.ones((bottom - top, right - left), bool))))
        middle = (left + right) / 2, (top + bottom) / 2
        shape = [
            f'box {{}} xtl="{left}" ytl="{top}" xbr="{right}" ybr="{bottom}"',
            f'mask {{}} rle="{runs}" left="{left}" top="{top}" width="{right - left}" height="{bottom - top}"',
            f'box {{}} xtl="{middle[0] - 3}" ytl="{middle[1] - 3}" xbr="{middle[0] + 3}" ybr="{middle[1] + 3}" '
            'rotation="90.0"',
        ][number].format('label="car" source="manual" occluded="1" z_order="1"')
        points = ';'.join(f'{x:.2f},{y:.2f}' for x, y in corners(ROAD))
        subset = 'Validation' if number == 2 else 'Train'
        text += (
            f'<image id="{number}" name="{name}.png" subset="{subset}" task_id="1" width="{width}" height="{height}">'
            f'<{shape}></{shape.split()[0]}>'
            f'<polygon label="road" source="manual" occluded="0" points="{points}" z_order="0"></polygon>'
            '<points label="spot" source="manual" occluded="0" points="1.0,1.0" z_order="0"></points></image>'
        )
        put(root / 'images' / subset / f'{name}.png', image(number))
    put(root / 'annotations.xml', f'{text}</annotations>\n')
    return {'annotations': str(root / 'annotations.xml')}


def cvat_masks(root):
    """Segmentation mask 1.1, with images."""
    table = '# label:color_rgb:parts:actions\nbackground:0,0,0::\n'
    table += ''.join(f'{name}:{",".join(map(str, color))}::\n' for name, color in COLORS.items())
    put(root / 'labelmap.txt', table)
    palette = np.array([(0, 0, 0), *COLORS.values()], np.uint8)
    for number, name in enumerate(NAMES):
        put(root / 'SegmentationClass' / f'{name}.png', dataset_files.png(palette[truth(number)]))
        put(root / 'SegmentationObject' / f'{name}.png', dataset_files.png(palette[truth(number)][..., ::-1].copy()))
        put(root / 'JPEGImages' / f'{name}.png', image(number))
    put(root / 'ImageSets' / 'Segmentation' / 'train.txt', 'a\nb\n')
    put(root / 'ImageSets' / 'Segmentation' / 'val.txt', 'c\n')
    return {'annotations': str(root)}


def label_studio(root):
    """An export in JSON, with the images of the upload folder."""
    tasks = []
    for number, name in enumerate(NAMES):
        height, width = SIZES[number]
        left, top, right, bottom = car(number)
        stated = {'original_width': width, 'original_height': height, 'image_rotation': 0, 'to_name': 'image'}
        points = [[100 * x / width, 100 * y / height] for x, y in corners(ROAD)]
        road = {'points': points, 'closed': True, 'polygonlabels': ['road']}
        rectangle = {
            'x': 100 * left / width,
            'y': 100 * top / height,
            'width': 100 * (right - left) / width,
            'height': 100 * (bottom - top) / height,
            'rotation': 0,
            'rectanglelabels': ['car'],
        }
        brush = {'format': 'rle', 'rle': brush_bytes(box_mask(number, car(number))), 'brushlabels': ['car']}
        results = [
            {**stated, 'id': 'r1', 'from_name': 'p', 'type': 'polygonlabels', 'value': road},
            {**stated, 'id': 'r2', 'from_name': 'r', 'type': 'rectanglelabels', 'value': rectangle},
        ]
        if number == 1:
            results[1] = {**stated, 'id': 'r2', 'from_name': 'b', 'type': 'brushlabels', 'value': brush}
        if number == 2:
            painted = np.zeros((height, width, 4), np.uint8)
            painted[..., 3] = box_mask(number, car(number)) * np.uint8(255)
            address = 'data:image/png;base64,' + base64.b64encode(dataset_files.png(painted)).decode()
            bitmask = {'format': 'bitmask', 'imageDataURL': address, 'bitmasklabels': ['car']}
            results[1] = {**stated, 'id': 'r2', 'from_name': 'm', 'type': 'bitmasklabels', 'value': bitmask}
        results.append(
            {'id': 'r3', 'from_name': 'c', 'to_name': 'image', 'type': 'choices', 'value': {'choices': ['x']}}
        )
        kept = {'id': number, 'was_cancelled': False, 'updated_at': '2024-02-01T10:00:00Z', 'result': results}
        older = {'id': 9, 'was_cancelled': False, 'updated_at': '2024-01-01T10:00:00Z', 'result': []}
        canceled = {'id': 8, 'was_cancelled': True, 'updated_at': '2024-03-01T10:00:00Z', 'result': []}
        upload = f'1a2b3c{number:02}-{name}.png'
        address = [f'/data/upload/3/{upload}', f'/data/local-files/?d=in%2F{name}.png', f's3://bucket/in/{name}.png'][
            number
        ]
        annotations = [kept, older, canceled] if number == 0 else [kept]
        tasks.append({'id': number + 1, 'annotations': annotations, 'file_upload': upload, 'data': {'image': address}})
        put(root / 'in' / f'{name}.png', image(number))
    put(root / 'project-1-at-2024.json', tasks)
    return {'annotations': str(root / 'project-1-at-2024.json')}


def _coco(numbers, categories, folder=''):
    """COCO instances: a polygon, and run lengths, compressed and not."""
    images, annotations = [], []
    for number in numbers:
        height, width = SIZES[number]
        images.append(
            {'id': number + 10, 'file_name': f'{folder}{NAMES[number]}.png', 'height': height, 'width': width}
        )
        counts = counts_of(box_mask(number, car(number)), by_columns=True)
        of_car = [
            {'counts': counts, 'size': [height, width]},
            {'counts': run_lengths.coco_text(counts), 'size': [height, width]},
            [flat(corners(car(number)))],
        ][number]
        for label, segmentation in (('road', [flat(corners(ROAD))]), ('car', of_car)):
            category = next(entry['id'] for entry in categories if entry['name'] == label)
            common = {'id': len(annotations), 'image_id': number + 10, 'category_id': category, 'iscrowd': 0}
            annotations.append({**common, 'segmentation': segmentation, 'bbox': [0, 0, 1, 1], 'area': 1})
    return {'info': {}, 'licenses': [], 'categories': categories, 'images': images, 'annotations': annotations}


def roboflow(root):
    """COCO segmentation with a folder for each split, and the placeholder that Roboflow puts first."""
    categories = [{'id': 0, 'name': 'things', 'supercategory': 'none'}]
    categories += [{'id': place, 'name': name, 'supercategory': 'things'} for place, name in enumerate(COLORS, start=1)]
    for split, numbers in (('train', (0, 1)), ('valid', (2,))):
        put(root / split / '_annotations.coco.json', _coco(numbers, categories))
        for number in numbers:
            put(root / split / f'{NAMES[number]}.png', image(number))
    put(root / 'README.dataset.txt', 'https://example.com')
    return {'annotations': str(root)}


def cvat_coco(root):
    """COCO 1.0 of CVAT: annotations/instances_SUBSET.json and images/SUBSET/; every mask is marked as a crowd."""
    categories = [{'id': place, 'name': name, 'supercategory': ''} for place, name in enumerate(COLORS, start=1)]
    for split, numbers in (('train', (0, 1)), ('val', (2,))):
        content = _coco(numbers, categories)
        for annotation in content['annotations']:
            annotation['iscrowd'] = int(isinstance(annotation['segmentation'], dict))
            annotation['attributes'] = {'occluded': False}
        put(root / 'annotations' / f'instances_{split}.json', content)
        for number in numbers:
            put(root / 'images' / split / f'{NAMES[number]}.png', image(number))
    return {'annotations': str(root / 'annotations')}


def supervisely(root):
    """A project with a data set for each split."""
    classes = [{'title': name, 'shape': 'any', 'color': hexed(name).upper(), 'id': 1} for name in COLORS]
    put(root / 'meta.json', {'classes': classes, 'tags': [], 'projectType': 'images'})
    for number, name in enumerate(NAMES):
        split = 'val' if number == 2 else 'train'
        height, width = SIZES[number]
        left, top, right, bottom = car(number)
        mask = np.ones((bottom - top, right - left), np.uint8)
        packed = base64.b64encode(
            zlib.compress([dataset_files.png, dataset_files.palette_png][number % 2](mask))
        ).decode()
        rectangle = [[left, top], [right - 1, bottom - 1]]
        of_car = [
            {'geometryType': 'bitmap', 'bitmap': {'origin': [left, top], 'data': packed}},
            {'geometryType': 'bitmap', 'bitmap': {'origin': [left, top], 'data': packed}},
            {'geometryType': 'rectangle', 'points': {'exterior': rectangle, 'interior': []}},
        ][number]
        of_road = {'geometryType': 'polygon', 'points': {'exterior': centers(ROAD), 'interior': []}}
        spot = {'geometryType': 'point', 'classTitle': 'spot', 'points': {'exterior': [[1, 1]], 'interior': []}}
        objects = [{**of_road, 'classTitle': 'road'}, {**of_car, 'classTitle': 'car'}, spot]
        content = {'description': '', 'tags': [], 'size': {'height': height, 'width': width}, 'objects': objects}
        put(root / split / 'ann' / f'{name}.png.json', content)
        put(root / split / 'img' / f'{name}.png', image(number))
    return {'annotations': str(root)}


def _superannotate_classes(root):
    put(
        root / 'classes' / 'classes.json',
        [{'id': 1, 'name': name, 'color': hexed(name), 'type': 'object', 'attribute_groups': []} for name in COLORS],
    )


def _superannotate_metadata(number):
    height, width = SIZES[number]
    return {'name': f'{NAMES[number]}.png', 'width': width, 'height': height, 'status': 'Completed'}


def superannotate_pixels(root):
    """A pixel project: each part has its own color in the mask."""
    _superannotate_classes(root)
    parts = np.array([(0, 0, 0), (0, 1, 59), (0, 2, 118)], np.uint8)
    for number, name in enumerate(NAMES):
        instances = [
            {'className': label, 'probability': 100, 'parts': [{'color': '#{:02x}{:02x}{:02x}'.format(*parts[place])}]}
            for place, label in enumerate(COLORS, start=1)
        ]
        content = {'metadata': _superannotate_metadata(number), 'instances': instances, 'tags': [], 'comments': []}
        put(root / f'{name}.png___pixel.json', content)
        alpha = np.full((*SIZES[number], 1), 255, np.uint8)
        put(root / f'{name}.png___save.png', dataset_files.png(np.concatenate([parts[truth(number)], alpha], 2)))
        put(root / f'{name}.png', image(number))
    return {'annotations': str(root)}


def superannotate_vectors(root):
    """A vector project."""
    _superannotate_classes(root)
    for number, name in enumerate(NAMES):
        left, top, right, bottom = car(number)
        keys = [f'{axis}{corner}' for corner in range(1, 5) for axis in 'xy']
        of_car = [
            {'type': 'bbox', 'points': {'x1': left, 'x2': right, 'y1': top, 'y2': bottom}},
            {'type': 'rbbox', 'points': dict(zip(keys, flat(corners(car(number))), strict=True))},
        ][number % 2]
        instances = [
            {'type': 'polygon', 'className': 'road', 'points': flat(corners(ROAD)), 'exclude': []},
            {**of_car, 'className': 'car'},
            {'type': 'polyline', 'className': 'road', 'points': [0, 0, 4, 4]},
        ]
        put(root / f'{name}.png.json', {'metadata': _superannotate_metadata(number), 'instances': instances})
        put(root / f'{name}.png', image(number))
    return {'annotations': str(root)}


def hasty(root):
    """Semantic segmentation as PNG images, and the images in a folder of their own."""
    put(
        root / 'export' / 'label_classes.json',
        [
            {'png_index': index, 'class_name': name, 'color': f'{hexed(name)}4d', 'class_type': 'object'}
            for index, name in enumerate(COLORS, start=1)
        ],
    )
    for number, name in enumerate(NAMES):
        folder = 'val' if number == 2 else 'train'
        put(root / 'export' / folder / f'{name}.png', dataset_files.png(truth(number)))
        put(root / 'images' / folder / f'{name}.png', image(number))
    return {'annotations': str(root / 'export'), 'image_folder': str(root / 'images')}


def hasty_json(root):
    """Hasty JSON v1.1, which lists the car before the road that it covers; and an image that nobody has labeled."""
    images = [{'image_name': 'new.png', 'dataset_name': 'train', 'image_status': 'NEW', 'labels': []}]
    for number, name in enumerate(NAMES):
        folder = 'val' if number == 2 else 'train'
        height, width = SIZES[number]
        left, top, right, bottom = box = car(number)
        outline = [
            {'polygon': corners(box), 'mask': None},
            {'polygon': None, 'mask': [1, (right - left) * (bottom - top)]},
            {'polygon': None, 'mask': flat([row * (right - left) + 1, right - left] for row in range(bottom - top))},
        ][number]
        labels = [
            {'class_name': 'car', 'bbox': list(box), **outline, 'z_index': 2, 'attributes': {}},
            {'class_name': 'road', 'bbox': list(ROAD), 'polygon': corners(ROAD), 'mask': None, 'z_index': 1},
            {'class_name': 'car', 'bbox': [0, 0, 3, 3], 'polygon': None, 'mask': None, 'z_index': 3},
        ]
        common = {'image_name': f'{name}.png', 'dataset_name': folder, 'width': width, 'height': height}
        images.append({**common, 'image_status': 'DONE', 'labels': labels})
        put(root / 'photos' / folder / f'{name}.png', image(number))
    classes = [{'class_name': name, 'color': f'{hexed(name)}4d', 'class_type': 'object'} for name in COLORS]
    content = {'project_name': 'p', 'export_format_version': '1.1', 'label_classes': classes, 'images': images}
    put(root / 'p.json', content)
    return {'annotations': str(root / 'p.json'), 'image_folder': str(root / 'photos')}


def roboflow_masks(root):
    """Semantic segmentation masks, which lie beside the images of each split."""
    for split, numbers in (('train', (0, 1)), ('valid', (2,))):
        put(root / split / '_classes.csv', 'Pixel Value, Class\r\n0, background\r\n1, road\r\n2, car\r\n')
        for number in numbers:
            put(root / split / f'{NAMES[number]}.png', image(number))
            put(root / split / f'{NAMES[number]}_mask.png', dataset_files.png(truth(number)))
    return {'annotations': str(root)}


ALL = {
    'labelme JSON': labelme,
    'CVAT for images 1.1': cvat_xml,
    'CVAT segmentation mask 1.1': cvat_masks,
    'Label Studio JSON': label_studio,
    'COCO JSON': roboflow,
    'COCO JSON of CVAT': cvat_coco,
    'Supervisely JSON': supervisely,
    'SuperAnnotate JSON, pixels': superannotate_pixels,
    'SuperAnnotate JSON, vectors': superannotate_vectors,
    'Hasty semantic segmentation': hasty,
    'Hasty JSON': hasty_json,
    'Roboflow semantic segmentation masks': roboflow_masks,
}
