"""Results of tasks in `Predictor`, predict and vis, and their files; covers inference/task_decoding.py."""

import dataclasses
import io
import json
import pathlib

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

from deeplab import cli, common, vis
from deeplab import eval as eval_program
from deeplab.datasets import coco_segments, descriptor
from deeplab.errors import OptionError
from deeplab.evaluation import eval_coco_format
from deeplab.inference import network_source, task_decoding, task_files
from deeplab.inference.prediction import Prediction
from deeplab.inference.predictor import Predictor
from deeplab.options import (
    SAVED,
    USUAL_SAVED,
    CocoFormatOptions,
    EvalOptions,
    ModelOptions,
    PredictOptions,
    PredictorOptions,
    ResizeOptions,
    VisOptions,
    WaitOptions,
)
from deeplab.programs import predict
from deeplab.registry import TASKS, Output, ResultFile, Task
from tests.helpers import panoptic_setup as setup
from tests.helpers.registries import changes_undone

ONCE = WaitOptions(interval_secs=0, max_rounds=1, timeout_secs=0)


@pytest.fixture
def network(monkeypatch):
    return setup.use_small_network(monkeypatch)


@pytest.fixture(scope='module')
def data(tmp_path_factory):
    return setup.write_data(tmp_path_factory.mktemp('records'))


@pytest.fixture(scope='module')
def training(tmp_path_factory, data):
    return setup.write_training(tmp_path_factory.mktemp('train'), data, descriptor.load(data.name))


def read(*parts):
    return np.asarray(Image.open(pathlib.Path(*parts)))


def test_a_prediction_has_results_attributes_and_files(network, training, tmp_path):
    with Predictor.from_checkpoint(training) as predictor:
        prediction = predictor(setup.image(0))
        assert prediction.probabilities.shape == (*setup.SIZE, 3) and prediction.confidence.min() == 1
        assert predictor.kinds_of_files() == ('mask', 'overlay', 'class_ids', 'instances', 'panoptic')
    class_ids, instance_ids = setup.truth(0)
    kept = class_ids != 255
    np.testing.assert_array_equal(prediction.class_ids[kept], class_ids[kept])
    np.testing.assert_array_equal(prediction.instance_ids[kept], instance_ids[kept])
    assert prediction.results.keys() == {'panoptic'} and len(prediction.instances) == 4
    with pytest.raises(AttributeError, match="no attribute 'depths'"):
        prediction.depths  # noqa: B018
    for kind in ('class_ids', 'instances', 'panoptic', 'overlay'):
        prediction.save(tmp_path / f'{kind}.png', kind)
    np.testing.assert_array_equal(read(tmp_path, 'instances.png'), prediction.instance_ids)
    assert read(tmp_path, 'instances.png').dtype == np.uint16
    np.testing.assert_array_equal(read(tmp_path, 'class_ids.png'), prediction.class_ids)
    np.testing.assert_array_equal(read(tmp_path, 'panoptic.png')[5, 20], [2, 2, 0])
    np.testing.assert_array_equal(read(tmp_path, 'overlay.png'), prediction.overlay())
    assert len(np.unique(prediction.overlay(1.0)[[9, 9], [6, 25]], axis=0)) == 2  # two cars
    shown = np.asarray(Image.open(io.BytesIO(prediction._repr_png_())))
    np.testing.assert_array_equal(shown[: setup.SIZE[0], : setup.SIZE[1]], prediction.overlay())
    with pytest.raises(OptionError, match='kinds are .*instances.*for instances .png'):
        prediction.save(tmp_path / 'instances.npy', 'instances')


def test_classes_that_are_not_kept_are_not_drawn(network, training):
    with Predictor.from_checkpoint(training, classes=['person']) as predictor:
        prediction = predictor(setup.image(0))
    drawn = prediction.overlay()
    assert np.array_equal(drawn[6, 6], setup.image(0)[6, 6])
    assert not np.array_equal(drawn[24, 11], setup.image(0)[24, 11])


def test_windows_and_resizing_are_undone_before_the_maps_are_decoded(network, training):
    image = np.tile(setup.image(0), (2, 3, 1))
    with Predictor.from_checkpoint(training, window=(33, 65), window_stride=(16, 32)) as predictor:
        in_windows = predictor(image)
    with Predictor.from_checkpoint(training) as predictor:
        whole = predictor(image)
    np.testing.assert_array_equal(in_windows.instance_ids, whole.instance_ids)
    assert len(whole.instances) == 24
    with Predictor.from_checkpoint(training, scales=(0.5, 1.0), resize=ResizeOptions(65, 81)) as predictor:
        assert predictor(setup.image(0)).instance_ids.shape == setup.SIZE
    assert ((0.5, 1.0), False) in network


def test_resized_maps_have_lengths_of_the_new_size():
    maps = np.arange(4 * 5 * 6, dtype=np.float32).reshape(4, 5, 6)
    assert task_decoding.resized(maps, setup.MODEL, (4, 5)) is maps
    large = task_decoding.resized(maps, setup.MODEL, (7, 13))
    assert large.shape == (7, 13, 6)
    np.testing.assert_allclose(large[::2, ::3, :4], maps[..., :4], rtol=1e-6)
    np.testing.assert_allclose(large[::2, ::3, 4:], maps[..., 4:] * [2, 3], rtol=1e-6)
    np.testing.assert_allclose(large[1, 0, 0], (maps[0, 0, 0] + maps[1, 0, 0]) / 2)
    assert task_decoding.resized(maps[:1, :1], setup.MODEL, (2, 3)).shape == (2, 3, 6)


def test_settings_of_decoding_are_flags_of_predict(network, training, tmp_path):
    given = cli.options_of(
        'predict', ['a.png', f'--checkpoint_dir={training}', '--center_threshold=0.9', '--save=panoptic']
    )
    assert given.network['ModelOptions.center_threshold'] == 0.9
    with Predictor.of_options(str(training), given.predictor, given.network) as predictor:
        context = predictor.decoder.context
    assert (context.settings['center_threshold'], context.settings['stuff_area']) == (0.9, 4)
    with Predictor.from_checkpoint(training, stuff_area=10_000) as predictor:
        assert (predictor(setup.image(0)).class_ids[0] == 255).all()
    words = [f'--checkpoint_dir={training}', '--dataset_dir=x', '--center_threshold=0.9']
    for program, more in (('eval', '--eval_logdir=e'), ('vis', '--vis_logdir=v')):
        model = cli.options_of(program, [*words, more]).model
        assert (model.task, model.center_threshold, model.stuff_area, model.nms_kernel) == ('panoptic', 0.9, 4, 3)


def test_predict_writes_a_file_about_all_images(network, training, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for number in range(2):
        Image.fromarray(setup.image(number)).save(f'{number:012d}.png')
    options = PredictOptions(('.',), checkpoint_dir=str(training))
    result = predict.run(options)
    content = json.loads(pathlib.Path('predictions/panoptic.json').read_text())
    assert 'panoptic of all images: predictions/panoptic.json' in result.report
    assert [each['image_id'] for each in content['annotations']] == [0, 1]
    assert content['categories'][1] == {'id': 1, 'name': 'car', 'isthing': 1}
    entry = json.loads(pathlib.Path('predictions/predictions.json').read_text())['images'][0]
    assert entry['files']['instances'] == 'instances/000000000000.png'
    pathlib.Path('predictions/panoptic.json').write_text('{}')  # changed since
    with pytest.raises(OptionError, match=r'panoptic.json.* exists and was not written by predict'):
        predict.run(options)
    with pytest.raises(OptionError, match="save='masks' is not allowed: a network of task='panoptic' has no such"):
        predict.run(dataclasses.replace(options, save=('masks',), overwrite=True))


def truth_of(data, folder):
    """Writes the truth in the COCO panoptic format; returns the paths of its JSON file and of its folder."""
    folder.mkdir()
    entries = []
    for number in range(setup.IMAGES):
        class_ids, instance_ids = setup.truth(number)
        ids = coco_segments.segment_ids(class_ids, instance_ids, 255)
        name = f'image_{number}.png'
        Image.fromarray(coco_segments.as_colors(ids)).save(folder / name)
        entry = coco_segments.annotation(ids, name)
        for segment in entry['segments_info']:  # things without an instance id
            segment['iscrowd'] = int(segment['category_id'] in setup.THINGS and segment['id'] < 256)
        entries.append(entry)
    path = folder.parent / 'truth.json'
    path.write_text(json.dumps(coco_segments.document(entries, setup.CLASSES, setup.THINGS)))
    return str(path), str(folder)


def test_eval_coco_format_agrees_with_eval_on_what_vis_writes(network, data, training, tmp_path):
    options = VisOptions(setup.MODEL, data, str(training), str(tmp_path / 'vis'), wait=ONCE, batch_size=2)
    result = vis.run(options)
    assert 'panoptic.json' in result.report
    assert (tmp_path / 'vis/segmentation_results/000000_overlay.png').is_file()
    assert read(tmp_path, 'vis/instances/image_0.png').max() == 2
    figures = eval_coco_format.run(
        CocoFormatOptions(
            *truth_of(data, tmp_path / 'truth'),
            str(tmp_path / 'vis/panoptic.json'),
            str(tmp_path / 'vis/panoptic'),
            ignored_label=255,
        )
    )
    evaluation = EvalOptions(setup.MODEL, data, str(training), str(tmp_path / 'eval'), wait=ONCE)
    (evaluated,) = eval_program.run(evaluation).rounds
    expected = evaluated.further['panoptic']
    assert 0.3 < expected['pq'] < 0.9
    for name in ('pq', 'sq', 'rq'):
        assert figures.means['All'][name] == pytest.approx(expected[name], abs=1e-9)


def test_a_data_set_that_is_gone_is_not_needed(network, training, data, tmp_path):
    """The run.json of a training has what is needed of the classes."""
    classes = descriptor.load(data.name)
    gone = dataclasses.replace(data, name='gone.py')
    folder = setup.write_training(tmp_path / 'stored', gone, classes)
    with Predictor.from_checkpoint(folder) as predictor:
        assert predictor.class_names == tuple(setup.CLASSES)
        assert predictor.colors.tolist() == setup.PALETTE and len(predictor(setup.image(0)).instances) == 4
    folder = setup.write_training(tmp_path / 'unknown', gone)
    with pytest.raises(OptionError, match="task='panoptic' needs 'things', which is not stored.* Set dataset to"):
        Predictor.from_checkpoint(folder)
    with Predictor.from_checkpoint(folder, dataset=data.name) as predictor:
        assert predictor.decoder.context.things == setup.THINGS
    without = setup.write_data(tmp_path / 'records', things=None)
    with pytest.raises(OptionError, match="'things', which the description of the data set 'tiny' does not have"):
        Predictor.from_checkpoint(folder, dataset=without.name)


@pytest.mark.parametrize('content', [None, [], {}, {'colors': {'a': 'red'}}, {'colors': {'a': '#000000'}}])
def test_broken_classes_in_a_file_are_not_used(content):
    assert descriptor.of_json(content, 2) is None


def test_a_file_describes_more_classes_than_masks_can_hold():
    classes = descriptor.numbered(1001)
    stored = descriptor.of_json(json.loads(json.dumps(classes.as_json())), 1001)
    assert stored.names == classes.names and stored.palette.tolist() == classes.palette.tolist()


def test_kinds_of_a_network_without_classes():
    def kinds(options, given=None):
        return task_files.kinds(given, USUAL_SAVED, SAVED, options, 'PredictOptions.save')

    heights = Task(
        name='height',
        outputs=lambda options: [Output('height', 1)],
        losses=lambda maps, targets, context: {},
        decode=lambda maps, context: {'height': maps['height'][..., 0]},
        files={
            'text': ResultFile('.txt', lambda result, image, context: f'{result["height"].max():.0f}'),
        },
    )
    options = ModelOptions({common.OUTPUT_TYPE: 3})
    assert kinds(options) == task_files.kinds((), USUAL_SAVED, SAVED, None, '') == USUAL_SAVED
    with pytest.raises(OptionError, match="save='instances' is not allowed: a network of task='semantic'"):
        kinds(options, ('instances',))
    with changes_undone(TASKS):
        TASKS.add(heights)
        alone = dataclasses.replace(options, task='height')
        assert kinds(alone) == kinds(alone, ['text']) == ('text',)
        assert kinds(dataclasses.replace(options, task='semantic+height')) == ('mask', 'overlay', 'text')
        with pytest.raises(OptionError, match='It has probabilities, text'):
            kinds(alone, ('mask',))
        decoder = task_decoding.TaskDecoder(alone, None)
        predicted = decoder(np.full((2, 3, 1), 7, np.float32))
        assert predicted.file('text', None) == b'7' and predicted.entry('text', 'a.txt') is None
        assert predicted.overlay(None, 0.5) is None
        image, labels = np.zeros((2, 3, 3), np.uint8), np.zeros((2, 3), np.uint8)
        classes = descriptor.numbered(3)
        prediction = Prediction(image, labels, classes, np.ones(256, bool), (None, None), lambda: None, predicted)
        with pytest.raises(OptionError, match="cannot hold 'mask': kinds are probabilities, text, and"):
            prediction.save('a.png')
        assert prediction.shares == {}
    assert np.load(io.BytesIO(task_decoding.encoded(np.ones(3), '.npy'))).tolist() == [1, 1, 1]


def test_options_name_kinds_of_tasks():
    assert PredictorOptions().probabilities is False
    with pytest.raises(OptionError, match='instance'):
        PredictOptions(('a',), checkpoint_dir='x', save=('instance',))
    assert PredictOptions(('a',), checkpoint_dir='x').save is None
    with pytest.raises(OptionError, match='name some of mask.*panoptic'):
        PredictOptions(('a',), checkpoint_dir='x', save=())


def test_files_of_a_network_without_classes(monkeypatch, tmp_path):
    """There is no colored prediction of class ids that mean nothing, and no share of classes."""

    def predict_maps(images, *_, **__):
        return {'depth': tf.compat.v1.get_variable('weight', [1]) * (1 + images[..., :1])}

    monkeypatch.setattr('deeplab.model.predict_maps', predict_maps)
    monkeypatch.chdir(tmp_path)
    data = setup.write_data(tmp_path, depth_scale=0.01)
    model = ModelOptions({common.OUTPUT_TYPE: 3}, crop_size=(33, 49), task='depth')
    training = setup.write_training(tmp_path, data, descriptor.load(data.name), model)
    options = VisOptions(model, data, str(training), 'vis', wait=ONCE)
    sources = []  # those whose thresholds are used: an export has its own
    monkeypatch.setattr(network_source.NetworkSource, 'calibration', lambda source: sources.append(source.path) or {})
    result = vis.run(options)
    assert sources == [result.rounds[0].checkpoint]
    pictures = sorted(path.name for path in pathlib.Path('vis/segmentation_results').iterdir())
    assert pictures[:3] == ['000000_image.png', '000000_overlay.png', '000001_image.png']
    assert not any('prediction' in name for name in pictures) and 'prediction' not in result.report
    for changes in ({'also_save_raw_predictions': True}, {'submission': 'voc'}):
        with pytest.raises(OptionError, match=f"{next(iter(changes))}=.* which task='depth' does not predict"):
            vis.run(dataclasses.replace(options, **changes))
    Image.fromarray(setup.image(0)).save('image.png')
    report = predict.run(PredictOptions(('image.png',), checkpoint_dir=str(training))).report
    assert 'shares' not in report and report.endswith('list: predictions/predictions.json')
