"""TF-Slim's flags: names, types and defaults of the original, and the options here that they become."""

import dataclasses
import json
import pathlib

import pytest

from deeplab import cli, wording
from deeplab.cli import parse
from deeplab.cli.program import names_in_messages
from deeplab.cli.words import UsageError
from deeplab.errors import OptionError, UserError
from deeplab.options import CloneOptions
from tests.helpers import class_records

CONTRACT = json.loads(
    (pathlib.Path(__file__).parents[1] / 'goldens' / 'contract' / 'classification_flags.json').read_text()
)
TRAIN, EVAL, EXPORT = 'train_image_classifier', 'eval_image_classifier', 'export_inference_graph'
SAMPLES = 40


@pytest.fixture(scope='module')
def folder(tmp_path_factory):
    return class_records.write(tmp_path_factory.mktemp('data') / 'cifar10', {'train': SAMPLES, 'test': 10})


@pytest.fixture
def made(folder):
    """The options of train."""

    def make(*words, program=TRAIN, model='cifarnet'):
        usual = [f'--dataset_dir={folder}', '--dataset_name=cifar10', f'--model_name={model}']
        return cli.options_of(program, [*usual, *words])

    return make


@pytest.mark.parametrize('program', CONTRACT)
def test_every_flag_of_tf_slim_with_its_type_and_default(program):
    flags = cli.find_program(program).flags
    for wanted in CONTRACT[program]:
        flag = flags[wanted['name']]
        kinds = {'boolean': ('boolean', 'bool'), 'enum': ('string',)}.get(flag.kind, (flag.kind,))
        assert wanted['type'] in kinds, flag.name
        assert flag.default == wanted['default'], flag.name


@pytest.mark.parametrize('program', [TRAIN, EVAL, EXPORT])
def test_there_are_no_other_flags(program):
    own = {flag.name for flag in cli.find_program(program).groups[0].flags}
    assert own == {flag['name'] for flag in CONTRACT[program]} | ({'worker_hosts'} if program == TRAIN else set())


def test_defaults(made):
    train = made()
    assert train.model.is_per_image and train.model.model_variant == 'cifarnet' and train.model.num_classes == 10
    assert train.model.preprocessing_name == 'cifarnet' and train.model.crop_size == (32, 32)
    assert (train.batch_size, train.log_steps, train.save_interval_secs, train.save_summaries_secs) == (
        32,
        10,
        600,
        600,
    )
    assert train.train_logdir == '/tmp/tfmodel/' and train.number_of_steps == 10**9
    assert train.moving_average_decay is None and train.model.quantize_delay_step is None
    optimizer, rate = train.optimizer, train.optimizer.learning_rate
    assert (optimizer.name, optimizer.rmsprop_decay, optimizer.momentum, optimizer.rmsprop_epsilon) == (
        'rmsprop', 0.9, 0.9, 1.0,
    )  # fmt: skip
    # int(40 * 2 / 32) steps in each stair
    assert (rate.policy, rate.base, rate.decay_factor, rate.decay_step) == ('step', 0.01, 0.94, 2)
    assert optimizer.weight_decay == 4e-5 and not train.restore.ignores_missing


@pytest.mark.parametrize(
    ('words', 'name', 'settings'),
    [
        (['adadelta', '--adadelta_rho=.9'], 'adadelta', {'adadelta_rho': 0.9, 'adadelta_epsilon': 1.0}),
        (['adagrad', '--adagrad_initial_accumulator_value=.2'], 'adagrad', {'adagrad_initial_accumulator_value': 0.2}),
        (['adam', '--opt_epsilon=.1'], 'scheduled_adam', {'adam_beta1': 0.9, 'adam_beta2': 0.999, 'adam_epsilon': 0.1}),
        (['ftrl', '--ftrl_l1=.3'], 'ftrl', {'ftrl_l1': 0.3, 'ftrl_learning_rate_power': -0.5}),
        (['momentum', '--momentum=.8', '--rmsprop_momentum=.7'], 'momentum', {'momentum': 0.8}),
        (['rmsprop', '--momentum=.8', '--rmsprop_momentum=.7'], 'rmsprop', {'momentum': 0.7}),
        (['sgd'], 'sgd', {}),
    ],
)
def test_optimizers(made, words, name, settings):
    optimizer = made(f'--optimizer={words[0]}', *words[1:]).optimizer
    assert optimizer.name == name
    assert {key: getattr(optimizer, key) for key in settings} == settings


def test_schedules_by_epochs(made):
    rate = made(
        '--batch_size=4', '--num_clones=2', '--learning_rate_decay_type=polynomial', '--num_epochs_per_decay=2.55',
        '--end_learning_rate=.003', '--warmup_epochs=1.5',
    ).optimizer.learning_rate  # fmt: skip
    assert (rate.policy, rate.decay_steps, rate.power, rate.end) == ('polynomial', 25, 1.0, 0.003)  # of one clone
    assert (rate.slow_start_burnin_type, rate.slow_start_steps) == ('minimum', 15)
    assert made('--learning_rate_decay_type=fixed').optimizer.learning_rate.policy == 'fixed'


def test_synchronous_workers(made):
    hosts = '--worker_hosts=one:1,two:1'
    train = made('--batch_size=4', '--sync_replicas', '--replicas_to_aggregate=2', hosts, '--task=1')
    assert train.clones == CloneOptions(worker_hosts=('one:1', 'two:1'), task=1)
    assert (train.batch_size, train.optimizer.learning_rate.decay_step) == (8, 10)
    assert made('--batch_size=4', '--sync_replicas', hosts) == dataclasses.replace(
        train, clones=dataclasses.replace(train.clones, task=0)
    )
    assert made('--sync_replicas', '--replicas_to_aggregate=1').clones == CloneOptions()
    with pytest.raises(UsageError, match='--replicas_to_aggregate=3 .* number of synchronous workers, which is 2'):
        made('--sync_replicas', '--replicas_to_aggregate=3', hosts)
    with pytest.raises(UsageError, match='With --sync_replicas there are no parameter servers: omit'):
        made('--sync_replicas', '--num_ps_tasks=1', '--master=grpc://one:1', '--worker_replicas=2')


def test_what_else_train_takes(made):
    train = made(
        '--batch_size=4', '--num_clones=2', '--max_number_of_steps=7', '--use_grayscale', '--labels_offset=1',
        '--label_smoothing=.1', '--preprocessing_name=mobilenet_v2', '--train_image_size=48', '--checkpoint_path=c',
        '--checkpoint_exclude_scopes=CifarNet/logits,b', '--trainable_scopes=CifarNet/logits', '--ignore_missing_vars',
        '--moving_average_decay=.9', '--log_every_n_steps=3', '--train_dir=logs', '--weight_decay=.5',
    )  # fmt: skip
    assert (train.batch_size, train.clones.num_clones, train.number_of_steps) == (8, 2, 7)
    model = train.model
    assert model.use_grayscale and model.num_classes == 9 and train.dataset.description.num_classes == 9
    assert (model.preprocessing_name, model.crop_size) == ('inception', (48, 48))
    assert train.loss.label_smoothing == 0.1
    assert (train.initial_checkpoint, train.restore.exclude_scopes) == ('c', ('CifarNet/logits', 'b'))
    assert train.optimizer.trainable_scopes == ('CifarNet/logits',) and train.restore.ignores_missing
    assert (train.moving_average_decay, train.log_steps, train.train_logdir) == (0.9, 3, 'logs')
    assert train.optimizer.weight_decay == 0.5
    assert made('--quantize_delay=5').model.quantize_delay_step == 5


@pytest.mark.parametrize(
    ('name', 'variant', 'width', 'divisor'),
    [
        ('mobilenet_v2', 'mobilenet_v2', 1.0, None),
        ('mobilenet_v2_140', 'mobilenet_v2', 1.4, 8),
        ('mobilenet_v2_035', 'mobilenet_v2', 0.35, 8),
        ('mobilenet_v3_large', 'mobilenet_v3_large', 1.0, None),
        ('resnet_v1_50', 'resnet_v1_50', 1.0, None),
    ],
)
def test_names_of_networks(made, name, variant, width, divisor):
    model = made(model=name).model
    assert (model.model_variant, model.depth_multiplier, model.divisible_by) == (variant, width, divisor)


def test_flags_without_a_meaning_are_noted_once(folder):
    words = [f'--dataset_dir={folder}', '--dataset_name=cifar10', '--model_name=lenet']
    values = parse.parse_flags(cli.find_program(TRAIN), [*words, '--num_readers=8', '--num_preprocessing_threads=2'])
    cli.find_program(TRAIN).to_options(values)
    (note,) = [note for note in values.notes if 'without effect' in note]
    assert '--num_preprocessing_threads, --num_readers' in note
    assert any('--max_number_of_steps is not set' in note for note in values.notes)


def test_eval(made):
    words = ['--checkpoint_path=logs', '--eval_dir=out', '--max_num_batches=3', '--moving_average_decay=.9']
    evaluation = made(*words, program=EVAL)
    assert evaluation.dataset.split == 'test' and evaluation.batch_size == 100 and evaluation.max_images == 300
    assert (evaluation.checkpoint_dir, evaluation.eval_logdir, evaluation.wait.max_rounds) == ('logs', 'out', 1)
    assert evaluation.use_moving_average and evaluation.model.quantize_delay_step is None
    plain = made('--quantize', '--eval_image_size=40', program=EVAL)
    assert plain.max_images is None and not plain.use_moving_average
    assert plain.model.quantize_delay_step == 0 and plain.model.crop_size == (40, 40)


def test_messages_name_the_flags_of_the_program_and_say_whose_others_are():
    with wording.flag_names(names_in_messages(cli.find_program(TRAIN))):
        assert wording.option('TrainOptions.batch_size', 4) == '--batch_size=4'
        assert wording.option('LearningRateOptions.base') == '--learning_rate'
        assert wording.option('TrainOptions.fine_tune_batch_norm', False) == (
            '--fine_tune_batch_norm=false (of deeplab train)'
        )
    with wording.flag_names(names_in_messages(cli.find_program(EVAL))):
        assert wording.option('ModelOptions.train_image_size') == '--eval_image_size'
        assert wording.option('EngineOptions.engine') == '--engine (of deeplab eval)'


def test_notes_name_the_flags_of_the_program(tmp_path, folder):
    model = {'model': {'settings': {'train_image_size': 48}}}
    run = {'command': [], 'given': {'ModelOptions.train_image_size': 48}, 'options': model, 'plugins': []}
    (tmp_path / 'run.json').write_text(json.dumps({'format': 1, 'runs': [run]}))
    program = cli.find_program(EVAL)
    words = [f'--dataset_dir={folder}', '--model_name=lenet', f'--checkpoint_path={tmp_path}']
    values = parse.parse_flags(program, words)
    assert program.to_options(values).model.crop_size == (48, 48)
    assert any(note.endswith('as they are not given: --eval_image_size=48') for note in values.notes)


def test_imagenet_without_a_description(tmp_path):
    words = [f'--dataset_dir={tmp_path}', '--model_name=resnet_v1_50', '--output_file=g']
    assert cli.options_of(EXPORT, words).model.num_classes == 1001
    assert cli.options_of(EXPORT, [*words, '--labels_offset=1']).model.num_classes == 1000


def test_labels_txt_gives_the_classes(tmp_path):
    (tmp_path / 'labels.txt').write_text('0:a\n1:b\n2:c\n')
    words = [f'--dataset_dir={tmp_path}', '--model_name=lenet', '--output_file=g']
    assert cli.options_of(EXPORT, words).model.num_classes == 3
    gray = cli.options_of(EXPORT, [*words, '--dataset_name=mnist']).model
    assert (gray.num_classes, gray.input_channels) == (10, 1)


@pytest.mark.parametrize(
    ('words', 'message'),
    [
        (
            ['--model_name=inception_v3'],
            r'--model_name=inception_v3 does not exist here: it must be one of cifarnet, lenet, ',
        ),
        (['--model_name=resnet_v1_50_075'], 'does not exist here'),
        (['--optimizer=lamb'], '--optimizer=lamb is not allowed: it must be one of adadelta'),
        (['--learning_rate_decay_type=cosine'], 'it must be one of exponential, polynomial, fixed'),
        (['--batch_size=0'], '--batch_size'),
        (
            ['--labels_offset=10'],
            "--labels_offset=10 is not allowed: it must be from 0 to 9, as the data set 'cifar10'",
        ),
        (['--preprocessing_name=nearly'], '--preprocessing_name=nearly'),
        (['--learning_rate=-1'], '--learning_rate=-1.0 is not allowed'),
        (['--dataset_name=birds'], "Unknown dataset 'birds'"),
    ],
)
def test_bad_input(made, words, message):
    with pytest.raises(UserError, match=message):
        made(*words)


def test_bad_input_of_the_other_programs(made):
    with pytest.raises(OptionError, match='--max_num_batches=0 is not allowed'):
        made('--max_num_batches=0', program=EVAL)
    with pytest.raises(OptionError, match='no network of videos'):
        made('--output_file=g', '--is_video_model', program=EXPORT)
    with pytest.raises(OptionError, match='requires --output_file'):
        made(program=EXPORT)
