"""docs/depth_plugin.md: the template of a task gives the losses and figures of the task `depth`."""

import contextlib
import pathlib
import re

import numpy as np
import pytest
import tensorflow as tf

from deeplab import common
from deeplab.datasets import planes
from deeplab.evaluation import states
from deeplab.files import typed_json, user_modules
from deeplab.options import ModelOptions
from deeplab.registry import REGISTRIES, TASKS, TaskContext
from tests.helpers.registries import changes_undone

PAGE = (pathlib.Path(__file__).parent.parent / 'docs' / 'depth_plugin.md').read_text(encoding='utf-8')
LONGEST = 80  # lines
RANDOM = np.random.default_rng(0)
TRUTH = np.where(RANDOM.random((3, 9, 7, 1)) < 0.3, 0.0, RANDOM.uniform(0.5, 20.0, (3, 9, 7, 1))).astype(np.float32)
TRUTH[2] = 0.0  # an image without a valid pixel
LOGARITHMS = RANDOM.normal(1.0, 1.0, TRUTH.shape).astype(np.float32)


@pytest.fixture(scope='module')
def both(tmp_path_factory):
    """The template and the task of the package."""
    path = tmp_path_factory.mktemp('plugin') / 'my_depth.py'
    (text,) = re.findall(r'```python\n(.*?)```', PAGE, re.DOTALL)
    assert len(text.splitlines()) <= LONGEST
    path.write_text(text)
    with contextlib.ExitStack() as undone:
        for registry in REGISTRIES.values():
            undone.enter_context(changes_undone(registry))
        user_modules.run_file(path, 'plugin')
        yield TASKS.get('my_depth'), TASKS.get('depth')


def context_of(task, **settings):
    defaults = {parameter.name: parameter.default for parameter in task.parameters}
    return TaskContext(1, settings=defaults | settings)


@pytest.mark.parametrize('share', [0.0, 0.5, 0.85])
def test_losses_and_their_gradients_are_equal(both, share):
    values = []
    for task, prefix in zip(both, ('my_', ''), strict=True):
        context = context_of(task, **{f'{prefix}silog_lambda': share})
        logarithms = tf.constant(LOGARITHMS)
        with tf.GradientTape() as tape:
            tape.watch(logarithms)
            targets = task.targets({common.DEPTH: tf.constant(TRUTH)}, context)
            (term,) = task.losses({f'{prefix}depth': logarithms}, targets, context).values()
            loss = term.value * term.weight
        values.append((loss.numpy(), tape.gradient(loss, logarithms).numpy()))
    for ours, theirs in zip(*values, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-7)


def test_results_and_figures_are_equal(both):
    figures = []
    for task, prefix in zip(both, ('my_', ''), strict=True):
        context = context_of(task)
        (output,) = task.outputs(ModelOptions({common.OUTPUT_TYPE: 1}, task=task.name))
        maps = output.activation(tf.constant(LOGARITHMS)).numpy()
        metrics = [task.metric(context) for _ in range(2)]
        for i, truth in enumerate(TRUTH):
            result = task.decode({f'{prefix}depth': maps[i]}, context)
            metrics[i % 2].update({common.DEPTH: truth}, result)
            assert task.overlay(result, None, context).shape == (9, 7, 3)
        restored = task.metric(context)  # as an evaluation in parts does
        states.restore(restored, typed_json.loads(typed_json.dumps(states.state_of(metrics[1], task.name))))
        metrics[0].merge(restored)
        figures.append(metrics[0].result())
    ours, theirs = figures
    assert ours == pytest.approx({name: theirs[name] for name in ours}, rel=1e-5)
    assert both[0].metric(None).result() == {'abs_rel': None, 'rmse': None, 'delta1': None}


def test_both_need_the_same_and_predict_the_same(both):
    ours, theirs = both
    assert ours.planes == theirs.planes == (planes.DEPTH,)
    assert (ours.needs_labels, ours.headline, ours.upsamples) == (
        theirs.needs_labels,
        theirs.headline,
        theirs.upsamples,
    )
    result = {'depth': np.array([[1.0, 2.0]], np.float32)}
    assert ours.files['depth_values'].content(result, None, None) is result['depth']
    assert ours.overlay(result, None, None)[0, :, 0].tolist() == [255, 127]
