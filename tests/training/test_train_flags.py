"""Every flag of the original's train program has its effect.

Most flags end as a number or an operation in the graph, so the proof compares graphs with and without the flag: that of
the whole training, which several flags share, each with a number of its own that occurs nowhere else, or the part of it
that the flag is about. Networks are outlined only. What concerns files and logs is shown by short trainings.
"""

import dataclasses
import functools
import json
import pathlib
import re
import types

import pytest
import tensorflow as tf

from deeplab import cli, common, model, train, wording
from deeplab.core import cost, sessions
from deeplab.errors import OptionError
from deeplab.training import network_clone, split_input, train_loop, training_step
from tests.helpers import training_setup

CONTRACT = json.loads((pathlib.Path(__file__).parents[1] / 'goldens' / 'contract' / 'flags.json').read_text())['train']
NOTHING = train_loop.TrainResult(0, None, 0.0, None)

# --- Flags that are numbers in the training's graph: the flag, its value, the numbers that then occur

MOMENTUM = {
    'base_learning_rate': (0.6875, [0.6875 - 0.03125]),  # the poly policy multiplies the difference
    'end_learning_rate': (0.03125, [0.03125]),
    'learning_power': (0.8125, [0.8125]),
    'decay_steps': (777, [777]),
    'slow_start_step': (55, [55]),
    'slow_start_learning_rate': (0.01953125, [0.01953125]),
    'momentum': (0.4375, [0.4375]),
    'weight_decay': (0.0234375, [0.0234375]),
    'last_layer_gradient_multiplier': (37, [37, 74]),  # biases count twice
    'label_weights': ('1,2.25,3.5', [(1.0, 2.25, 3.5)]),
    'top_k_percent_pixels': (0.59375, [0.59375]),
    'hard_example_mining_step': (222, [222]),
    'min_scale_factor': (0.84375, [0.84375]),
    'max_scale_factor': (1.71875, [1.71875]),
    'min_resize_value': (43, [43]),
    'batch_norm_decay': (0.28125, [1 - 0.28125]),
    'train_batch_size': (31, [31]),
}
STEP_POLICY = {
    'learning_policy': ('step', []),
    'learning_rate_decay_factor': (0.34375, [0.34375]),
    'learning_rate_decay_step': (333, [333]),
}
ADAM = {
    'optimizer': ('adam', []),
    'adam_learning_rate': (0.015625, [0.015625]),
    'adam_epsilon': (0.0078125, [0.0078125]),
}


def _input_graph(options):
    with tf.Graph().as_default() as graph:
        split_input.build_input(options, training_setup.opened(options), 0)
    return graph.as_graph_def()


def _rate_graph(options):
    with tf.Graph().as_default() as graph:
        step = tf.compat.v1.train.get_or_create_global_step()
        training_step.learning_rate(options.optimizer, options.number_of_steps, step)
    return graph.as_graph_def()


def _clone_graph(options):
    """The network with its losses, outlined."""
    size = [options.batch_size, *options.model.crop_size]
    with cost.abstract_graph() as outlined:
        batch = {common.IMAGE: tf.zeros([*size, 3]), common.LABEL: tf.zeros([*size, 1], tf.int32)}
        queue = types.SimpleNamespace(dequeue=lambda: batch)
        network_clone._build_deeplab(queue, options, 255, tf.compat.v1.train.get_or_create_global_step())
    return outlined.graph.as_graph_def()


# --- Flags that make another graph: the flag, its value, what must stand on the line besides, and the part it changes

GRAPHS = {
    'train_crop_size': ('33,33', '', _input_graph),
    'max_resize_value': ('40', '--min_resize_value=23', _input_graph),
    'resize_factor': ('8', '--min_resize_value=23', _input_graph),
    'scale_factor_step_size': ('0', '', _input_graph),
    'upsample_logits': ('false', '', _clone_graph),
    'fine_tune_batch_norm': ('false', '', _clone_graph),
    'image_pyramid': ('0.5,1', '', _clone_graph),
    'merge_method': ('avg', '--image_pyramid=0.5,1', _clone_graph),
    'training_number_of_steps': ('9', '', _rate_graph),
}

# --- Flags of the network: value, and what must stand on the line besides

TOY = '--model_variant=toy'
SMALL = '--model_variant=mobilenet_v3_small_seg'
PNAS = '--model_variant=nas_pnasnet'
NETWORKS = {
    'model_variant': ('toy', SMALL),
    'output_stride': ('8', SMALL),
    'depth_multiplier': ('0.5', SMALL),
    'divisible_by': ('16', ''),
    'multi_grid': ('1,2', '--model_variant=resnet_v1_18'),
    'use_bounded_activation': ('true', SMALL),
    'atrous_rates': ('2', TOY),
    'add_image_level_feature': ('false', TOY),
    'image_pooling_crop_size': ('33,33', TOY),
    'image_pooling_stride': ('2,2', f'{TOY} --image_pooling_crop_size=33,33'),
    'aspp_convs_filters': ('32', TOY),
    'aspp_with_batch_norm': ('false', TOY),
    'aspp_with_separable_conv': ('false', f'{TOY} --atrous_rates=2'),
    'aspp_with_concat_projection': ('false', TOY),
    'aspp_with_squeeze_and_excitation': ('true', TOY),
    'image_se_uses_qsigmoid': ('true', f'{TOY} --aspp_with_squeeze_and_excitation'),
    'dense_prediction_cell_json': ('deeplab/core/dense_prediction_cell_branch5_top1_cityscapes.json', TOY),
    'decoder_output_stride': ('4', TOY),
    'decoder_filters': ('32', f'{TOY} --decoder_output_stride=4'),
    'decoder_use_separable_conv': ('false', f'{TOY} --decoder_output_stride=4'),
    'decoder_use_sum_merge': ('true', f'{TOY} --decoder_output_stride=4'),
    'decoder_output_is_logits': ('true', f'{TOY} --decoder_output_stride=4 --decoder_filters=3'),
    'logits_kernel_size': ('3', f'{TOY} --noaspp_with_batch_norm'),
    'drop_path_keep_prob': ('0.5', PNAS),
    'nas_stem_output_num_conv_filters': ('10', PNAS),
    'nas_remove_os32_stride': ('true', '--model_variant=nas_hnasnet --output_stride=8'),
}

# --- Flags with a test of their own below, or elsewhere

FILES = {'train_logdir', 'log_steps', 'save_interval_secs', 'save_summaries_secs', 'profile_logdir'}
FILES |= {'tf_initial_checkpoint', 'initialize_last_layer'}
LAST_LAYERS = {'last_layers_contain_logits_only'}
ELSEWHERE = {
    'num_clones': 'deployment/test_model_deploy.py',
    'save_summaries_images': 'training/test_train.py',
    'dataset': 'training/test_run_manifest.py',
    'dataset_dir': 'end_to_end/test_classifiers.py',
    'train_split': 'end_to_end/test_classifiers.py',
    'clone_on_cpu': 'deployment/test_model_deploy.py',
    'master': 'end_to_end/test_several_machines.py',
    'task': 'end_to_end/test_several_machines.py',
    'num_replicas': 'end_to_end/test_several_machines.py',
    'num_ps_tasks': 'end_to_end/test_several_machines.py',
    'startup_delay_steps': 'training/test_replicas.py',
    'quantize_delay_step': 'training/test_8_bit_training.py',
}
# The original reads it nowhere in training either.
WITHOUT_EFFECT = {'keep_aspect_ratio', 'prediction_with_upsampled_logits'}
# Built later; each refuses any value but its default.
REFUSED = {'nas_use_classification_head': 'true'}


def test_no_flag_is_left_out():
    tables = (MOMENTUM, STEP_POLICY, ADAM, GRAPHS, NETWORKS, FILES, LAST_LAYERS, ELSEWHERE, WITHOUT_EFFECT, REFUSED)
    assert sorted(name for table in tables for name in table) == sorted(CONTRACT)
    for name, page in ELSEWHERE.items():
        assert re.search(rf'\b{name}=', (pathlib.Path(__file__).parents[1] / page).read_text()), name


@pytest.fixture(scope='module')
def records(tmp_path_factory):
    return training_setup.write_data(tmp_path_factory.mktemp('flags') / 'records')


pytestmark = pytest.mark.usefixtures('tiny_network', 'toy_network')


@pytest.fixture
def line(records, tmp_path):
    """Parses a command line to options, for a tiny network on tiny data."""
    always = [
        f'--dataset={records.name}',
        f'--dataset_dir={records.directory}',
        '--model_variant=tiny',
        '--train_crop_size=17,33',
        '--train_batch_size=2',
        '--training_number_of_steps=1000',
        '--aspp_convs_filters=8',
        '--clone_on_cpu',
    ]
    return lambda *words: cli.options_of('train', [*always, f'--train_logdir={tmp_path / "log"}', *words])


_graphs = {}  # by line


@pytest.fixture
def graph_of(line, monkeypatch):
    """The training graph of a command line; it is built once per command line, and not run."""

    def build(*words):
        if words in _graphs:
            return _graphs[words]
        graphs = []
        with monkeypatch.context() as patched:
            patched.setattr(train_loop, 'train', lambda step, *rest, **more: graphs.append(step.loss.graph) or NOTHING)
            patched.setattr(sessions, 'write_graph', lambda *arguments: None)
            train.run(line(*words))
        _graphs[words] = graphs[0].as_graph_def()
        return _graphs[words]

    return build


def numbers_of(graph):
    """All constants of a graph and its functions that are scalars or short lists."""
    nodes = [*graph.node, *(node for function in graph.library.function for node in function.node_def)]
    found = set()
    for node in nodes:
        if node.op == 'Const':
            value = tf.make_ndarray(node.attr['value'].tensor)
            if value.dtype.kind in 'fi' and value.size <= 8:
                found.add(tuple(value.ravel().tolist()) if value.ndim else value.item())
        if node.op.startswith('ResourceApply') or 'batch' in node.op.lower():
            found |= {attribute.f for attribute in node.attr.values() if attribute.HasField('f')}
    return found


def text_of(graph):
    """A graph as text that does not depend on how often one was built before."""
    graph.library.function.sort(key=lambda function: function.signature.name)
    return re.sub(r'(?<=pyfunc)_\d+|(?<=[a-z])[-_]\d{3,}\b', '', str(graph))


@functools.cache
def _close(a, b):
    if isinstance(a, tuple) or isinstance(b, tuple):
        return a == b
    return abs(a - b) <= 1e-6 * abs(b)


@pytest.mark.parametrize('table', [MOMENTUM, STEP_POLICY, ADAM], ids=['momentum', 'step', 'adam'])
def test_flags_that_are_numbers(line, graph_of, table):
    if table is STEP_POLICY:
        before, after = numbers_of(_rate_graph(line())), numbers_of(_rate_graph(line(*_words(table))))
    else:
        before, after = numbers_of(graph_of()), numbers_of(graph_of(*_words(table)))
    for name, (_, numbers) in table.items():
        for number in numbers:
            assert any(_close(found, number) for found in after), (name, number)
            assert not any(_close(found, number) for found in before), (name, number)


def _words(table):
    return [f'--{name}={value}' for name, (value, _) in table.items()]


def test_optimizers_and_policies(graph_of):
    kinds = [{node.op for node in graph.node}
             for graph in (graph_of(), graph_of(*_words(ADAM)))]  # fmt: skip
    assert 'ResourceApplyMomentum' in kinds[0]
    assert 'ResourceApplyAdam' in kinds[1]


def test_last_layers(line):
    """Their multiplier is in the graph of the test above."""
    assert line('--last_layers_contain_logits_only').optimizer.last_layer_scopes == ('logits',)
    assert 'aspp' in line().optimizer.last_layer_scopes


@pytest.mark.parametrize('name', GRAPHS)
def test_flags_that_make_another_graph(line, name):
    value, needs, build = GRAPHS[name]
    without, with_it = (build(line(*needs.split(), *words)) for words in ((), (f'--{name}={value}',)))
    assert text_of(without) != text_of(with_it)


@pytest.mark.parametrize('build', [_input_graph, _clone_graph, _rate_graph])
def test_a_graph_is_built_the_same_again(line, build):
    """The test above depends on it."""
    assert text_of(build(line())) == text_of(build(line()))


@functools.cache
def _outline(words):
    always = ['--train_logdir=log', '--dataset_dir=records', '--dataset=camvid', '--train_crop_size=65,65']
    options = cli.options_of('train', [*always, *words.split()]).model
    options = options.__class__(**{**vars(options), 'outputs_to_num_classes': {'semantic': 3}})
    with cost.abstract_graph() as outlined:
        step = tf.compat.v1.train.get_or_create_global_step()
        del step
        model.multi_scale_logits(tf.zeros([1, 65, 65, 3]), options, mode=model.Mode(True, fine_tune_batch_norm=True))
    operations = [(op.type, op.name, [str(o.shape) for o in op.outputs]) for op in outlined.graph.get_operations()]
    return operations, outlined.shapes


# What the options of searched networks do, core/backbones/test_nas.py shows.
SEARCHED = ('drop_path_keep_prob', 'nas_stem_output_num_conv_filters', 'nas_remove_os32_stride')


@pytest.mark.parametrize('name', [pytest.param(n, marks=pytest.mark.slow) if n in SEARCHED else n for n in NETWORKS])
def test_flags_of_the_network(name):
    value, needs = NETWORKS[name]
    assert _outline(f'{needs} --{name}={value}') != _outline(needs)


@pytest.mark.parametrize('name', REFUSED)
def test_flags_that_are_not_built_say_so(line, name):
    names = wording.flag_names(cli.find_program('train').flag_names)
    with names, pytest.raises(OptionError, match=f'--{name}='):
        train.run(line(f'--{name}={REFUSED[name]}', *([PNAS] if name.startswith('nas') else [])))


def test_flags_of_files_and_logs(line, tmp_path, caplog):
    """One training with all of them; the profile is one that TensorBoard opens."""
    profile = tmp_path / 'profile'
    words = ['--training_number_of_steps=17', '--log_steps=5', '--save_interval_secs=1', '--save_summaries_secs=1']
    with caplog.at_level('INFO'):
        options = line(*words, f'--profile_logdir={profile}')
        assert (options.save_interval_secs, options.save_summaries_secs) == (1, 1)
        first = train.run(dataclasses.replace(options, save_interval_secs=0, save_summaries_secs=0))  # at every step
    lines = [match[1] for match in map(re.compile(r'global step (\d+):').match, caplog.messages) if match]
    assert lines == ['5', '10', '15']
    checkpoints = {path.name for path in (tmp_path / 'log').glob('*.index')}
    assert checkpoints == {f'model.ckpt-{step}.index' for step in range(13, 18)}  # one a step; the newest five stay
    (events,) = (tmp_path / 'log').glob('events.out.tfevents.*')
    steps = {e.step for e in tf.compat.v1.train.summary_iterator(str(events)) if e.summary.value}
    assert steps == set(range(1, 18))
    (plane,) = profile.glob('plugins/profile/*/*.xplane.pb')
    assert plane.stat().st_size > 1000
    caplog.clear()
    words = ['--training_number_of_steps=2', '--save_interval_secs=0', '--save_summaries_secs=0']  # 0: none between
    words += [f'--tf_initial_checkpoint={first.checkpoint}', '--initialize_last_layer=false']
    with caplog.at_level('INFO'):
        train.run(dataclasses.replace(line(*words), train_logdir=str(tmp_path / 'seldom')))
    assert {path.name for path in (tmp_path / 'seldom').glob('*.index')} == {'model.ckpt-0.index', 'model.ckpt-2.index'}
    assert not list((tmp_path / 'seldom').glob('events.out.tfevents.*'))
    restored = [name for name, _ in tf.train.list_variables(first.checkpoint) if name.startswith('tiny/')]
    assert f'Restored {len(restored)} variables from ' in caplog.text
