"""Predictions as annotations of labeling tools: what is written is read again.

Covers datasets/annotations/writing.py, datasets/annotations/geojson.py and options/annotations.py.
"""

import json
import os

import numpy as np
import pytest
from PIL import Image

from deeplab.datasets.annotations import formats, rasterizer, run_lengths, writing
from deeplab.datasets.annotations.shapes import Label
from deeplab.datasets.descriptor import DatasetDescriptor
from deeplab.errors import OptionError
from deeplab.inference import annotation_files, inputs, output_folder
from deeplab.inference.inputs import InputFile
from deeplab.inference.prediction import Prediction
from deeplab.inference.task_decoding import TaskPrediction
from deeplab.options import ANNOTATION_FORMATS, AnnotationOptions, PartOptions, PredictOptions, PredictorOptions
from deeplab.programs import predict
from tests.helpers import predictor_setup

pytestmark = pytest.mark.usefixtures('tiny_network')
NAMES = ('sky', 'road', 'car')
READ = [name for name in ANNOTATION_FORMATS if name != 'geojson']
EXACT = AnnotationOptions(0.0, 0)


def test_formats_have_the_names_of_the_options():
    assert tuple(formats.WRITERS) == ANNOTATION_FORMATS


def needs_pycocotools(name):
    if name == 'coco':
        pytest.importorskip('pycocotools', reason='the package pycocotools is not installed')


def drawn(size=(40, 56)):
    """A map with a hole, an area in two parts and one of a pixel."""
    ids = np.zeros(size, np.int64)
    ids[20:] = 1
    ids[5:18, 8:30] = 2
    ids[9:12, 14:20] = 0
    ids[30:36, 40:50] = 2
    ids[25, 3] = 2
    return ids


def written(name, ids, options, folder, are_instances=frozenset()):
    """Writes the map as the annotation of an image, and reads it again."""
    writer = formats.WRITERS[name]
    class_of = {value: NAMES[value % 10] for value in np.unique(ids).tolist()}
    confidence = np.full(ids.shape, 0.75, np.float32)
    shapes = annotation_files.shapes_of(ids, class_of, options, writer.tolerance(options), confidence, are_instances)
    value = writer.image(writing.PredictedImage('a.png', ids.shape, shapes, options.polygon_tolerance > 0))
    if writer.suffix:
        path = folder / (writer.folder or writer.name) / f'{writer.file_name("a", "a.png")}{writer.suffix}'
        path.parent.mkdir(parents=True)
        path.write_text(json.dumps(value))
    if writer.document is not None:
        path = folder / writer.document_name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(writer.document([value], [Label(each, (10, 20, 30)) for each in NAMES]))
    return formats.read(str(folder))


@pytest.mark.parametrize('name', READ)
@pytest.mark.parametrize('tolerance', [0.0, 1.0])
def test_what_is_written_is_read_again(name, tolerance, tmp_path):
    if tolerance:
        needs_pycocotools(name)
    ids = drawn()
    annotations = written(name, ids, AnnotationOptions(tolerance, 0), tmp_path)
    (image,) = annotations.images
    assert (image.size in (ids.shape, None)) and 'a.png' in (*image.names, *(f'{each}.png' for each in image.names))
    drawing = rasterizer.draw(image.shapes, {each: number for number, each in enumerate(NAMES)}, ids.shape, 255)
    equal = (drawing.ids == ids).mean()
    assert equal == 1 if tolerance == 0 else equal > 0.99
    assert len(image.shapes) in (5, 6)  # at a tolerance of 1, a pixel alone has no outline
    if name in ('cvat', 'coco', 'supervisely'):
        assert [label.name for label in annotations.labels] == list(NAMES)
    text = ''.join(path.read_text() for path in tmp_path.rglob('*.*') if path.is_file())
    assert '0.75' in text


def test_controls_of_label_studio_have_names_of_their_own(tmp_path):
    written('label_studio', drawn(), EXACT, tmp_path)
    (task,) = json.loads((tmp_path / 'label_studio.json').read_text())
    named = {(region['type'], region['from_name']) for region in task['annotations'][0]['result']}
    assert named == {('polygonlabels', 'polygon'), ('brushlabels', 'brush')}


def drawn_by_labelme(folder, size):
    from labelme import LabelFile, utils

    path = folder / 'labelme' / 'a.json'
    (folder / 'images' / 'a.png').rename(path.with_name('a.png'))
    numbers = {name: number for number, name in enumerate(NAMES, 1)}
    return utils.shapes_to_label(size, LabelFile(str(path)).shapes, {'_background_': 0} | numbers)[0] - 1


def filled(polygon, size):
    from pycocotools import mask

    return mask.decode(mask.merge(mask.frPyObjects([polygon], *size))) > 0


def drawn_by_datumaro(folder, size):
    """What Datumaro, of CVAT's authors, reads from CVAT's file."""
    import datumaro
    from datumaro.components.annotation import AnnotationType

    dataset = datumaro.Dataset.import_from(str(folder), 'cvat')
    labels = [label.name for label in dataset.categories()[AnnotationType.label]]
    ids = np.full(size, -1)
    (item,) = dataset
    for shape in item.annotations:
        covered = shape.image > 0 if shape.type == AnnotationType.mask else filled(shape.points, size)
        ids[covered] = NAMES.index(labels[shape.label])
    return ids


def drawn_by_label_studio(folder, size):
    """What Label Studio's converter reads, after the server has numbered the tasks."""
    from label_studio_converter import Converter, brush

    path = folder / 'label_studio.json'
    (task,) = json.loads(path.read_text())
    path.write_text(json.dumps([task | {'id': 1}]))
    labels = ''.join(f'<Label value="{name}"/>' for name in NAMES)
    controls = (f'<{kind}Labels name="{kind.lower()}" toName="image">{labels}</{kind}Labels>' for kind in KINDS)
    interface = f'<View><Image name="image" value="$image"/>{"".join(controls)}</View>'
    ids = np.full(size, -1)
    (read,) = Converter(interface, str(folder), download_resources=False).iter_from_json_file(str(path))
    for region in (region for regions in read['output'].values() for region in regions):
        if region['type'] == 'BrushLabels':
            covered = np.reshape(brush.decode_rle(region['rle']), (*size, 4))[..., 3] > 0
        else:
            covered = filled((np.array(region['points']) * size[::-1] / 100).ravel().tolist(), size)
        ids[covered] = NAMES.index((region.get('brushlabels') or region['polygonlabels'])[0])
    return ids


def drawn_by_pycocotools(folder, size):
    from pycocotools.coco import COCO

    coco = COCO(str(folder / 'coco.json'))
    ids = np.full(size, -1)
    for shape in coco.loadAnns(coco.getAnnIds()):
        (category,) = coco.loadCats(shape['category_id'])
        ids[coco.annToMask(shape) > 0] = NAMES.index(category['name'])
    return ids


KINDS = ('Polygon', 'Brush')
TOOLS = {
    'labelme': ('labelme', drawn_by_labelme),
    'cvat': ('datumaro', drawn_by_datumaro),
    'label_studio': ('label_studio_converter', drawn_by_label_studio),
    'coco': ('pycocotools', drawn_by_pycocotools),
}


@pytest.mark.slow
@pytest.mark.filterwarnings('ignore')  # of these packages
@pytest.mark.parametrize('name', TOOLS)
@pytest.mark.parametrize('tolerance', [0.0, 1.0])
def test_tools_draw_what_is_written(name, tolerance, tmp_path):
    package, draw = TOOLS[name]
    for each in (package, 'pycocotools'):
        pytest.importorskip(each, reason=f'the package {each} is not installed')
    ids = drawn()
    written(name, ids, AnnotationOptions(tolerance, 0), tmp_path)
    (tmp_path / 'images').mkdir()
    Image.fromarray(np.zeros(ids.shape, np.uint8)).save(tmp_path / 'images' / 'a.png')  # some tools open it
    equal = (draw(tmp_path, ids.shape) == ids).mean()
    assert equal == 1 if tolerance == 0 else equal >= 0.995


@pytest.mark.parametrize('name', [*READ, 'geojson'])
def test_an_instance_in_two_parts_is_one_shape(name, tmp_path):
    ids = np.zeros((12, 20), np.int64)
    ids[2:6, 2:6] = ids[2:6, 10:14] = 12  # one car behind a pole
    ids[8:11, 4:9] = 22
    kept = np.where(ids > 0, ids, 10)  # sky
    options = AnnotationOptions(1.0, 0)
    if name == 'geojson':
        writer = formats.WRITERS[name]
        shapes = annotation_files.shapes_of(ids, {12: 'car', 22: 'car'}, options, 1.0, None, frozenset({12, 22}))
        features = writer.image(writing.PredictedImage('a.png', ids.shape, shapes, True))['features']
        assert [feature['geometry']['type'] for feature in features] == ['MultiPolygon', 'Polygon']
        assert features[1]['geometry']['coordinates'] == [[[4, 8], [9, 8], [9, 11], [4, 11], [4, 8]]]
        assert features[1]['properties'] == {'class': 'car'}
        return
    needs_pycocotools(name)
    (image,) = written(name, kept, options, tmp_path, frozenset({12, 22})).images
    numbers = {each: number for number, each in enumerate(NAMES)}
    drawing = rasterizer.draw(image.shapes, numbers, ids.shape, 255, things=[2])
    assert len(np.unique(drawing.instances)) == 3
    np.testing.assert_array_equal(drawing.instances > 0, ids > 0)
    assert drawing.instances[3, 3] == drawing.instances[3, 12] != drawing.instances[9, 5]


def prediction_of(labels, results, kept=NAMES):
    classes = DatasetDescriptor('', 3, class_names=NAMES)
    is_kept = np.isin(np.arange(256), [NAMES.index(name) for name in kept]) if kept != NAMES else np.ones(256, bool)
    scores = (np.ones(labels.shape, np.float32), None)
    image = np.zeros((*labels.shape, 3), np.uint8)
    return Prediction(image, labels, classes, is_kept, scores, lambda: None, TaskPrediction(results, None))


@pytest.mark.parametrize(
    ('kept', 'expected'), [(NAMES, ['car', 'car', 'sky']), (('car',), ['car', 'car']), (('sky',), ['sky'])]
)
def test_pixels_of_an_instance_have_its_class(kept, expected):
    class_ids, instance_ids = np.zeros((12, 20), np.uint8), np.zeros((12, 20), np.uint16)
    class_ids[2:6, 2:6] = class_ids[8:11, 4:9] = 2
    instance_ids[2:6, 2:6], instance_ids[8:11, 4:9] = 1, 2
    labels = class_ids.copy()
    labels[2:6, 4:6] = 1  # pixels of the first car, whose most probable class is another
    prediction = prediction_of(labels, {'panoptic': {'class_ids': class_ids, 'instance_ids': instance_ids}}, kept)
    item = InputFile('a.png', 'a', relative='a.png')
    content = annotation_files.value_of(formats.WRITERS['geojson'], item, 'a.geojson', prediction, EXACT)
    assert sorted(feature['properties']['class'] for feature in content['features']) == expected


def test_images_of_one_stem_are_named_as_their_files(tmp_path):
    for name in ('a.jpg', 'a.png', 'c.png/e.jpg', 'c.jpg'):
        (tmp_path / 'photos' / name).parent.mkdir(exist_ok=True, parents=True)
        (tmp_path / 'photos' / name).write_bytes(b'')
    items, _ = inputs.find([str(tmp_path / 'photos')], str(tmp_path / 'out'))
    assert {item.name for item in items} == {'a.jpg', 'a.png', 'c.png/e', 'c_2'}
    prediction = prediction_of(np.zeros((2, 2), np.uint8), {})
    options = PredictOptions(('photos',), str(tmp_path / 'out'), 'logs')
    folder = output_folder.OutputFolder(options, ['supervisely', 'labelme'])
    supervisely, labelme = formats.WRITERS['supervisely'], formats.WRITERS['labelme']
    for item in items:
        inside = os.path.relpath(item.path, tmp_path / 'photos')
        content = annotation_files.value_of(formats.WRITERS['coco'], item, '', prediction, EXACT)
        assert content['image']['file_name'] == inside
        assert folder._annotation_path(supervisely, item).endswith(f'/out/supervisely/predictions/ann/{inside}.json')
        assert folder._annotation_path(labelme, item).endswith(f'/out/labelme/{item.name}.json')


def test_small_areas_are_left_out():
    shapes = annotation_files.shapes_of(drawn(), {0: 'sky', 2: 'car'}, AnnotationOptions(1.0, 10), 1.0)
    assert sorted((shape.label, shape.area) for shape in shapes) == [
        ('car', 60), ('car', 268), ('sky', 18), ('sky', 834)
    ]  # fmt: skip


def test_run_lengths_are_read_again():
    random = np.random.default_rng(1)
    for size in [(1, 1), (7, 300), (150, 40)]:
        for share in (0.0, 0.1, 0.9, 1.0):
            covered = random.random(size) < share
            counts = run_lengths.counts_of(covered, by_columns=True)
            assert run_lengths.of_coco_text(run_lengths.coco_text(counts)) == counts
            np.testing.assert_array_equal(run_lengths.alternating(counts, *size, by_columns=True), covered)
            content = run_lengths.label_studio_content(covered)
            np.testing.assert_array_equal(run_lengths.of_label_studio(content, *size), covered)


def test_texts_of_coco_are_those_of_pycocotools():
    mask = pytest.importorskip('pycocotools.mask', reason='the package pycocotools is not installed')
    covered = np.random.default_rng(2).random((60, 700)) < 0.02
    expected = mask.encode(np.asfortranarray(covered.astype(np.uint8)))
    assert run_lengths.coco_text(run_lengths.counts_of(covered, by_columns=True)) == expected['counts'].decode()


def options_for(training, folder, **changes):
    predictor = PredictorOptions()
    return PredictOptions((str(folder / 'photos'),), str(folder / 'out'), str(training), predictor=predictor, **changes)


@pytest.fixture
def photos(tmp_path):
    for name, seed in (('one', 1), ('deep/two', 2)):
        path = tmp_path / 'photos' / f'{name}.png'
        path.parent.mkdir(exist_ok=True, parents=True)
        Image.fromarray(predictor_setup.pixels(20, 30, seed)).save(path)
    return tmp_path


def test_predict_writes_all_formats(training, photos):
    options = options_for(training, photos, save=('mask', *ANNOTATION_FORMATS), annotation=EXACT)
    result = predict.run(options)
    summary = json.loads((photos / 'out/predictions.json').read_text())
    assert 'coco of all images: ' in result.report
    places = {
        'labelme': 'labelme', 'cvat': 'cvat.xml', 'coco': 'coco.json', 'label_studio': 'label_studio.json',
        'supervisely': 'supervisely',
    }  # fmt: skip
    numbers = {name: number for number, name in enumerate(summary['classes'])}
    for place in places.values():
        images = formats.read(str(photos / 'out' / place)).images
        assert len(images) == 2
        for image in images:
            stem = 'deep/two' if 'two' in image.names[0] else 'one'
            mask = np.asarray(Image.open(photos / f'out/mask/{stem}.png'))
            np.testing.assert_array_equal(rasterizer.draw(image.shapes, numbers, mask.shape, 255).ids, mask)
    labelme = json.loads((photos / 'out/labelme/deep/two.json').read_text())
    assert (photos / 'out/labelme/deep' / labelme['imagePath']).resolve() == photos / 'photos/deep/two.png'
    assert (photos / 'out/geojson/one.geojson').exists()
    predict.run(options)  # replaces its own files
    (photos / 'out/coco.json').unlink()
    (photos / 'out/.predict_files').unlink()
    with pytest.raises(OptionError, match='exists? and (was|were) not written by predict'):
        predict.run(options)


def test_annotations_are_of_whole_runs_and_of_images(training, photos):
    with pytest.raises(OptionError, match=r'annotations \(coco\) are written by one run'):
        options_for(training, photos, save=('coco',), part=PartOptions('1/2'))
    for field, value in (('polygon_tolerance', 2.0), ('minimum_area', 0)):
        with pytest.raises(OptionError, match=f'{field}={value} is for annotations: add one of labelme, .* to save'):
            options_for(training, photos, save=('mask',), annotation=AnnotationOptions(**{field: value}))
    (photos / 'photos/film.mp4').write_bytes(b'')
    pytest.importorskip('cv2', reason='the package opencv-python-headless is not installed')
    with pytest.raises(OptionError, match=r"Annotations can be written only for images, but '.*film.mp4' is a video"):
        predict.run(options_for(training, photos, save=('mask', 'coco')))
