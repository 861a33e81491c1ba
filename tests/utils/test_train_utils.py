"""Losses of several scales, gradient multipliers, initial restore, learning rates, crop sizes."""

import numpy as np
import pytest
import tensorflow as tf

from deeplab.checks import checkpoint_network
from deeplab.core import checkpoint_fit, checkpoints, layers, sessions
from deeplab.errors import CheckpointError, NetworkMismatchError, OptionError
from deeplab.options import LossOptions, ModelOptions, OptimizerOptions
from deeplab.registry import OPTIMIZERS
from deeplab.utils import train_utils
from tests.helpers import checkpoint_files

SCOPES = ('logits', 'decoder')
SHAPES = {
    'net/weights': [2],
    'net/biases': [2],
    'decoder/weights': [3],
    'logits/weights': [4],
    'logits/biases': [4],
}


class TestLosses:
    def test_one_for_each_scale_by_name(self):
        with tf.Graph().as_default():
            logits = {key: tf.zeros([1, 3, 3, 4]) for key in ('logits_0.50', 'logits_1.00', 'merged_logits')}
            labels = tf.zeros([1, 9, 9, 1], tf.int32)
            losses = train_utils.add_softmax_cross_entropy_loss_for_each_scale(logits, labels, 255, LossOptions())
            names = {key: loss.op.name for key, loss in losses.items()}
        assert names == {key: f'semantic_{key}/value' for key in logits}


def make_network():
    """A few variables with the names of a network."""
    zeros = tf.zeros_initializer()
    return {name: tf.compat.v1.get_variable(name, shape, initializer=zeros) for name, shape in SHAPES.items()}


class TestMultipliers:
    def test_biases_and_last_layers(self):
        with tf.Graph().as_default():
            multipliers = train_utils.get_model_gradient_multipliers(SCOPES, 10.0, make_network().values())
        assert multipliers == {
            'net/biases': 2.0,
            'decoder/weights': 10.0,
            'logits/weights': 10.0,
            'logits/biases': 20.0,
        }

    def test_gradients_are_multiplied(self):
        with tf.Graph().as_default(), sessions.open_session() as running:
            variables = make_network()
            gradients = [(tf.ones_like(variable), variable) for variable in variables.values()]
            multiplied = train_utils.multiply_gradients(gradients, {'net/biases': 2.0})
            running.run(tf.compat.v1.global_variables_initializer())
            values = {variable.op.name: running.run(gradient)[0] for gradient, variable in multiplied}
        assert values['net/biases'] == 2.0
        assert values['net/weights'] == 1.0


def save_network(directory, **changed):
    """A checkpoint of `make_network` with every value 7, step 90; returns its path."""
    with tf.Graph().as_default():
        shapes = {name: v.shape for name, v in make_network().items()} | changed
    with tf.Graph().as_default(), sessions.open_session() as running:
        for name, shape in shapes.items():
            if shape is not None:
                tf.compat.v1.get_variable(name, shape, initializer=tf.constant_initializer(7.0))
        step = tf.compat.v1.train.get_or_create_global_step()
        running.run(tf.compat.v1.global_variables_initializer())
        running.run(step.assign(90))
        return checkpoints.CheckpointWriter(str(directory)).save(running, 90)


def restored_by(init_fn):
    """Names of the variables that `init_fn` set to 7, with the step."""
    with tf.Graph().as_default(), sessions.open_session() as running:
        variables = make_network()
        step = tf.compat.v1.train.get_or_create_global_step()
        running.run(tf.compat.v1.global_variables_initializer())
        init_fn(running)
        values, step = running.run([variables, step])
        return {name for name, value in values.items() if (value == 7).all()}, step


class TestInitialRestore:
    def test_everything_but_the_step(self, tmp_path):
        init_fn = train_utils.get_model_init_fn(str(tmp_path / 'log'), save_network(tmp_path), True, SCOPES)
        names, step = restored_by(init_fn)
        assert names == {'net/weights', 'net/biases', 'decoder/weights', 'logits/weights', 'logits/biases'}
        assert step == 0

    def test_a_run_that_only_measures_begins_with_it_beside_checkpoints(self, tmp_path):
        (tmp_path / 'log').mkdir()
        save_network(tmp_path / 'log')
        path = save_network(tmp_path)
        assert train_utils.get_model_init_fn(str(tmp_path / 'log'), path, True, SCOPES) is None
        init_fn = train_utils.get_model_init_fn(str(tmp_path / 'log'), path, True, SCOPES, is_resumed=False)
        assert 'net/weights' in restored_by(init_fn)[0]

    def test_without_the_last_layers(self, tmp_path):
        init_fn = train_utils.get_model_init_fn(str(tmp_path / 'log'), save_network(tmp_path), False, SCOPES)
        assert restored_by(init_fn)[0] == {'net/weights', 'net/biases'}

    def test_other_shapes_and_missing_variables_are_named(self, tmp_path, caplog):
        path = save_network(tmp_path, **{'logits/weights': [21], 'decoder/weights': None})
        with caplog.at_level('INFO'):
            names, _ = restored_by(train_utils.get_model_init_fn(str(tmp_path / 'log'), path, True, SCOPES, True))
        assert names == {'net/weights', 'net/biases', 'logits/biases'}
        assert f'Restored 3 variables from {path}.' in caplog.text
        assert 'Not restored because shapes differ: logits/weights: [4] here, [21] in the checkpoint.' in caplog.text
        assert 'not in the checkpoint keep their initial values: 1 (decoder/weights).' in caplog.text

    def test_many_other_shapes_are_one_line(self, tmp_path, caplog, monkeypatch):
        monkeypatch.setattr(train_utils, '_MOST_LINES', 1)
        path = save_network(tmp_path, **{'logits/weights': [21], 'logits/biases': [21]})
        restored_by(train_utils.get_model_init_fn(str(tmp_path / 'log'), path, True, SCOPES, True))
        (line,) = (each for each in caplog.messages if each.startswith('Not restored'))
        assert line.startswith('Not restored because shapes differ: 2 variables (logits/')

    def test_missing_variables_are_refused_as_in_the_original(self, tmp_path):
        path = save_network(tmp_path, **{'decoder/weights': None})
        init_fn = train_utils.get_model_init_fn(str(tmp_path / 'log'), path, True, SCOPES)
        with pytest.raises(CheckpointError, match=r'It lacks 1 of 5 variables \(decoder: 1 of 1\): decoder/weights$'):
            restored_by(init_fn)

    def test_what_is_missing_is_counted_after_the_fix(self, tmp_path):
        path = save_network(tmp_path, **{'decoder/weights': None, 'logits/weights': [21]})
        init_fn = train_utils.get_model_init_fn(str(tmp_path / 'log'), path, True, SCOPES, ignore_missing_vars=False)
        with pytest.raises(CheckpointError) as error:
            restored_by(init_fn)
        message = str(error.value)
        assert message.startswith(f"The initial checkpoint '{path}' does not have every variable of the network. Add")
        assert 'exclude_scopes, or set ignore_missing_vars=True' in message
        assert message.endswith(
            'It lacks 1 of 5 variables (decoder: 1 of 1): decoder/weights. 1 variable differs: logits/weights: [4] '
            'here, [21] in the checkpoint'
        )

    def test_many_that_are_missing_make_no_long_line(self):
        names = [f'net/conv{number}/weights' for number in range(255)]
        report = checkpoints.RestoreReport(('logits/weights',), (*names, 'logits/biases'), ())
        with pytest.raises(CheckpointError) as error:
            train_utils._require_everything('a', report, False)
        assert str(error.value).endswith(
            ' It lacks 256 of 257 variables (net: 255 of 255, logits: 1 of 2): net/conv0/weights, net/conv1/weights, '
            'net/conv2/weights and 253 more'
        )

    @pytest.mark.parametrize('arguments', [(False, ()), (True, ('decoder', 'logits'))])
    def test_what_shall_start_anew_is_not_missing(self, tmp_path, arguments):
        initialize_last_layer, excluded = arguments
        path = save_network(tmp_path, **{'decoder/weights': None, 'logits/weights': [21]})
        init_fn = train_utils.get_model_init_fn(
            str(tmp_path / 'log'), path, initialize_last_layer, SCOPES, False, exclude_scopes=excluded
        )
        assert restored_by(init_fn)[0] == {'net/weights', 'net/biases'}

    def test_optimizer_slots_are_never_missing(self, tmp_path, caplog):
        path = save_network(tmp_path)
        with tf.Graph().as_default(), sessions.open_session() as running:
            variables = list(make_network().values())
            optimizer = train_utils.make_optimizer(OptimizerOptions(name='adam'), tf.constant(0.1))
            optimizer.apply_gradients([(tf.ones_like(variable), variable) for variable in variables])
            running.run(tf.compat.v1.global_variables_initializer())
            with caplog.at_level('WARNING'):
                for ignored in (False, True):
                    train_utils.get_model_init_fn(str(tmp_path / 'log'), path, True, SCOPES, ignored)(running)
            assert (running.run(variables[0]) == 7).all()
        assert caplog.text == ''

    def test_excluded_scopes(self, tmp_path):
        init_fn = train_utils.get_model_init_fn(
            str(tmp_path / 'log'), save_network(tmp_path), True, SCOPES, exclude_scopes=('net/bias', 'logits')
        )
        assert restored_by(init_fn)[0] == {'net/weights', 'decoder/weights'}

    def test_an_excluded_scope_that_matches_nothing(self, tmp_path):
        init_fn = train_utils.get_model_init_fn(
            str(tmp_path / 'log'), save_network(tmp_path), True, SCOPES, exclude_scopes=('logits', 'aspp')
        )
        message = "exclude_scopes: no variable of this network begins with 'aspp'. Existing scopes: deco"
        with pytest.raises(OptionError, match=message):
            restored_by(init_fn)

    def test_nothing_left_to_restore(self, tmp_path):
        init_fn = train_utils.get_model_init_fn(
            str(tmp_path / 'log'), save_network(tmp_path), False, SCOPES, exclude_scopes=('net',)
        )
        with pytest.raises(CheckpointError, match='Nothing is left to restore from the initial checkpoint'):
            restored_by(init_fn)

    def test_nothing_in_common(self, tmp_path):
        other = dict.fromkeys(['net/weights', 'net/biases', 'decoder/weights', 'logits/weights', 'logits/biases'])
        init_fn = train_utils.get_model_init_fn(
            str(tmp_path / 'log'), save_network(tmp_path, **other, other=[2]), True, SCOPES
        )
        with pytest.raises(CheckpointError, match='has no variable of this network'):
            restored_by(init_fn)

    def test_nothing_where_training_resumes_or_no_checkpoint_is_given(self, tmp_path):
        path = save_network(tmp_path)
        assert train_utils.get_model_init_fn(str(tmp_path), path, True, SCOPES) is None
        assert train_utils.get_model_init_fn(str(tmp_path / 'log'), None, True, SCOPES) is None

    def test_path_of_a_file(self, tmp_path):
        path = save_network(tmp_path)
        with pytest.raises(CheckpointError, match='Pass the path of the checkpoint without the extension'):
            train_utils.get_model_init_fn(str(tmp_path / 'log'), f'{path}.index', True, SCOPES)


@pytest.mark.parametrize(
    ('held', 'text'),
    [
        (('net/weights/Adam', 'net/weights/Adam_1', 'beta1_power'), " trained with name='adam'. Training resumes"),
        (('net/weights/Momentum',), 'Other weights. Training resumes'),
        ((), 'Other weights. Training resumes'),
    ],
)
def test_the_optimizer_of_a_checkpoint_that_cannot_be_resumed_from(tmp_path, monkeypatch, held, text):
    def refuse(*arguments):
        raise NetworkMismatchError('Other weights')

    monkeypatch.setattr(train_utils.moving_average, 'resume', refuse)
    path = checkpoint_files.write(tmp_path / 'model.ckpt', {name: [1.0] for name in ('net/weights', *held)})
    with tf.Graph().as_default(), sessions.open_session() as session:
        for name in ('net/weights', 'net/weights/Momentum'):
            tf.compat.v1.get_variable(name, [1])
        with pytest.raises(NetworkMismatchError) as caught:
            train_utils.resume(session, path, ModelOptions({'semantic': 2}), None)
    assert text in str(caught.value)


class TestRenaming:
    """The checkpoint calls `net` model/body and `logits` model/head."""

    @staticmethod
    def save(directory, **changed):
        names = {'model/body/weights': [2], 'model/body/biases': [2], 'decoder/weights': [3]}
        names |= {'model/head/weights': [4], 'model/head/biases': [4]}
        return save_network(directory, **(dict.fromkeys(SHAPES) | names | changed))

    @staticmethod
    def init_fn(tmp_path, path, rename_map, initialize_last_layer=True, **arguments):
        return train_utils.get_model_init_fn(
            str(tmp_path / 'log'), path, initialize_last_layer, SCOPES, rename_map=rename_map, **arguments
        )

    def test_every_variable_gets_its_value(self, tmp_path):
        path = self.save(tmp_path)
        init_fn = self.init_fn(tmp_path, path, 'model/body=net,model/head=logits', ignore_missing_vars=False)
        assert restored_by(init_fn)[0] == set(SHAPES)

    def test_a_file(self, tmp_path):
        (tmp_path / 'map.json').write_text('{"model/body": "net", "model/head": "logits"}')
        init_fn = self.init_fn(tmp_path, self.save(tmp_path), str(tmp_path / 'map.json'))
        assert restored_by(init_fn)[0] == set(SHAPES)

    def test_what_the_map_leaves_out_is_refused(self, tmp_path):
        path = self.save(tmp_path)
        init_fn = self.init_fn(tmp_path, path, 'model/head=logits', ignore_missing_vars=False)
        with pytest.raises(CheckpointError) as error:
            restored_by(init_fn)
        message = str(error.value)
        assert message.startswith(f"The initial checkpoint '{path}', renamed by rename_map, does not have every")
        assert 'Add entries to rename_map, ' in message
        assert message.endswith('It lacks 2 of 5 variables (net: 2 of 2): net/weights, net/biases')

    def test_last_layers_that_start_anew_need_no_entry(self, tmp_path):
        init_fn = self.init_fn(tmp_path, self.save(tmp_path), 'model/body=net', False, ignore_missing_vars=False)
        assert restored_by(init_fn)[0] == {'net/weights', 'net/biases'}

    def test_the_old_name_is_no_longer_a_value(self, tmp_path):
        renaming = 'decoder=net,model/head=logits'
        init_fn = self.init_fn(tmp_path, self.save(tmp_path), renaming, ignore_missing_vars=True)
        with pytest.raises(
            CheckpointError, match=r'lacks 2 of 5 variables \(net: 1 of 2, decoder: 1 of 1\): net/biases, d.*\. 1 var'
        ):
            restored_by(self.init_fn(tmp_path, self.save(tmp_path), renaming))
        assert restored_by(init_fn)[0] == {'logits/weights', 'logits/biases'}

    def test_slots_move_with_their_variables(self, tmp_path):
        path = self.save(tmp_path, **{'model/body/weights/Momentum': [2]})
        init_fn = self.init_fn(tmp_path, path, 'model/body=net,model/head=logits')
        with tf.Graph().as_default(), sessions.open_session() as running:
            make_network()
            slot = tf.compat.v1.get_variable('net/weights/Momentum', [2], initializer=tf.zeros_initializer())
            running.run(tf.compat.v1.global_variables_initializer())
            init_fn(running)
            assert (running.run(slot) == 7).all()

    def test_a_map_that_does_not_fit_is_refused_at_once(self, tmp_path):
        with pytest.raises(CheckpointError, match="'body=net' matches nothing"):
            self.init_fn(tmp_path, self.save(tmp_path), 'body=net')


class TestOtherChannels:
    """Weights of a first convolution for RGB are converted to other numbers of channels."""

    RGB = np.random.RandomState(0).normal(size=(3, 3, 3, 2)).astype(np.float32)

    def restored(self, tmp_path, channels, caplog, **arguments):
        """Restores a checkpoint for three channels into a network for `channels`; its variables' values."""
        with tf.Graph().as_default(), sessions.open_session() as running:
            for name in ('net/weights', 'net/weights/Momentum', 'other/weights'):
                tf.compat.v1.get_variable(name, initializer=self.RGB)
            running.run(tf.compat.v1.global_variables_initializer())
            path = checkpoints.CheckpointWriter(str(tmp_path)).save(running, 1)
        with tf.Graph().as_default(), sessions.open_session() as running, caplog.at_level('INFO'):
            zeros = tf.zeros_initializer()
            for name, shape in (
                ('net/weights', [3, 3, channels, 2]),
                ('net/weights/Momentum', [3, 3, channels, 2]),
                ('other/weights', [3, 3, 3, 2]),
            ):
                tf.compat.v1.get_variable(name, shape, initializer=zeros)
            running.run(tf.compat.v1.global_variables_initializer())
            train_utils.get_model_init_fn(str(tmp_path / 'log'), path, True, SCOPES, **arguments)(running)
            return {v.op.name: running.run(v) for v in tf.compat.v1.global_variables()}

    @pytest.mark.parametrize('channels', [1, 2, 4, 7])
    def test_weights_are_spread_and_slots_start_anew(self, tmp_path, caplog, channels):
        values = self.restored(tmp_path, channels, caplog, input_channels=channels, ignore_missing_vars=False)
        np.testing.assert_array_equal(values['net/weights'], checkpoint_fit.inflate(self.RGB, channels))
        assert (values['net/weights/Momentum'] == 0).all()
        np.testing.assert_array_equal(values['other/weights'], self.RGB)
        assert 'The first convolution (net/weights) has 3 channels in the checkpoint' in caplog.text
        assert f'over {channels}, with the same sum.' in caplog.text
        assert 'shapes differ' not in caplog.text

    def test_other_shapes_that_only_look_alike_are_left_alone(self, tmp_path, caplog):
        """A network for three channels has no convolution for one."""
        values = self.restored(tmp_path, 1, caplog, ignore_missing_vars=True)
        assert (values['net/weights'] == 0).all()
        assert 'Not restored because shapes differ: net/weights: [3, 3, 1, 2] here, [3, 3, 3, 2] in the' in caplog.text


class TestTrainedScopes:
    def test_all_without_scopes(self):
        with tf.Graph().as_default():
            make_network()
            assert [v.op.name for v in train_utils.trained_variables(())] == list(SHAPES)

    def test_those_that_begin_with_a_scope(self):
        with tf.Graph().as_default():
            make_network()
            names = [v.op.name for v in train_utils.trained_variables(('logits', 'net/b'))]
        assert names == ['net/biases', 'logits/weights', 'logits/biases']

    def test_weight_decay_of_the_scopes_alone(self):
        with tf.Graph().as_default(), tf.name_scope('clone_0'), layers.mode_scope(
            is_training=True, fine_tune_batch_norm=True, weight_decay=0.1
        ):  # fmt: skip
            for scope in ('net/conv', 'logits/semantic'):
                layers.conv2d(tf.zeros([1, 3, 3, 2]), 4, 1, scope=scope)
            terms = {
                scopes: train_utils.decay_in_loss(OptimizerOptions(trainable_scopes=scopes))
                for scopes in ((), ('logits',), ('aspp',))
            }
            in_loss = {name: len(train_utils.decay_in_loss(OptimizerOptions(name))) for name in OPTIMIZERS.names()}
        assert [len(found) for found in terms.values()] == [2, 1, 0]
        assert terms[('logits',)][0] is terms[()][1]
        # The others decay the weights themselves.
        assert {'momentum': 2, 'adam': 2, 'rmsprop': 2, 'adamw': 0, 'lars': 0, 'lamb': 0}.items() <= in_loss.items()


class TestLearningRate:
    def test_graph_step_is_the_default(self):
        with tf.Graph().as_default(), sessions.open_session() as running:
            step = tf.compat.v1.train.get_or_create_global_step()
            rate = train_utils.get_model_learning_rate('poly', 0.1, 10, 0.5, 100, 1.0, 0, 0.0)
            running.run(step.initializer)
            assert running.run(rate) == pytest.approx(0.1)
            running.run(step.assign(50))
            assert running.run(rate) == pytest.approx(0.05)

    def test_unknown_policy(self):
        with pytest.raises(OptionError, match="^policy='root' is not allowed: it must be one of cosine, exponential"):
            train_utils.get_model_learning_rate('root', 0.1, 10, 0.5, 100, 1.0, 0, 0.0, global_step=tf.constant(0))


@pytest.mark.parametrize(
    ('name', 'slots'),
    [
        ('momentum', {'w/Momentum'}),
        ('adam', {'w/Adam', 'w/Adam_1'}),
        ('adamw', {'w/AdamW', 'w/AdamW_1'}),
        ('rmsprop', {'w/RMSProp', 'w/RMSProp_1'}),
        ('lars', {'w/LARS'}),
        ('lamb', {'w/LAMB', 'w/LAMB_1'}),
    ],
)
def test_optimizer_slots(name, slots):
    with tf.Graph().as_default():
        w = tf.compat.v1.get_variable('w', initializer=1.0)
        optimizer = train_utils.make_optimizer(OptimizerOptions(name=name), tf.constant(0.1))
        optimizer.apply_gradients([(tf.constant(1.0), w)])
        variables = tf.compat.v1.global_variables()
        names = {variable.op.name for variable in variables}
    powers = {'beta1_power', 'beta2_power'}
    assert names - {'w'} - powers == slots
    assert checkpoint_network.slots([*names, 'global_step']) == slots | powers & names | {'global_step'}


class TestCropSizeWarning:
    @pytest.mark.parametrize(('size', 'stride'), [((513, 513), 16), ((241, 321), 16), ((257, 65), 8)])
    def test_good_sizes(self, caplog, size, stride):
        train_utils.warn_of_crop_size(size, stride)
        assert not caplog.messages

    @pytest.mark.parametrize(
        ('size', 'nearest'),
        [
            pytest.param((512, 768), 'sizes are 497,753 and 513,769.', id='no good side'),
            pytest.param((500, 513), 'sizes are 497,513 and 513,513.', id='one good side'),
            pytest.param((3, 3), 'size is 17,17.', id='below the smallest good size'),
        ],
    )
    def test_names_the_nearest_good_sizes(self, caplog, size, nearest):
        train_utils.warn_of_crop_size(size, 16)
        (warning,) = caplog.messages
        assert warning.startswith(f'crop_size={size} is not a multiple of output_stride=16 plus 1')
        assert warning.endswith(nearest)
