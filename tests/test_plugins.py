"""Plugins: modules of users that register things by name. Covers plugins.py and cli/plugin_flags.py."""

import dataclasses
import json

import numpy as np
import pytest
import tensorflow as tf
from absl import logging

from deeplab import cli, common, input_preprocess, model, plugins
from deeplab.core import schedules, sessions
from deeplab.datasets import descriptor
from deeplab.errors import OptionError
from deeplab.export import destinations, speed
from deeplab.options import OptimizerOptions, ResizeOptions
from deeplab.options.parameters import as_dict
from deeplab.registry import (
    AUGMENTATIONS,
    BACKBONES,
    DATASETS,
    EXPORT_FORMATS,
    HEADS,
    LEARNING_POLICIES,
    LOSSES,
    METRICS,
    OPTIMIZERS,
    FrozenNetwork,
    MetricContext,
)
from deeplab.utils import train_utils
from tests.helpers.registries import changes_undone
from tests.test_extending import EXAMPLES

TRAIN = ['--train_logdir=logs', '--dataset_dir=records']
MINE = """
from deeplab.registry import Loss, Parameter, register

register(
    Loss(
        name='mine',
        function=lambda logits, labels, mine_rate: logits[:, 0] * mine_rate,
        parameters=(Parameter('mine_rate', 0.5, 'Rate of mine.', range='[0, 1]'),),
    )
)
"""
NETWORK = ['--model_variant=pebble', '--pebble_filters=5', '--use_context_head', '--context_filters=4']


@pytest.fixture
def network(tmp_path, monkeypatch):
    """Plugins with a backbone and a head."""
    monkeypatch.chdir(tmp_path)
    for name in ('pebble.py', 'context_head.py'):
        (tmp_path / name).write_text(EXAMPLES[name])
    with changes_undone(BACKBONES), changes_undone(HEADS):
        yield '--plugins=pebble.py,context_head.py'


@pytest.fixture
def mine(tmp_path, monkeypatch):
    """A plugin in the current folder."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / 'mine.py').write_text(MINE)
    with changes_undone(LOSSES):
        yield 'mine.py'


@pytest.mark.parametrize('name', ['mine.py', './mine.py', 'mine'])
def test_what_a_plugin_registers_is_known_to_the_flags(mine, name):
    words = [*TRAIN, f'--plugins={name}', '--loss=softmax+mine', '--mine_rate=0.25']
    with pytest.raises(OptionError, match=r'--mine_rate=2\.0 is not allowed: it must be from 0 to 1'):
        cli.options_of('train', [*words, '--mine_rate=2'])
    loss = cli.options_of('train', words).loss
    assert [term.name for term in loss.terms] == ['softmax', 'mine']
    assert loss.mine_rate == 0.25
    assert '--mine_rate=X\n      Rate of mine. Default: 0.5.' in cli.program_help(
        cli.find_program('train'), is_full=True
    )


@pytest.mark.parametrize('words', [['--plugins', 'mine.py'], ['--flagfile=flags.txt']])
def test_help_shows_the_flags_of_plugins(mine, tmp_path, capsys, words):
    (tmp_path / 'flags.txt').write_text('--plugins=mine.py')
    assert cli.main(['train', *words, '--help']) == 0
    assert '--mine_rate' in capsys.readouterr().out


def test_what_tensorflow_writes_while_a_plugin_imports_it_is_dropped(tmp_path, monkeypatch, capfd):
    monkeypatch.setenv('TF_CPP_MIN_LOG_LEVEL', '2')
    (tmp_path / 'chatty.py').write_text("import os; os.write(2, b'I0000 of an import\\nown line\\n')")
    cli.options_of('train', [*TRAIN, f'--plugins={tmp_path / "chatty.py"}'])
    assert capfd.readouterr().err == 'own line\n'


def test_a_forgotten_value_is_said():
    with pytest.raises(OptionError, match='--plugins has no value'):
        cli.options_of('train', ['--plugins', *TRAIN])


@pytest.mark.parametrize('plugins_flag', ['--plugins=mine.py', '--plugins=tests, mine'])
def test_a_run_is_repeated_with_its_plugins(mine, tmp_path, monkeypatch, plugins_flag):
    command = [*TRAIN, plugins_flag, '--loss=mine']
    run = {'command': command, 'folder': str(tmp_path)}
    (tmp_path / 'run.json').write_text(json.dumps({'format': 1, 'runs': [run]}))
    (tmp_path / 'elsewhere').mkdir()
    monkeypatch.chdir(tmp_path / 'elsewhere')
    found = cli.options_of('train', ['--from=../run.json'])
    assert found.loss.formula == 'mine'
    expected = plugins_flag.replace('=mine.py', f'={tmp_path / "mine.py"}').replace(' mine', f'{tmp_path / "mine.py"}')
    assert expected in found.command


def test_a_backbone_and_a_head_of_a_plugin(network):
    options = cli.options_of('networks', [network, '--crop_size=17,33', *NETWORK]).model
    with tf.Graph().as_default():
        model.predict_labels(tf.zeros([1, 17, 33, 3]), options)
        shapes = {variable.op.name: variable.shape.as_list() for variable in tf.compat.v1.model_variables()}
    assert shapes['pebble/conv4/weights'] == [3, 3, 20, 25]
    assert shapes['context/merge/weights'] == [3, 3, 50, 4]
    assert not any(name.startswith('aspp') for name in shapes)
    assert {'pebble_filters': 5, 'use_context_head': True, 'context_filters': 4}.items() <= as_dict(options).items()


def test_a_backbone_of_a_plugin_is_listed(network):
    """With the padding value of its normalization; denser features cost more."""
    found = json.loads(cli.run_program('networks', [network, '--model_variant=pebble', '--json']).report)[0]
    assert found['scope'] == 'pebble'
    np.testing.assert_allclose(found['input']['mean_pixel'], (123.15, 115.90, 103.06))
    assert found['costs']['16']['multiply_adds'] < found['costs']['8']['multiply_adds']


def test_parameters_that_have_no_effect(network, monkeypatch):
    messages = []  # a test before may have logged the warning, which is given once
    monkeypatch.setattr(
        logging, 'log_first_n', lambda level, message, n, *arguments: messages.append(message % arguments)
    )
    options = cli.options_of('networks', [network, '--model_variant=pebble', '--context_filters=1']).model
    model.check_options(options)
    assert 'context_filters=1 has no effect on pebble with the head aspp' in messages[0]


def test_help_names_the_backbones_of_plugins(network, capsys):
    assert cli.main(['export_model', network, '--help']) == 0
    text = capsys.readouterr().out
    assert 'pebble, ' in text.partition('--model_variant')[2].partition('  --')[0]
    assert '--[no]use_context_head\n      Use the head context instead of ASPP. Default: false.' in text


@pytest.mark.parametrize('is_old', [False, True])
def test_network_flags_of_plugins_are_taken_from_the_run(network, tmp_path, is_old):
    run = {'command': [*TRAIN, network, *NETWORK], 'folder': str(tmp_path)}
    if not is_old:
        trained = cli.options_of('train', run['command'])
        run |= {'command': ['--not_read'], 'given': trained.given, 'plugins': trained.plugins}
    (tmp_path / 'run.json').write_text(json.dumps({'format': 1, 'runs': [run]}))
    words = [network, '--checkpoint_path=model.ckpt-1', '--export_path=e', '--num_classes=3']
    options = cli.options_of('export_model', words).model
    assert (options.model_variant, options.pebble_filters) == ('pebble', 5)
    assert (options.use_context_head, options.context_filters) == (True, 4)


def test_a_parameter_with_the_name_of_a_flag(network, tmp_path, capsys):
    """It is refused by all programs, with the help too."""
    (tmp_path / 'pebble.py').write_text(EXAMPLES['pebble.py'].replace('pebble_filters', 'base_learning_rate'))
    for words in ([], ['--help']):
        assert cli.main(['eval', network, *words]) == cli.USAGE_STATUS
        error = capsys.readouterr().err
        assert all(part in error for part in ("'pebble.py'", '--base_learning_rate', 'is a flag of'))


@pytest.mark.parametrize(
    'run',
    [
        {'command': [*TRAIN, '--plugins=mine.py', '--loss=mine']},
        {'command': ['--not_read'], 'given': {'LossOptions.mine_rate': 1.0}, 'plugins': ['mine.py']},
    ],
)
def test_files_beside_a_checkpoint_import_nothing(mine, tmp_path, run):
    """A checkpoint may come from anywhere."""
    run['folder'] = str(tmp_path)
    (tmp_path / 'run.json').write_text(json.dumps({'format': 1, 'runs': [run]}))
    words = ['--checkpoint_dir=.', '--eval_logdir=e', '--dataset_dir=r', '--dataset=camvid']
    values = cli.parse_flags(cli.find_program('eval'), words)
    assert 'mine' not in LOSSES.names()
    assert f'--plugins={tmp_path / "mine.py"}' in values.notes[0]
    assert not cli.parse_flags(cli.find_program('eval'), [*words, '--plugins=mine']).notes


def test_a_file_that_runs_again_replaces_what_it_registered(mine, tmp_path):
    """Also under another path, or as a module that another plugin imports."""
    (tmp_path / 'imports.py').write_text('import mine')
    plugins.load(['mine.py', str(tmp_path / 'mine.py'), 'imports.py'])
    (tmp_path / 'mine.py').write_text(MINE.replace("'mine_rate', 0.5", "'mine_rate', 0.25"))
    plugins.load(['mine.py'])
    assert LOSSES.parameters()['mine_rate'].default == 0.25


def test_a_metric_of_a_plugin(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / 'most_errors.py').write_text(EXAMPLES['most_errors.py'])
    words = ['--checkpoint_dir=.', '--eval_logdir=e', '--dataset_dir=r', '--plugins=most_errors']
    with changes_undone(METRICS):
        options = cli.options_of('eval', [*words, '--metrics=image_iou,most_errors', '--errors_least=3'])
        assert options.metric_parameters == {'image_iou': {}, 'most_errors': {'errors_least': 3}}
        metric = METRICS.get('most_errors').create(MetricContext(2, 255, ('a', 'b')), errors_least=3)
        metric.update(np.array([[[0, 1, 1, 255]], [[1, 1, 1, 0]]]), np.array([[[1, 0, 1, 0]], [[0, 0, 0, 0]]]))
        assert metric.result() == {'pixels': 3, 'images': 1}
        with pytest.raises(OptionError, match=r'--errors_least=3 .*most_errors'):
            cli.options_of('eval', [*words, '--errors_least=3'])
        with pytest.raises(
            OptionError,
            match='--metrics=iou is not allowed: did you mean image_iou .* It must be one of .*most_errors',
        ):
            cli.options_of('eval', [*words, '--metrics=iou'])


def test_an_optimizer_of_a_plugin(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / 'lion.py').write_text(EXAMPLES['lion.py'])
    with changes_undone(OPTIMIZERS), tf.Graph().as_default(), sessions.open_session() as running:
        chosen = cli.options_of('train', [*TRAIN, '--plugins=lion', '--optimizer=lion', '--lion_beta=0.75']).optimizer
        assert chosen == OptimizerOptions('lion', settings={'lion_beta': 0.75}) and chosen.decouples_weight_decay
        weights = tf.compat.v1.get_variable('w', initializer=[1.0, -1.0])
        optimizer = train_utils.make_optimizer(chosen, tf.constant(0.25), {'w': 0.5})
        step = optimizer.apply_gradients([(tf.constant([2.0, -3.0]), weights)])
        running.run(tf.compat.v1.global_variables_initializer())
        running.run(step)
        assert running.run(weights).tolist() == [0.625, -0.625]  # a step of 0.25 times 1 + 0.5


def test_a_learning_policy_of_a_plugin(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / 'restarts.py').write_text(EXAMPLES['restarts.py'])
    words = [*TRAIN, '--plugins=restarts', '--learning_policy=restarts', '--restarts_cycles=2', '--slow_start_step=10']
    with changes_undone(LEARNING_POLICIES):
        chosen = cli.options_of('train', [*words, '--base_learning_rate=0.2']).optimizer.learning_rate
        rates = [float(schedules.learning_rate(step, chosen, 50)) for step in (10, 20, 30, 40)]
        assert rates == pytest.approx([0.2, 0.1, 0.2, 0.1])
        with pytest.raises(OptionError, match='--restarts_cycles=half is not allowed'):
            cli.options_of('train', [*words, '--restarts_cycles=half'])


def test_an_augmentation_of_a_plugin(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / 'noise.py').write_text(EXAMPLES['noise.py'])
    words = [*TRAIN, '--plugins=noise', '--noise_deviation=4', '--cutout_size=2', '--flip_probability=0']
    with changes_undone(AUGMENTATIONS):
        chosen = cli.options_of('train', words).augment
        assert [record.name for record in chosen.active] == ['cutout', 'noise']
        with pytest.raises(OptionError, match=r'--noise_deviation=-1\.0 is not allowed: it must be from 0 to 255'):
            cli.options_of('train', [*words, '--noise_deviation=-1'])
        image = tf.fill([5, 7, 3], tf.constant(128, tf.uint8))
        sample = {common.IMAGE: image, common.LABEL: image[..., :1], common.SEED: tf.constant([1, 2], tf.int64)}
        noisy, plain = (
            input_preprocess.apply_steps(
                sample, input_preprocess.train_steps((5, 7), ResizeOptions(), augment, [128.0] * 3, 255).values()
            )
            for augment in (chosen, chosen.changed(noise_deviation=0.0))
        )
        assert 2.0 < np.std(noisy[common.IMAGE] - plain[common.IMAGE]) < 6.0
        np.testing.assert_array_equal(noisy[common.LABEL], plain[common.LABEL])  # the cutout draws the same squares


def test_an_export_format_of_a_plugin(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / 'compressed_graph.py').write_text(EXAMPLES['compressed_graph.py'])
    words = ['--checkpoint_path=c', '--export_path=g', '--plugins=compressed_graph']
    with changes_undone(EXPORT_FORMATS):
        options = cli.options_of('export_model', [*words, '--export_format=compressed_graph', '--gzip_level=1'])
        assert options.settings_of(EXPORT_FORMATS.get('compressed_graph')) == {'gzip_level': 1}
        with pytest.raises(OptionError, match='--format=compressed_graph .*--export_format=compressed_graph'):
            cli.options_of('export_model', [*words, '--format=compressed_graph'])
        (file,) = speed._plugin_of('compressed_graph')
        assert file.endswith('compressed_graph.py') and speed._plugin_of('tflite') == ()
        with pytest.raises(OptionError, match=r'--gzip_level=1 .*--export_format=compressed_graph'):
            cli.options_of('export_model', [*words, '--gzip_level=1'])
        record = EXPORT_FORMATS.get('compressed_graph')
        record.write(FrozenNetwork(_graph(), (5, 5), 3, 8, 2), 'g', gzip_level=1)
        labels, probabilities = record.run('g', np.full((2, 4, 3), 7, np.uint8))
        assert labels.tolist() == [[7] * 4] * 2 and probabilities.shape == (2, 4, 3)
        with pytest.raises(OptionError, match="'g' exists and is not a compressed graph of DeepLab"):
            destinations.check_target('g', record)
        with pytest.raises(
            OptionError, match=r'export_format=.compressed_graph. needs no_such_package.*pip install it'
        ):
            destinations.check_installed(
                dataclasses.replace(record, requires=('no_such_package.x', 'os'), install='it'), 'float32'
            )


def _graph():
    """A graph with the names of an export, whose labels are the red of the image."""
    with tf.Graph().as_default() as graph:
        image = tf.compat.v1.placeholder(tf.uint8, [1, None, None, 3], name='ImageTensor')
        tf.cast(image[..., 0], tf.int32, name='SemanticPredictions')
        tf.cast(image, tf.float32, name='SemanticProbabilities')
    return graph.as_graph_def()


def test_a_data_set_of_a_plugin(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    module = EXAMPLES['birds.py'].replace('register(\n', 'register(DATASET := \n')
    (tmp_path / 'birds.py').write_text(module)
    with changes_undone(DATASETS):
        made = cli.options_of('train', [*TRAIN, '--plugins=birds.py', '--dataset=birds'])
        assert (made.model.num_classes, made.dataset.name) == (3, 'birds')
        assert descriptor.load('birds.py') == descriptor.load('birds')
        help_ = cli.program_help(cli.find_program('eval'), is_full=True)
        assert 'ade20k, birds, camvid' in ' '.join(help_.split())
        (tmp_path / 'own.py').write_text(module.replace('120', '121'))
        with pytest.raises(OptionError, match=r"own.py, line 4: .*data set 'birds' is already registered"):
            plugins.load(['own.py'])


@pytest.mark.parametrize(
    ('name', 'content', 'parts'),
    [
        ('missing.py', None, ("'missing.py' does not exist",)),
        ('missing', None, ("'missing' cannot be found",)),
        ('a b', None, ("'a b' does not exist",)),
        ('broken.py', 'x = 1\nx.y\n', ('broken.py, line 2', 'AttributeError')),
        ('twice.py', MINE.replace("'mine'", "'dice'"), ('twice.py, line 4', "loss 'dice' is already registered")),
    ],
)
def test_plugins_that_cannot_be_loaded(tmp_path, monkeypatch, name, content, parts):
    monkeypatch.chdir(tmp_path)
    if content:
        (tmp_path / name).write_text(content)
    with changes_undone(LOSSES), pytest.raises(OptionError) as error:
        plugins.load([name])
    assert all(part in str(error.value) for part in parts), error.value
