"""Evaluations in parts: merged, they equal one evaluation of the split; covers evaluation/states.py."""

import dataclasses

import numpy as np
import pytest
from PIL import Image

from deeplab import common
from deeplab.core.panoptic_merge import Instance
from deeplab.datasets.descriptor import DatasetDescriptor
from deeplab.datasets.segmentation_dataset import DataSource
from deeplab.errors import DataError, OptionError
from deeplab.evaluation import evaluation_rounds, runner, scoring, split_parts, states, task_results
from deeplab.files import typed_json
from deeplab.inference.network import InferenceNetwork
from deeplab.options import ModelOptions, PredictionOptions, ResizeOptions
from deeplab.options.parts import Part
from deeplab.registry import METRICS, TASKS, MetricContext
from deeplab.registry.metrics import Metric
from tests.helpers import evaluation_setup as setup
from tests.helpers import metric_batches
from tests.helpers.registries import changes_undone

CLASSES = 4
FURTHER = ('image_iou', 'per_image', 'calibration', 'intervals', 'boundary_f', 'boundary_iou')
PARAMETERS = {name: {each.name: each.default for each in METRICS.get(name).parameters} for name in FURTHER}
DESCRIPTOR = DatasetDescriptor('toy', CLASSES, things=(2, 3), class_names=('sky', 'road', 'car', 'person'))


@pytest.fixture(scope='module')
def task(tmp_path_factory):
    """A split of five images, and a network with wrong and right predictions at a checkpoint."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        setup.use_small_network(monkeypatch)
        folder = tmp_path_factory.mktemp('parts')
        checkpoint = setup.write_checkpoint(folder, weight=0.7)
        dataset = DataSource(setup.write_data(folder / 'records')).split()
        split = runner.open_split(dataset, setup.MODEL, ResizeOptions(), True, None)
        network = InferenceNetwork(setup.MODEL, PredictionOptions(), 2, True, of_labels_only=True)
        yield checkpoint, runner.Task(network, split, ResizeOptions(), PARAMETERS)


@pytest.fixture(scope='module')
def parts(task):
    return [split_parts.evaluate(*task, Part(number, 3)) for number in (1, 2, 3)]


def without_time(evaluated):
    return dataclasses.replace(evaluated, seconds=0.0)


def changed(content, **changes):
    """A state with other facts about it."""
    return typed_json.dumps(typed_json.loads(content, split_parts._KINDS) | changes)


def compared(content, **changes):
    """A state with other facts that are compared."""
    return changed(content, compared=typed_json.loads(content, split_parts._KINDS)['compared'] | changes)


def test_merged_parts_equal_one_run(task, parts):
    whole = evaluation_rounds.evaluate(*task)
    assert 0 < whole.metrics.miou < 1 and whole.documents['per_image.csv'].count('image_') == 5
    shuffled = [parts[i] for i in (2, 0, 1)]
    assert without_time(split_parts.merged(shuffled)) == without_time(whole)
    assert split_parts.merged(shuffled).seconds > 0
    one = split_parts.evaluate(*task, Part(1, 1))
    assert without_time(split_parts.merged([one])) == without_time(whole)


def test_parts_that_are_no_whole_are_refused(task, parts):
    with pytest.raises(DataError, match='lacks part 2/3'):
        split_parts.merged([parts[0], parts[2]])
    with pytest.raises(DataError, match='part 2/3 twice'):
        split_parts.merged([*parts, parts[1]])
    with pytest.raises(DataError, match='2 and 3 parts'):
        split_parts.merged([*parts, changed(parts[0], part=Part(1, 2))])
    with pytest.raises(DataError, match='damaged .* Run that part again'):
        split_parts.merged([parts[0], parts[1], parts[2][:-40]])
    with pytest.raises(DataError, match=r'more parts than items \(5\)'):
        split_parts.evaluate(*task, Part(1, 6))


def test_parts_of_other_commands_are_refused(task, parts):
    checkpoint, whole = task
    other = setup.write_checkpoint(checkpoint + '-other', weight=0.8)
    cases = {
        'checkpoint is': split_parts.evaluate(other, whole, Part(3, 3)),
        'records is': compared(parts[2], records='others'),
        'classes.colors.car is': compared(parts[2], classes={'labels_offset': 1}),
        'metrics is null and {}': split_parts.evaluate(checkpoint, dataclasses.replace(whole, metrics={}), Part(3, 3)),
        'resize.max_value is null and 16': split_parts.evaluate(
            checkpoint, dataclasses.replace(whole, resize=ResizeOptions(min_value=8, max_value=16)), Part(3, 3)
        ),
    }
    for message, state in cases.items():
        with pytest.raises(DataError, match=f'Parts 1/3 and 3/3 .* {message}'):
            split_parts.merged([parts[0], parts[1], state])


def test_a_metric_without_state_is_refused(task):
    class Silent:
        update = merge = result = None

    with changes_undone(METRICS):
        METRICS.add(Metric(name='silent', summary='', create=lambda context: Silent()))
        scores = scoring.Scores(DESCRIPTOR, {'silent': {}})
        with pytest.raises(OptionError, match="'silent' cannot be evaluated in parts"):
            for name, each in scores.accumulators.items():
                states.state_of(each, name)


# --- Each metric and task --------------------------------------------------------------------------------------------


def random_image(number, **settings):
    """A sample and a result for the tasks, of a random size."""
    rng = np.random.default_rng(number)
    size = tuple(rng.integers(20, 40, 2))
    truth = metric_batches.blocks(rng, CLASSES, size, block=8)
    guess = np.roll(truth, 1, axis=1) * (truth < CLASSES) % CLASSES
    instances = np.where(guess > 1, 1 + np.arange(size[1]) // 16, 0)
    pairs = {(int(c), int(i)) for c, i in zip(guess[instances > 0], instances[instances > 0], strict=True)}
    scores = rng.random(CLASSES).astype(np.float32)
    sample = {
        common.LABEL: truth[..., None],
        common.INSTANCE: np.where(np.isin(truth, (2, 3)), 1 + np.arange(size[1]) // 12, 0)[..., None],
        common.DEPTH: rng.uniform(0.5, 9, (*size, 1)).astype(np.float32),
        common.MULTILABEL: rng.integers(0, 2, (*size, CLASSES)),
        common.CLASS_LABEL: rng.integers(0, CLASSES, 1),
    }
    result = {
        'class_ids': guess,
        'instance_ids': instances,
        'instances': [Instance(c, i, (0, 0), 1, float(rng.integers(1, 4)) / 4) for c, i in sorted(pairs)],
        'depth': rng.uniform(0.5, 9, size).astype(np.float32),
        'probabilities': rng.random((*size, CLASSES)).astype(np.float32),
        'class_probabilities': scores,
        'top': np.argsort(-scores),
    }
    return sample, result


def figures_of(accumulator):
    """All figures as numbers, NaN for None, and the documents."""
    numbers = list(accumulator.result().values())
    for values in getattr(accumulator, 'class_figures', dict)().values():
        numbers += values
    return np.array(numbers, float), getattr(accumulator, 'documents', dict)()


def check_parts(create, add, images=5):
    """Compares merged states of parts of two, of no and of three images with one accumulator of all images."""
    whole, merged = create(), create()
    for number in range(images):
        add(whole, number)
    for numbers in (range(2), (), range(2, images)):
        part, restored = create(), create()
        for number in numbers:
            add(part, number)
        states.restore(restored, typed_json.loads(typed_json.dumps(states.state_of(part, 'x'))))
        merged.merge(restored)
    (expected, documents), (numbers, texts) = figures_of(whole), figures_of(merged)
    assert np.isfinite(expected).any() or documents
    np.testing.assert_allclose(numbers, expected, rtol=1e-12, atol=0)
    assert texts == documents
    if hasattr(whole, 'calibration'):
        assert merged.calibration() == whole.calibration()


NAMES = [task.name for task in TASKS.records() if task.metric is not None]


@pytest.mark.parametrize(('name', 'several'), [*((name, False) for name in NAMES), ('classification', True)])
def test_each_task(name, several):
    model = ModelOptions({common.OUTPUT_TYPE: CLASSES}, task=name, settings={'several_labels': True} if several else {})
    context = task_results.task_data.context_of(DESCRIPTOR, model)

    def add(accumulator, number):
        sample, result = random_image(number)
        if name == 'edges':
            result['probabilities'] = result['probabilities'][..., 0]
        accumulator.update(sample, result)

    check_parts(lambda: TASKS.get(name).metric(context), add)


@pytest.mark.parametrize('name', METRICS.names())
def test_each_metric(name, tmp_path):
    names = ('person', 'rider', 'car', 'bus')
    context = MetricContext(CLASSES, 255, names, ('human', 'human', 'vehicle', 'vehicle'))
    sizes = [(12, 15), (9, 8), (16, 16), (5, 7), (11, 13)]
    labels, predictions, inputs = metric_batches.batch(np.random.default_rng(0), CLASSES, sizes, (17, 17))
    for image, (height, width), ids in zip(inputs['names'], sizes, labels, strict=True):
        instances = np.where(ids < CLASSES, 1000 * ids + 1, 0)[:height, :width].astype(np.uint16)
        Image.fromarray(instances).save(tmp_path / f'{image}_instanceIds.png')
    values = {'instance_dir': str(tmp_path)} if name == 'instance_iou' else {}
    check_parts(
        lambda: metric_batches.create(name, context, **values),
        lambda metric, i: metric_batches.update(metric, name, labels, predictions, inputs, slice(i, i + 1)),
    )


def test_setups_are_equal_after_a_file():
    """What accumulators of tasks are created from, with palette and tuples."""
    model = ModelOptions({common.OUTPUT_TYPE: CLASSES}, task='panoptic+edges')
    setup_of = scoring.Scores(DESCRIPTOR, PARAMETERS, model, {'edges': {'threshold': 0.25}}).setup
    read = typed_json.loads(typed_json.dumps(setup_of), split_parts._KINDS)
    np.testing.assert_array_equal(read.of_tasks.palette, setup_of.of_tasks.palette)
    without = [each._replace(of_tasks=each.of_tasks._replace(palette=None)) for each in (read, setup_of)]
    assert without[0] == without[1]
    assert read.accumulators().keys() == {'confusion_matrix', *FURTHER, 'panoptic', 'edges'}
