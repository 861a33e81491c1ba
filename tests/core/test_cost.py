"""Parameters and multiply-adds: layers counted by hand, the goldens' parameters, the published figures."""

import json
import pathlib

import numpy as np
import pytest
import tensorflow as tf

from deeplab import cli, model
from deeplab.core import cost, layers
from deeplab.errors import OptionError
from deeplab.programs import networks, presets
from tests.parity import network_options

GOLDENS = pathlib.Path(__file__).parent.parent / 'goldens' / 'networks'
BIG = ('xception', 'resnet_v1_101', 'nas')
# Counts published for an input of 513x513, though the mean IoU beside them is for the whole image.
SMALL_INPUT = ('edgetpu_deeplab', 'edgetpu_deeplab_slim')
# Published as operations: see `test_figures_of_mobilenet_v3_count_operations`.
OPERATIONS = ('mobilenetv3_large_cityscapes_trainfine', 'mobilenetv3_small_cityscapes_trainfine')


def _mark(name, value):
    marks = pytest.mark.slow if name.startswith(BIG) else ()
    # The network of xception65_coco_voc_trainaug, for larger images.
    marks = pytest.mark.long if name == 'xception65_cityscapes_trainfine' else marks
    return pytest.param(*value, marks=marks, id=f'{name}-{value[-1]}')


def _abstract(*build, shape=(1, 9, 7, 4)):
    with cost.abstract_graph() as abstract:
        net = tf.zeros(shape)
        for layer in build:
            net = layer(net)
    return abstract


# --- By hand ---------------------------------------------------------------------------------------------------------


def test_convolution():
    abstract = _abstract(lambda net: layers.conv2d(net, 6, 3, stride=2, normalize=False, scope='a'))
    assert abstract.cost() == cost.Cost(3 * 3 * 4 * 6 + 6, 3 * 3 * 4 * 6 + 6, 5 * 4 * 6 * 3 * 3 * 4)
    assert abstract.shapes['a/weights'] == (3, 3, 4, 6)


def test_depthwise_convolution_with_batch_norm():
    abstract = _abstract(lambda net: layers.depthwise_conv2d(net, 5, scope='a'))
    assert abstract.cost() == cost.Cost(5 * 5 * 4 + 2 * 4, 5 * 5 * 4 + 4 * 4, 9 * 7 * 4 * 5 * 5)


@pytest.mark.parametrize('native', [False, True])
@pytest.mark.parametrize('rate', [2, 5])
def test_an_atrous_convolution_costs_what_a_dense_one_costs(rate, native):
    """Padding to whole blocks is not counted, in either form."""
    made = [
        lambda net: layers.depthwise_conv2d(net, 3, rate=rate, native_dilation=native, scope='a'),
        lambda net: layers.conv2d(net, 6, 3, rate=rate, native_dilation=native, scope='b'),
    ]
    assert _abstract(*made).cost().multiply_adds == 9 * 7 * 4 * 9 + 9 * 7 * 6 * 9 * 4


@pytest.mark.parametrize('transposed', [False, True])
def test_matrix_products(transposed):
    with tf.Graph().as_default() as graph:
        left = tf.zeros([5, 3] if transposed else [3, 5])
        tf.matmul(left, tf.zeros([5, 7]), transpose_a=transposed)
        tf.matmul(tf.zeros([2, 5, 3] if transposed else [2, 3, 5]), tf.zeros([2, 5, 7]), adjoint_a=transposed)
    assert cost.multiply_adds(graph) == 3 * 5 * 7 + 2 * 3 * 5 * 7


def test_variables_are_shared_by_name():
    abstract = _abstract(
        lambda net: layers.conv2d(net, 4, 1, scope='a'), lambda net: layers.conv2d(net, 4, 1, scope='a')
    )
    assert abstract.cost() == cost.Cost(4 * 4 + 8, 4 * 4 + 16, 2 * 9 * 7 * 4 * 4)


def test_an_abstract_graph_has_no_variables_of_tensorflow():
    abstract = _abstract(lambda net: layers.conv2d(net, 4, 1, scope='a'))
    assert not abstract.graph.get_collection(tf.compat.v1.GraphKeys.GLOBAL_VARIABLES)


def test_unknown_size():
    with cost.abstract_graph() as abstract:
        layers.conv2d(tf.compat.v1.placeholder(tf.float32, [1, None, 7, 4]), 6, 3, scope='a')
    with pytest.raises(OptionError, match=r"The cost of 'a/Conv2D' cannot be counted: its shape \(1, None, 7, 6\) is"):
        abstract.cost()


# --- Against the original --------------------------------------------------------------------------------------------


# Variables of each kind; parity/test_networks.py has the variables of all networks.
@pytest.mark.parametrize('name', ['mobilenet_v2_aspp_decoder', 'mobilenet_v3_small_seg', 'resnet_v1_18'])
def test_parameters_are_the_goldens(name):
    facts = json.loads((GOLDENS / f'{name}.json').read_text())
    found = networks.cost_of(network_options.model_options(facts['flags'], facts['options']))
    assert found.parameters == facts['parameters']
    stored = dict(facts['variables'])
    assert found.stored == sum(int(np.prod(shape)) for shape in stored.values())


def _published_cases():
    for preset in presets.all_presets().values():
        for row in preset.published:
            if row.scales == (1.0,) and row.multiply_adds is not None and preset.name not in OPERATIONS:
                yield _mark(preset.name, (preset.name, row.multiply_adds, row.output_stride))


def _network(name, *words):
    return cli.options_of('networks', [f'--preset={name}', *words]).model


@pytest.mark.parametrize(('name', 'published', 'output_stride'), list(_published_cases()))
def test_multiply_adds_are_the_published(name, published, output_stride):
    crop = ['--crop_size=513,513'] if name in SMALL_INPUT else []
    found = networks.cost_of(_network(name, f'--output_stride={output_stride}', *crop))
    assert found.multiply_adds / 1e9 == pytest.approx(published, rel=0.05)


@pytest.mark.parametrize(
    'name',
    [
        pytest.param('mobilenetv2_coco_voc_trainaug', marks=pytest.mark.slow),
        pytest.param('mobilenetv2_coco_cityscapes_trainfine', marks=pytest.mark.long),
    ],
)
def test_multiply_adds_of_scales_and_flips_are_the_published(name):
    row = next(row for row in presets.get(name).published if row.flips)
    words = [f'--preset={name}', f'--output_stride={row.output_stride}', '--add_flipped_images']
    found = cli.options_of('networks', [*words, *(f'--eval_scales={scale}' for scale in row.scales)])
    counted = networks.cost_of(found.model, found.prediction).multiply_adds
    assert counted / 1e9 == pytest.approx(row.multiply_adds, rel=0.05)


@pytest.mark.parametrize('name', OPERATIONS)
def test_figures_of_mobilenet_v3_count_operations(name):
    """Multiplications and additions counted separately, with element-wise operations and resizing of the logits."""
    preset = presets.get(name)
    (row,) = preset.published
    options = _network(name)
    multiply_adds = networks.cost_of(options).multiply_adds
    assert multiply_adds / 1e9 < 0.55 * row.multiply_adds
    assert _operations(options) / 1e9 == pytest.approx(row.multiply_adds, rel=0.05)


BILINEAR = 9  # operations for each value: three interpolations, each a difference, a product and a sum


def _operations(options):
    """Operations of the prediction, softmax included, as TensorFlow's profiler counts them, and those of resizing."""
    with cost.abstract_graph() as abstract:
        model.predict_labels(tf.zeros([1, *options.crop_size, 3]), options)
    builder = tf.compat.v1.profiler.ProfileOptionBuilder
    chosen = builder(builder.float_operation()).with_empty_output().build()
    counted = tf.compat.v1.profiler.profile(abstract.graph, options=chosen).total_float_ops
    resized = [op for op in abstract.graph.get_operations() if op.type == 'ResizeBilinear']
    return counted + BILINEAR * sum(op.outputs[0].shape.num_elements() for op in resized)


def test_scales_and_flips_add_up():
    single = networks.cost_of(_network('mobilenetv2_dm05_coco_voc_trainaug', '--crop_size=65,65'))
    found = cli.options_of(
        'networks',
        [
            '--preset=mobilenetv2_dm05_coco_voc_trainaug',
            '--crop_size=65,65',
            '--eval_scales=1',
            '--eval_scales=1',
            '--add_flipped_images',
        ],
    )
    both = networks.cost_of(found.model, found.prediction)
    assert both == (single.parameters, single.stored, 4 * single.multiply_adds)
