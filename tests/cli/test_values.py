"""Values of flags: every dialect of the original, and what they mean.

Covers cli/to_options.py.
"""

import dataclasses
import json
import os

import pytest

from deeplab import cli
from deeplab.cli import repeat
from deeplab.cli.values import Values
from deeplab.cli.words import Flag, read_words
from deeplab.errors import OptionError

TRAIN = ['--train_logdir=logs', '--dataset_dir=records']
EVAL = ['--checkpoint_dir=logs', '--eval_logdir=eval', '--dataset_dir=records']
VIS = ['--checkpoint_dir=logs', '--vis_logdir=vis', '--dataset_dir=records']


@pytest.mark.parametrize(
    'words',
    [
        '--train_crop_size=241,321',
        '--train_crop_size=241 --train_crop_size=321',
        '--train_crop_size 241 --train_crop_size 321',
        '--train_crop_size 241,321',
        '-train_crop_size=241,321',
        '--train_crop_size=9,9 --train_crop_size=241,321',
    ],
)
def test_every_dialect_of_a_size(words):
    assert cli.options_of('train', [*TRAIN, *words.split()]).model.crop_size == (241, 321)


def test_a_size_may_have_spaces_behind_its_comma():
    assert cli.options_of('train', [*TRAIN, '--train_crop_size=241, 321']).model.crop_size == (241, 321)


@pytest.mark.parametrize(
    ('words', 'strides'),
    [
        ('', ()),
        ('--decoder_output_stride=', ()),
        ('--decoder_output_stride=4', (4,)),
        ('--decoder_output_stride=8,4', (8, 4)),
        ('--decoder_output_stride=8 --decoder_output_stride=4', (8, 4)),
    ],
)
def test_decoder_output_stride_is_an_integer_or_a_list(words, strides):
    assert cli.options_of('train', [*TRAIN, *words.split()]).model.decoder.output_strides == strides


@pytest.mark.parametrize(
    ('word', 'expected'),
    [
        ('--fine_tune_batch_norm', True),
        ('--nofine_tune_batch_norm', False),
        ('--fine_tune_batch_norm=false', False),
        ('--fine_tune_batch_norm=False', False),
        ('--fine_tune_batch_norm=0', False),
        ('--fine_tune_batch_norm=true', True),
        ('--fine_tune_batch_norm=1', True),
    ],
)
def test_every_dialect_of_a_boolean(word, expected):
    made = cli.options_of('train', [*TRAIN, word])
    assert made.fine_tune_batch_norm is expected
    assert cli.options_of('train', made.command).fine_tune_batch_norm is expected  # as run.json repeats it


def test_code_words_of_the_flags_become_none():
    made = cli.options_of('train', TRAIN)
    assert made.optimizer.learning_rate.decay_steps == 0.0
    assert made.loss.label_weights is None
    assert made.initial_checkpoint is None
    assert made.model.quantize_delay_step is None
    assert cli.options_of('train', [*TRAIN, '--quantize_delay_step=0']).model.quantize_delay_step == 0
    assert made.model.dense_prediction_cell_json is None
    assert made.model.multi_grid is None
    assert made.model.image_pyramid is None
    assert made.model.image_pooling_crop_size is None
    assert cli.options_of('eval', EVAL).wait.max_rounds is None
    assert cli.options_of('eval', [*EVAL, '--max_number_of_evaluations=-1']).wait.max_rounds is None
    assert cli.options_of('vis', VIS).wait.max_rounds is None


@pytest.mark.parametrize('name', ['image_pooling_crop_size', 'eval_crop_size'])
def test_an_emptied_size_is_not_set(name):
    made, plain = cli.options_of('train', [*TRAIN, f'--{name}=']), cli.options_of('train', TRAIN)
    assert (made.model, made.validation) == (plain.model, plain.validation)


def test_an_empty_value_is_as_if_the_flag_were_not_given():
    """For every flag that can be "not set", of any kind."""
    plain = cli.options_of('train', TRAIN)
    flags = cli.find_program('train').flags
    unset = [name for name, flag in flags.items() if flag.can_be_unset and not name.endswith('_dir')]
    unset = [name for name in unset if name not in ('train_logdir', 'from')]
    made = cli.options_of('train', [*TRAIN, *(f'--{name}=' for name in unset)])
    assert {'batch_norm_decay', 'quantize_delay_step', 'ignore_missing_vars'} <= set(unset)  # with another default
    assert dataclasses.replace(made, command=()) == dataclasses.replace(plain, command=())


def test_an_empty_value_switches_off_what_a_recipe_sets(tmp_path):
    words = [
        '--recipe=small_data',
        '--moving_average_decay=',
        '--decoder_output_stride=',
        '--batch_norm_decay=',
        '--slow_start_burnin_type=none',
    ]
    made = cli.options_of('train', [*TRAIN, *words])
    chosen = (
        made.moving_average_decay,
        made.model.decoder.output_strides,
        made.model.batch_norm_decay,
        made.optimizer.learning_rate.slow_start_burnin_type,
    )
    assert chosen == (None, (), None, 'none')
    run = {'command': [*TRAIN, '--recipe=small_data', '--atrous_rates=6'], 'options': {}, 'folder': str(tmp_path)}
    (tmp_path / 'run.json').write_text(json.dumps({'format': 1, 'runs': [run]}))
    repeated = cli.options_of('train', [f'--from={tmp_path}/run.json', *words[1:], '--atrous_rates='])
    assert (repeated.model, repeated.moving_average_decay) == (made.model, None)


def test_an_emptied_flag_is_not_the_path_of_a_checkpoint(tmp_path):
    run = {'command': [*TRAIN, '--atrous_rates=6'], 'options': {}, 'folder': str(tmp_path)}
    (tmp_path / 'run.json').write_text(json.dumps({'format': 1, 'runs': [run]}))
    for path in (f'{tmp_path}/model.ckpt-3', f'--checkpoints={tmp_path}/model.ckpt-3'):
        assert '--atrous_rates=6' in repeat.with_run_of_checkpoints(['--clip_gradient_norm=', '--seed=3', path])


@pytest.mark.parametrize('word', ['--eval_interval_secs=-1', '--timeout_secs=-0.5'])
@pytest.mark.parametrize(('program', 'words'), [('eval', EVAL), ('vis', VIS)])
def test_negative_waits_are_refused(program, words, word):
    with pytest.raises(OptionError, match=f'{word} is not allowed: it must be 0 or more'):
        cli.options_of(program, [*words, word])


def test_batch_norm_decay_counts_only_when_it_is_given():
    assert cli.options_of('train', TRAIN).model.batch_norm_decay is None
    assert cli.options_of('train', [*TRAIN, '--batch_norm_decay=0.9997']).model.batch_norm_decay == 0.9997


def test_colormap_type_counts_only_when_it_is_given():
    assert cli.options_of('vis', VIS).colormap_type is None
    assert cli.options_of('vis', [*VIS, '--colormap_type=pascal']).colormap_type == 'pascal'


def test_an_opacity_asks_for_overlays():
    assert cli.options_of('vis', VIS).save == ()
    given = cli.options_of('vis', [*VIS, '--overlay_alpha=0.3', '--save=errors, legend', '--submission=voc'])
    assert (given.save, given.overlay_alpha, given.submission) == (('errors', 'legend', 'overlay'), 0.3, 'voc')


def test_numbers_of_a_repeated_flag_may_also_stand_in_one():
    assert cli.options_of('train', [*TRAIN, '--atrous_rates=6,12', '--atrous_rates=18']).model.aspp.rates == (6, 12, 18)


def test_all_positional_words_are_values_of_a_repeated_flag_of_strings():
    paths = Flag('path', 'repeated string', None, 'Paths.', is_path=True)
    line = read_words(['a,b', '--path=c', '~/d'], 'look', {'path': paths}, lambda name: [], 'path')
    assert line == [('path', 'a,b'), ('path', 'c'), ('path', '~/d')]
    values = Values(line, {'path': paths}, {})
    assert values.words == ('--path=a,b', '--path=c', '--path=~/d')
    assert values.texts('path') == ('a,b', 'c', os.path.expanduser('~/d'))


def test_flags_without_effect_are_accepted():
    assert cli.options_of('train', [*TRAIN, '--nokeep_aspect_ratio']) == cli.options_of('train', TRAIN)
    assert cli.options_of('eval', [*EVAL, '--label_weights=1', '--label_weights=2']) == cli.options_of('eval', EVAL)


@pytest.mark.parametrize('words', [['--label_weights=auto'], ['--label_weights', 'auto'], ['--label_weights=auto'] * 2])
def test_label_weights_from_the_records(words):
    made = cli.options_of('train', [*TRAIN, *words]).loss
    assert (made.auto_label_weights, made.label_weights) == (True, None)
    assert cli.options_of('eval', [*EVAL, *words]) == cli.options_of('eval', EVAL)


def test_losses():
    words = ['--loss=0.7*focal+lovasz', '--focal_gamma=1.5', '--label_smoothing=0.1', '--label_weights=1,2']
    made = cli.options_of('train', [*TRAIN, *words]).loss
    assert (made.formula, made.focal_gamma, made.label_smoothing) == ('0.7*focal+lovasz', 1.5, 0.1)
    assert (made.auto_label_weights, made.label_weights) == (False, (1.0, 2.0))
    made = cli.options_of('train', [*TRAIN, '--loss=tversky', '--tversky_alpha=0.2', '--tversky_beta=0.9']).loss
    assert (made.formula, made.tversky_alpha, made.tversky_beta) == ('tversky', 0.2, 0.9)


def test_home_folder_behind_an_equals_sign(monkeypatch):
    monkeypatch.setenv('HOME', os.path.join(os.sep, 'home', 'someone'))
    made = cli.options_of('train', ['--train_logdir=~/logs', '--dataset_dir=~/records', '--tf_initial_checkpoint=~/m'])
    home = os.path.join(os.sep, 'home', 'someone')
    assert made.train_logdir == os.path.join(home, 'logs')
    assert made.dataset.directory == os.path.join(home, 'records')
    assert made.initial_checkpoint == os.path.join(home, 'm')


def test_flags_from_a_file(tmp_path):
    (tmp_path / 'flags.txt').write_text('--train_crop_size=65,65\n# a comment\n--train_batch_size=2\n')
    made = cli.options_of('train', [*TRAIN, f'--flagfile={tmp_path / "flags.txt"}', '--seed=3'])
    assert (made.model.crop_size, made.batch_size, made.seed) == ((65, 65), 2, 3)


def test_two_programs_in_one_process_do_not_share_flags():
    first = cli.options_of('train', [*TRAIN, '--output_stride=8', '--atrous_rates=12'])
    second = cli.options_of('eval', EVAL)
    assert (first.model.output_stride, second.model.output_stride) == (8, 16)
    assert second.model.aspp.rates == ()


def test_a_data_set_from_a_file(tmp_path):
    path = tmp_path / 'rooms.json'
    path.write_text('{"name": "rooms", "num_classes": 5, "ignore_label": 255, "splits": {"train": 3}}')
    made = cli.options_of('train', [*TRAIN, f'--dataset={path}', *['--label_weights=1'] * 5])
    assert made.model.num_classes == 5
    assert made.loss.label_weights == (1.0,) * 5
