"""Identification of the network of a checkpoint, from the goldens' names and shapes, and its description."""

import dataclasses
import json
import pathlib

import numpy as np
import pytest

from deeplab import cli, wording
from deeplab.checks import checkpoint_network
from deeplab.errors import NetworkMismatchError
from deeplab.options import AsppOptions, DecoderOptions, ModelOptions, NasOptions
from tests.helpers import checkpoint_files
from tests.parity import network_options

GOLDENS = pathlib.Path(__file__).parent.parent / 'goldens' / 'networks'
BIG = ('xception', 'resnet_v1_101', 'nas')
# Pictures of one network at several scales have its variables.
SAME = ('mobilenet_v2_image_pyramid_max', 'mobilenet_v2_multi_scale_flip')
# Others are told from the variables of the same backbones.
SLOW = ('nas_hnasnet', 'resnet_v1_101_beta_os8', 'xception_71_dpc')


def _marks(name):
    return pytest.mark.slow if name in SLOW else pytest.mark.long if name.startswith(BIG) else ()


CASES = [
    pytest.param(path, id=path.stem, marks=_marks(path.stem))
    for path in sorted(GOLDENS.glob('*.json'))
    if path.stem not in SAME
]


@pytest.fixture(autouse=True)
def networks_once(monkeypatch):
    checkpoint_files.remember_networks(monkeypatch)


@pytest.mark.parametrize('path', CASES)
def test_goldens_are_told_from_their_variables(path):
    facts = json.loads(path.read_text())
    network = network_options.model_options(facts['flags'], facts['options'])
    held = {name: tuple(shape) for name, shape in facts['variables']}
    deduced = checkpoint_network.deduce(held)
    assert checkpoint_network.visible(deduced.options) == checkpoint_network.visible(network)
    assert (set(deduced.fit.equal), *deduced.fit[1:]) == (set(held), (), (), ())
    assert deduced.branches == len(network.aspp.rates)
    assert deduced.outputs == dict(network.outputs_to_num_classes)
    # The words say the same network.
    words = [*checkpoint_network.flags_of(deduced.options), f'--num_classes={network.num_classes}']
    made = cli.options_of('networks', words).model
    assert checkpoint_network.visible(made) == checkpoint_network.visible(network)


def _network(**options):
    return ModelOptions({'semantic': 5}, model_variant='mobilenet_v2', **options)


@pytest.mark.parametrize(
    'network',
    [
        _network(depth_multiplier=0.35),
        _network(depth_multiplier=1.4, divisible_by=8),
        _network(decoder=DecoderOptions((8, 4), use_separable_conv=False)),
        _network(decoder=DecoderOptions((4,), 32, use_sum_merge=True), aspp=AsppOptions((6,), 64)),
        _network(aspp=AsppOptions((6, 12), with_batch_norm=False), logits_kernel_size=3),
        _network(aspp=AsppOptions((6, 12), with_separable_conv=False, image_level_feature=False)),
        ModelOptions({'edges': 2, 'semantic': 5}, aspp=AsppOptions(with_concat_projection=False)),
    ],
    ids=lambda network: ' '.join(checkpoint_network.flags_of(network)[1:]),
)
def test_flags_that_show(network):
    deduced = checkpoint_network.deduce(checkpoint_network.network_shapes(network))
    assert checkpoint_network.visible(deduced.options) == checkpoint_network.visible(network)
    assert deduced.fit.is_complete
    assert not deduced.fit.unused


def test_the_width_of_a_searched_network():
    """Its stem is unchanged; the cells are as wide as --nas_stem_output_num_conv_filters times a power of 2."""
    options = ModelOptions({'semantic': 5}, model_variant='nas_pnasnet', output_stride=8)
    shapes = {'pnasnet/conv0/weights': (3, 3, 3, 64), 'pnasnet/conv2/weights': (3, 3, 64, 128)}
    shapes |= {f'pnasnet/cell_{i}/1x1/weights': (1, 1, 128, 40) for i in range(2)}
    held = {name: (*shape[:-1], 24) if 'cell' in name else shape for name, shape in shapes.items()}
    candidate = checkpoint_network._Backbone(options, shapes, {})
    (found,) = checkpoint_network._widths(candidate, held)
    assert found.nas.stem_output_filters == 12
    assert checkpoint_network.flags_of(found) == [
        '--model_variant=nas_pnasnet',
        '--output_stride=8',
        '--nas_stem_output_num_conv_filters=12',
    ]


@pytest.mark.slow
def test_a_searched_network_of_another_width_and_stride():
    network = ModelOptions(
        {'semantic': 5}, model_variant='nas_pnasnet', output_stride=8, nas=NasOptions(stem_output_filters=12)
    )
    deduced = checkpoint_network.deduce(checkpoint_network.network_shapes(network))
    assert checkpoint_network.visible(deduced.options) == checkpoint_network.visible(network)
    assert deduced.fit.is_complete


def test_a_backbone_alone_with_its_classes_of_imagenet():
    held = checkpoint_network.network_shapes(ModelOptions({'semantic': 2}, model_variant='resnet_v1_18_beta'))
    held = {name: shape for name, shape in held.items() if name.startswith('resnet_v1_18/')}
    deduced = checkpoint_network.deduce(held | {'resnet_v1_18/logits/weights': (1, 1, 512, 1001)})
    assert deduced.is_backbone
    assert deduced.options.model_variant == 'resnet_v1_18_beta'
    assert deduced.outputs == {}
    assert deduced.fit.is_complete
    assert deduced.fit.unused == ('resnet_v1_18/logits/weights',)


@pytest.mark.parametrize(
    'changes',
    [{'model_variant': 'lenet', 'input_channels': 1}, {'model_variant': 'mobilenet_v2', 'depth_multiplier': 0.5}],
)
def test_a_classifier(changes):
    network = ModelOptions({'semantic': 7}, task='classification', **changes)
    shapes = checkpoint_network.network_shapes(network)
    deduced = checkpoint_network.deduce(shapes)
    assert (deduced.outputs, deduced.num_classes, deduced.options.task) == ({'classification': 7}, 7, 'classification')
    assert checkpoint_network.visible(deduced.options) == checkpoint_network.visible(network)
    assert deduced.fit.is_complete and not deduced.fit.unused and not deduced.is_backbone


def test_images_of_other_channels_than_the_checkpoint_s():
    gray = ModelOptions({'semantic': 7}, task='classification', model_variant='lenet', input_channels=1)
    shapes = checkpoint_network.network_shapes(dataclasses.replace(gray, input_channels=3))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(checkpoint_network, 'shapes_of', lambda path: (shapes, ()))
        with pytest.raises(NetworkMismatchError, match='images with 3 channels, but this network expects 1. Set'):
            with checkpoint_network.explained('model.ckpt-1', gray):
                raise NetworkMismatchError('differs')


def test_a_damaged_network():
    held = dict(checkpoint_network.network_shapes(_network()))
    del held['aspp0/BatchNorm/gamma']
    held['MobilenetV2/expanded_conv_3/project/weights'] = (1, 1, 144, 40)
    deduced = checkpoint_network.deduce(held | {'surplus/weights': (1,)})
    assert deduced.options.model_variant == 'mobilenet_v2'
    assert deduced.fit.missing == ('aspp0/BatchNorm/gamma',)
    assert deduced.fit.different == ('MobilenetV2/expanded_conv_3/project/weights',)
    assert deduced.fit.unused == ('surplus/weights',)


@pytest.mark.parametrize('held', [{}, {'other/weights': (1, 2)}, {'MobilenetV2/other': (3,)}])
def test_no_network_at_all(held):
    assert checkpoint_network.deduce(held) is None


def test_slots():
    names = ['a/weights', 'a/weights/Momentum', 'a/biases/Adam_1', 'beta1_power', 'global_step', 'b/Momentum']
    assert checkpoint_network.slots(names) == {'a/weights/Momentum', 'beta1_power', 'global_step'}


def test_rates_and_gates_do_not_show():
    one, other = _network(aspp=AsppOptions((6,))), _network(aspp=AsppOptions((12,)), output_stride=8)
    assert checkpoint_network.visible(one) == checkpoint_network.visible(other)
    assert checkpoint_network.visible(_network()) != checkpoint_network.visible(one)


@pytest.mark.parametrize(
    ('multiplier', 'divisor', 'same'), [(1.0, 8, True), (2.0, 8, True), (0.5, 8, False), (0.5, 1, True)]
)
def test_divisors_show_where_they_change_channels(multiplier, divisor, same):
    one, other = (_network(depth_multiplier=multiplier, divisible_by=each) for each in (None, divisor))
    assert (checkpoint_network.visible(one) == checkpoint_network.visible(other)) == same
    assert (checkpoint_network._backbone(one).shapes == checkpoint_network._backbone(other).shapes) == same


def test_a_mismatch_is_explained_by_the_options_of_the_checkpoint_s_network(tmp_path):
    network = ModelOptions({'semantic': 7}, depth_multiplier=0.5)
    shapes = checkpoint_network.network_shapes(network)
    values = {name: np.zeros(shape, np.float32) for name, shape in shapes.items()}
    path = checkpoint_files.write(tmp_path / 'model.ckpt', values)
    with pytest.raises(NetworkMismatchError) as error:
        with checkpoint_network.explained(path, ModelOptions({'semantic': 7})):
            raise NetworkMismatchError('No match', 'In detail: 257 variables differ')
    cause = f"The checkpoint '{path}' is of another network: model_variant='mobilenet_v2' depth_multiplier=0.5. Set ex"
    assert str(error.value).startswith(cause)
    assert str(error.value).endswith('or pass another checkpoint. In detail: 257 variables differ')
    with pytest.raises(NetworkMismatchError, match='^it lacks slots$'):  # the network is right: it is something else
        with checkpoint_network.explained(path, network):
            raise NetworkMismatchError('it lacks slots')
    with wording.flag_names({'DatasetOptions.name': 'dataset'}), pytest.raises(NetworkMismatchError) as error:
        with checkpoint_network.explained(path, dataclasses.replace(network, outputs_to_num_classes={'semantic': 21})):
            raise NetworkMismatchError('No match', 'In detail: 2 variables differ')
    cause = (
        f"The checkpoint '{path}' has 7 classes, the network here 21. Set --dataset to a data set with 7 classes, or"
    )
    assert str(error.value).startswith(cause)


@pytest.mark.parametrize('task', ['panoptic', 'depth', 'multilabel', 'semantic+edges', 'panoptic+depth'])
def test_tasks_are_told_from_their_outputs(task):
    network = _network(task=task, depth_multiplier=0.35)
    deduced = checkpoint_network.deduce(checkpoint_network.network_shapes(network))
    assert (deduced.options.task, deduced.num_classes) == (task, None if task == 'depth' else 5)
    same = dataclasses.replace(deduced.options, outputs_to_num_classes=network.outputs_to_num_classes)
    assert checkpoint_network.visible(same) == checkpoint_network.visible(network)
    assert deduced.fit.is_complete and not deduced.fit.unused
    assert f'--network_task={task}' in checkpoint_network.flags_of(deduced.options)
