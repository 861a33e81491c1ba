"""Mixed precision: every network builds and trains in 16 bits, and float32 graphs are unchanged.

Covers core/compute_types.py.
"""

import dataclasses
import pathlib

import numpy as np
import pytest
import tensorflow as tf

from deeplab import model, train
from deeplab.core import (
    compute_types,
    dropout,
    initializers,
    layers,
    loss_scaling,
    moving_updates,
    scale_losses,
    sessions,
)
from deeplab.errors import NonFiniteError
from deeplab.options import AsppOptions, DecoderOptions, LossOptions, ModelOptions
from deeplab.registry import BACKBONES
from deeplab.training import train_loop
from tests.helpers import computed_losses, given_weights, training_setup
from tests.helpers.checkpoint_files import values_of

CELL = 'deeplab/core/dense_prediction_cell_branch5_top1_cityscapes.json'
SHORT = ('bfloat16', 'float16')
SIZE = (33, 33)
# The unit roundoff of each type, times what a network of many layers adds up.
TOLERANCE = {'bfloat16': 0.1, 'float16': 0.02}

_SMALL = ModelOptions({'semantic': 3}, crop_size=SIZE, model_variant='toy', aspp=AsppOptions(filters=8))

pytestmark = [pytest.mark.rewritten, pytest.mark.usefixtures('toy_network')]


def _with(**changes):
    return dataclasses.replace(_SMALL, **changes)


def _all_networks():
    """Every option of heads and decoder on a toy backbone, and every kind of backbone."""
    gated = AsppOptions(filters=8, with_squeeze_and_excitation=True)
    quick = {
        'gates and sums': _with(
            aspp=gated,
            decoder=DecoderOptions((4,), 3, use_sum_merge=True, output_is_logits=True),
        ),
        'no head': _with(aspp=AsppOptions(rates=(1, 2), with_batch_norm=False), image_pyramid=(0.5, 1.0)),
    }
    slow = {
        'aspp and decoder': _with(aspp=AsppOptions(rates=(1, 2), filters=8), decoder=DecoderOptions((4,), 8)),
        'searched head': _with(dense_prediction_cell_json=CELL),
    }
    # The others have the operations of one of those; Xception those of mobilenet_v2 and resnet_v1_18.
    kinds = {'mobilenet_v2', 'mobilenet_v3_small_seg', 'mobilenet_edgetpu', 'resnet_v1_18', 'nas_pnasnet'}
    long = {}
    for name in sorted(BACKBONES.names()):
        strides = BACKBONES.get(name).output_strides
        stride = 16 if 16 in strides else max(strides)
        (slow if name in kinds else long)[name] = _with(model_variant=name, output_stride=stride)
    return [
        pytest.param(options, id=name, marks=marks)
        for marks, networks in (((), quick), (pytest.mark.slow, slow), (pytest.mark.long, long))
        for name, options in networks.items()
    ]


def _losses_and_gradients(options, fine_tune_batch_norm=True):
    """By precision the loss and its gradients by name, at the first weights, scaled as training scales them."""
    rng = np.random.RandomState(0)
    images = rng.uniform(0, 255, [2, *SIZE, 3]).astype(np.float32)
    wanted = {}
    with given_weights.network() as network:
        tf.compat.v1.set_random_seed(0)
        for precision in ('float32', *SHORT):
            mode = model.Mode(True, fine_tune_batch_norm, 1e-4, compute_type=tf.as_dtype(precision))
            scales = model.multi_scale_logits(tf.constant(images), options, options.image_pyramid, mode)
            logits = scales['semantic']['merged_logits']
            labels = tf.constant(np.random.RandomState(1).randint(0, 3, [2, *logits.shape[1:3]]), tf.int32)
            loss = scale_losses.mean_of_counted(computed_losses.softmax(logits, labels, 255))
            weights = {name: network.weights[name] for name in network.trained}
            gradients = tf.gradients(loss, list(weights.values()), [tf.constant(1024.0)])
            everything = [loss, logits, *gradients, *network.weights.values()]
            everything += [update.batch_value for update in moving_updates.registered()]
            assert {tensor.dtype.base_dtype for tensor in everything} == {tf.float32}
            wanted[precision] = (loss, dict(zip(weights, gradients, strict=True)))
        first = network.run({name: network.initializers[name](shape) for name, shape in network.shapes.items()})
        return network.run(wanted, values=lambda name, shape: first[name])


@pytest.mark.parametrize('options', _all_networks())
def test_every_network_has_its_loss_and_gradients(options):
    found = _losses_and_gradients(options)
    exact, exact_gradients = found['float32']
    # Far from the loss, rounding adds up; near it, the gradient has to be the same.
    near = next(name for name in exact_gradients if name.startswith(('logits', 'decoder')) and name.endswith('biases'))
    for precision in SHORT:
        loss, gradients = found[precision]
        assert loss == pytest.approx(exact, rel=TOLERANCE[precision]), precision
        assert loss != exact, precision
        assert [name for name, gradient in gradients.items() if not np.isfinite(gradient).all()] == [], precision
        length = np.linalg.norm(exact_gradients[near])
        assert np.linalg.norm(gradients[near] - exact_gradients[near]) <= 0.4 * length, precision
        if options.model_variant == 'toy':  # rounded features turn the gradient of the weights, but keep its length
            weights = near.replace('biases', 'weights')
            length = np.linalg.norm(exact_gradients[weights])
            assert np.linalg.norm(gradients[weights]) == pytest.approx(length, rel=0.4), precision


def test_frozen_batch_norms():
    found = _losses_and_gradients(_SMALL, fine_tune_batch_norm=False)
    for precision in SHORT:
        loss, gradients = found[precision]
        assert loss == pytest.approx(found['float32'][0], rel=TOLERANCE[precision])
        assert all(np.isfinite(gradient).all() for gradient in gradients.values())


@pytest.mark.parametrize('precision', SHORT)
def test_layers_compute_in_the_type_of_their_input(precision):
    wanted = tf.as_dtype(precision)
    with tf.Graph().as_default():
        tf.compat.v1.train.get_or_create_global_step()
        with layers.mode_scope(is_training=True, fine_tune_batch_norm=True, compute_type=wanted):
            net = compute_types.as_compute_type(tf.zeros([2, 9, 9, 4]))
            for layer in (
                lambda net: layers.conv2d(net, 12, 1, scope='widening'),
                lambda net: layers.conv2d(net, 4, 3, rate=2, scope='atrous'),
                lambda net: layers.separable_conv2d(net, 4, 3, scope='separable'),
                lambda net: layers.conv2d(net, 4, 1, normalize=False, scope='biased'),
                lambda net: dropout.dropout(net, 0.9, scope='dropout'),
                lambda net: dropout.drop_path(net, tf.constant(0.5), scope='drop_path'),
            ):
                net = layer(net)
                assert net.dtype == wanted
        assert {v.dtype.base_dtype for v in tf.compat.v1.model_variables()} == {tf.float32}
        # A batch norm's statistics must not come from short products (as `batch_statistics` would make them).
        kinds = {op.type for op in tf.compat.v1.get_default_graph().get_operations()}
        assert 'MatMul' not in kinds


def test_float32_has_no_operation_more():
    with tf.Graph().as_default() as graph:
        before = len(graph.get_operations())
        values = tf.zeros([1])
        assert compute_types.as_compute_type(values) is values
        assert compute_types.as_type(values, tf.float32) is values
        assert len(graph.get_operations()) == before + 1
    with tf.Graph().as_default() as graph:
        model.multi_scale_logits(tf.zeros([1, *SIZE, 3]), _SMALL, mode=model.Mode(True, fine_tune_batch_norm=True))
        types = {tensor.dtype for op in graph.get_operations() for tensor in op.outputs}
        assert not {tf.float16, tf.bfloat16} & types
        # One for the images themselves, one for the resized image feature and one for the resized logits at most.
        assert all(op.inputs[0].dtype != tf.float32 for op in graph.get_operations() if op.type == 'Cast')


def test_every_precision_drops_the_same_values():
    kept = []
    for name in ('float32', *SHORT):
        with tf.Graph().as_default(), sessions.open_session() as running:
            ones = tf.ones([64, 64], tf.as_dtype(name))
            kept.append(running.run(dropout.dropout(ones, 0.9, scope='here', is_training=True)) != 0)
    np.testing.assert_array_equal(kept[0], kept[1])
    np.testing.assert_array_equal(kept[0], kept[2])
    assert 0.85 < kept[0].mean() < 0.95


@pytest.fixture
def tiny(tiny_network, tmp_path):
    data = training_setup.write_data(tmp_path / 'records')

    def run(name, steps=3, **changes):
        return train.run(training_setup.options(data, tmp_path / name, steps, **changes))

    run.as_before = lambda name: training_setup.trained(data, tmp_path / name, 3)
    return run


class TestTraining:
    @pytest.mark.parametrize('precision', SHORT)
    def test_it_trains_like_float32_and_its_checkpoint_is_float32(self, tiny, precision):
        exact, short = tiny.as_before('a'), tiny('b', precision=precision)
        assert short.loss == pytest.approx(exact.loss, rel=TOLERANCE[precision])
        expected, values = values_of(exact.checkpoint), values_of(short.checkpoint)
        added = {'loss_scale/factor', 'loss_scale/good_steps'} if precision == 'float16' else set()
        assert values.keys() - expected.keys() == added
        assert expected.keys() <= values.keys()
        first = values_of(pathlib.Path(exact.checkpoint).parent / 'model.ckpt-0')
        for name, value in expected.items():
            assert values[name].dtype == value.dtype, name
            movement = np.linalg.norm(value - first[name])
            assert np.linalg.norm(values[name] - value) <= 0.2 * movement, name
        assert (values['logits/semantic/weights'] != expected['logits/semantic/weights']).any()

    @pytest.mark.slow
    def test_overflow_leaves_steps_out_until_the_scale_fits(self, tiny, monkeypatch, tmp_path, caplog):
        """A step that is left out changes no weight, and a resume from it is exact."""
        monkeypatch.setattr(loss_scaling, 'FIRST_FACTOR', 2.0**24)
        rate = training_setup.RATE.learning_rate.changed(decay_steps=30)
        changes = {'precision': 'float16', 'optimizer': dataclasses.replace(training_setup.RATE, learning_rate=rate)}
        with caplog.at_level('INFO'):
            result = tiny('log', 30, **changes)
        left_out = [r.getMessage() for r in caplog.records if 'Skipped step' in r.getMessage()]
        assert left_out[0] == 'Skipped step 1: float16 overflowed at loss scale 1.67772e+07, which is halved.'
        values = values_of(result.checkpoint)
        assert values['global_step'] == 30
        assert values['loss_scale/factor'] == 2.0 ** (24 - len(left_out))
        assert values['loss_scale/good_steps'] > 0
        assert all(np.isfinite(value).all() for value in values.values())
        after = values_of(tiny('resumed', 1, **changes).checkpoint)
        before = values_of(tmp_path / 'resumed' / 'model.ckpt-0')
        different = {name for name, value in after.items() if (value != before[name]).any()}
        assert different == {'global_step', 'loss_scale/factor'}
        resumed = values_of(tiny('resumed', 30, **changes).checkpoint)
        for name, value in values.items():
            assert resumed[name].tobytes() == value.tobytes(), name

    def test_overflow_at_scale_one_is_an_error(self, tiny, monkeypatch):
        monkeypatch.setattr(loss_scaling, 'FIRST_FACTOR', 1.0)
        monkeypatch.setattr(initializers, 'ones', lambda shape, seed: tf.ones(shape) * 1e6)  # a gamma beyond float16
        with pytest.raises(NonFiniteError, match="Step 1: the loss is .* precision='bfloat16'"):
            tiny('log', precision='float16')

    def test_a_loss_that_is_not_finite_is_an_error_at_any_scale(self, tiny, monkeypatch):
        monkeypatch.setattr(initializers, 'ones', lambda shape, seed: tf.ones(shape) * 1e6)  # a gamma beyond float16
        with pytest.raises(NonFiniteError) as error:
            tiny('log', precision='float16')
        message = str(error.value)
        assert message.startswith('Step 1: the loss is nan')
        assert 'for the images image_' in message
        assert 'Gradients by layer: ' in message

    @pytest.mark.slow
    def test_a_loss_that_is_not_finite_is_skipped_at_any_scale(self, tiny, monkeypatch, caplog):
        """One micro-batch of one clone is enough; the loss scale stays."""
        mean = scale_losses.mean_of_counted
        number = iter(range(2))

        def spoiled(pixels):
            micro_batch = tf.compat.v1.get_collection('micro_batches')[0].number
            is_first = tf.equal(tf.compat.v1.train.get_global_step(), 0) & tf.equal(micro_batch, 0)
            bad = np.float32(0 if next(number) else np.nan)
            return mean(pixels) + tf.where(is_first, bad, 0)

        monkeypatch.setattr(scale_losses, 'mean_of_counted', spoiled)
        parts = {'clones': training_setup.two_clones(), 'batch_size': 4, 'accumulation_steps': 2}
        result = tiny('log', 2, precision='float16', on_nan='skip', **parts)
        assert "Its batch is skipped (on_nan='skip'): 1 so far, 1 in a row." in caplog.text
        assert 'overflowed' not in caplog.text
        values = values_of(result.checkpoint)
        assert [values[f'loss_scale/{name}'] for name in ('factor', 'good_steps')] == [2.0**15, 1]
        assert values['global_step'] == 2

    @pytest.mark.slow
    def test_a_run_may_go_on_in_another_precision(self, tiny):
        tiny.as_before('log')
        tiny('log', 4, precision='float16')
        assert tiny('log', 5, precision='bfloat16').step == 5


class TestXla:
    def test_the_network_is_compiled_and_nothing_else(self, tiny, monkeypatch):
        graphs = []
        monkeypatch.setattr(train_loop, 'train', lambda step, *rest, **more: graphs.append(step.loss.graph) or _NOTHING)
        tiny('log', xla=True)
        named = {op.name for op in graphs[0].get_operations() if '_XlaCompile' in op.node_def.attr}
        assert {'tiny/conv1/Conv2D', 'logits/semantic/Conv2D'} <= named
        assert any('tiny/conv1/Conv2D_grad/' in name for name in named)
        for word in ('Iterator', 'queue', 'Momentum', 'save'):
            assert not any(word in name for name in named), word

    @pytest.mark.parametrize(
        'precision',
        [pytest.param('float32', marks=pytest.mark.slow), pytest.param('bfloat16', marks=pytest.mark.long)],
    )
    def test_it_computes_the_same(self, tiny, monkeypatch, precision):
        """Without dropout, whose random numbers are XLA's own; with every option of the loss."""
        monkeypatch.setattr(tf.nn.experimental, 'stateless_dropout', lambda inputs, **keywords: inputs)
        loss = LossOptions(label_weights=(1.0, 2.0, 0.5), top_k_percent_pixels=0.5, hard_example_mining_step=2)
        plain = tiny('a', loss=loss, precision=precision)
        compiled = tiny('b', loss=loss, precision=precision, xla=True)
        assert compiled.loss == pytest.approx(plain.loss, rel=1e-5 if precision == 'float32' else 1e-2)


_NOTHING = train_loop.TrainResult(0, None, 0.0, None)
