"""Recipes: what they set, what the command line overrides, and what --recipe=list explains."""

import pytest

from deeplab import cli
from deeplab.cli import recipes
from deeplab.cli.parse import parse_flags
from deeplab.cli.program import find_program
from deeplab.cli.words import UsageError
from deeplab.errors import OptionError
from deeplab.options import LossOptions

TRAIN = ['--train_logdir=log', '--dataset_dir=records']


CHECKPOINT = '--tf_initial_checkpoint=model.ckpt'
NEEDS = {'fine_tune': [CHECKPOINT]}
OF_MAPS = ['min_scale_factor', 'max_scale_factor', 'decoder_output_stride', 'decoder_filters', 'aspp_convs_filters']


def parsed(*words):
    return parse_flags(find_program('train'), [*TRAIN, *words])


def test_without_a_recipe_the_defaults_stay():
    values = parsed()
    assert (values['optimizer'], values['learning_policy'], values['loss']) == ('momentum', 'poly', 'softmax')
    assert not values.notes


@pytest.mark.parametrize('name', recipes.RECIPES)
def test_every_setting_is_a_valid_flag_that_differs_from_its_default(name):
    values = parsed(f'--recipe={name}', *NEEDS.get(name, []))
    known = find_program('train').flags
    for setting in recipes.RECIPES[name].settings:
        assert values[setting.flag] != known[setting.flag].default, setting.flag
    options = cli.options_of('train', [*TRAIN, f'--recipe={name}', *NEEDS.get(name, [])])
    assert options.optimizer.name == values['optimizer']


def test_the_log_shows_what_a_recipe_sets():
    (note,) = parsed('--recipe=small_data').notes
    assert '--recipe=small_data' in note
    assert '--optimizer=adamw' in note
    assert '--loss=softmax+2*lovasz' in note


def test_the_command_line_wins():
    values = parsed('--recipe=small_data', '--loss=focal')
    assert values['loss'] == 'focal'
    assert values['optimizer'] == 'adamw'
    assert '--loss=' not in values.notes[0]


def test_another_optimizer_leaves_out_what_belongs_to_that_of_the_recipe():
    values = parsed('--recipe=small_data', '--optimizer=momentum')
    assert (values['base_learning_rate'], values['weight_decay']) == (1e-4, 4e-5)
    assert values['learning_policy'] == 'cosine'


def test_what_a_recipe_set_is_recorded_beside_the_command_line():
    made = cli.options_of('train', [*TRAIN, '--recipe=small_data', '--loss=focal'])
    assert '--recipe=small_data' in made.command
    assert '--decoder_output_stride=8' in made.recipe_flags
    assert not [flag for flag in made.recipe_flags if flag.startswith(('--loss=', '--recipe='))]


def test_one_limit_of_the_scales_leaves_out_the_other():
    values = parsed('--recipe=small_data', '--max_scale_factor=0.7')
    assert (values['min_scale_factor'], values['max_scale_factor']) == (0.5, 0.7)


def test_logits_that_are_not_upsampled_have_no_loss_stride():
    made = cli.options_of('train', [*TRAIN, '--recipe=small_data', '--noupsample_logits'])
    assert (made.loss.upsample_logits, made.loss.stride) == (False, 1)
    assert cli.options_of('train', [*TRAIN, '--recipe=small_data']).loss.stride == 2


def test_the_same_optimizer_keeps_what_belongs_to_it():
    values = parsed('--recipe=small_data', '--optimizer=adamw')
    assert values['base_learning_rate'] == parsed('--recipe=small_data')['base_learning_rate']


@pytest.mark.parametrize(
    ('words', 'stride', 'filters'),
    [
        ([], [8], (48, 96)),
        (['--decoder_output_stride=8'], [8], (48, 96)),
        (['--output_stride=8'], [4], (48, 96)),
        (['--decoder_output_stride=4'], [4], (256, 256)),
        (['--decoder_output_stride='], [], (256, 256)),
        (['--decoder_filters=32'], [8], (32, 96)),
        (['--aspp_convs_filters=256'], [8], (48, 256)),
        (['--decoder_use_sum_merge', '--decoder_output_is_logits'], [8], (256, 96)),
        (['--nodecoder_output_is_logits'], [8], (48, 96)),
        (['--tf_initial_checkpoint=model.ckpt'], [], (256, 256)),
        (['--preset=mobilenetv2_coco_voc_trainaug'], [], (256, 256)),
        (['--model_variant=mobilenet_edgetpu'], [], (256, 256)),  # has no low-level features
    ],
)
def test_the_decoder_is_of_networks_that_nothing_else_determines(words, stride, filters):
    values = parsed('--recipe=small_data', *words)
    assert (values['decoder_output_stride'] or []) == stride
    assert (values['decoder_filters'], values['aspp_convs_filters']) == filters


def test_long_trainings_differ_from_short_ones_in_the_loss():
    short, long = parsed('--recipe=small_data'), parsed('--recipe=small_data_long')
    different = {name: (short[name], long[name]) for name in short.known if short[name] != long[name]}
    assert different == {
        'recipe': ('small_data', 'small_data_long'),
        'loss_stride': (2, 1),
        'label_weights_power': (0.4, 0.3),
    }


def test_a_decoder_of_logits_has_as_many_filters_as_there_are_classes():
    words = ['--dataset=cityscapes', '--recipe=small_data', '--decoder_use_sum_merge', '--decoder_output_is_logits']
    made = cli.options_of('train', [*TRAIN, *words])
    assert made.model.decoder.filters == made.model.num_classes == 19


@pytest.mark.parametrize(
    ('steps', 'slow_start', 'decay'), [(30, 2, 0.9), (500, 33, 0.97), (1500, 100, 0.99), (300000, 500, 0.9997)]
)
def test_slow_start_and_statistics_follow_the_number_of_steps(steps, slow_start, decay):
    values = parsed('--recipe=small_data', f'--training_number_of_steps={steps}')
    assert values['slow_start_step'] == slow_start
    assert values['batch_norm_decay'] == decay


def test_a_training_too_short_for_a_slow_start_has_none():
    found = parsed('--recipe=small_data', '--training_number_of_steps=14').recipe_flags
    assert not [flag for flag in found if flag.startswith('--slow_start')]


def test_a_number_of_steps_that_is_not_allowed_is_refused_as_without_a_recipe():
    with pytest.raises(OptionError, match='training_number_of_steps=0 is not allowed'):
        cli.options_of('train', [*TRAIN, '--recipe=small_data', '--training_number_of_steps=0'])


@pytest.mark.parametrize('name', recipes.RECIPES)
@pytest.mark.parametrize(
    ('task', 'has_loss', 'has_classes'),
    [
        ('panoptic', False, True),
        ('edges', False, True),
        ('depth', False, False),
        ('multilabel', False, False),
        ('classification', False, False),
        ('depth + semantic', True, True),
        ('edges+depth', False, True),
    ],
)
def test_what_the_task_cannot_use_is_omitted(name, task, has_loss, has_classes):
    words = [f'--recipe={name}', *NEEDS.get(name, []), f'--task={task}']
    values = parsed(*words)
    assert bool(values['label_weights']) == (values['label_weights_power'] != 1) == has_loss
    assert bool(values['rare_class_sampling']) == has_classes
    assert values['moving_average_decay'] == 0.99
    omitted = ' '.join(values.notes[1:])
    assert ('--loss,' in omitted, '--rare_class_sampling' in omitted) == (not has_loss, not has_classes)
    made = cli.options_of('train', [*TRAIN, *words])
    assert (made.loss != LossOptions()) == has_loss
    changed = [flag for flag in OF_MAPS if values[flag] != values.default(flag)]
    assert changed == (OF_MAPS if name != 'fine_tune' and task != 'classification' else [])


def test_a_loss_that_is_given_is_kept_for_the_task_to_refuse():
    values = parsed('--recipe=small_data', '--task=depth', '--loss=focal')
    assert values['loss'] == 'focal' and '--loss,' not in values.notes[1]


def test_fine_tuning_needs_a_checkpoint():
    with pytest.raises(UsageError, match='--recipe=fine_tune needs --tf_initial_checkpoint'):
        parsed('--recipe=fine_tune')


@pytest.mark.parametrize(('batch', 'rate'), [(16, 0.007), (12, 0.0053), (8, 0.0035)])
def test_the_rate_of_fine_tuning_follows_the_batch(batch, rate):
    made = cli.options_of('train', [*TRAIN, '--recipe=fine_tune', CHECKPOINT, f'--train_batch_size={batch}'])
    assert (made.optimizer.name, made.optimizer.learning_rate.base) == ('momentum', rate)
    assert made.fine_tune_batch_norm


def test_fine_tuning_keeps_the_last_layers_of_the_same_classes():
    values = parsed('--recipe=fine_tune', CHECKPOINT, '--initialize_last_layer')
    assert not values['last_layers_contain_logits_only']
    assert values['last_layer_gradient_multiplier'] == 1.0


@pytest.mark.parametrize('words', [['--decoder_output_is_logits'], ['--preset=mobilenetv3_small_cityscapes_trainfine']])
def test_without_layers_of_logits_the_last_layers_of_fine_tuning_are_all(words):
    values = parsed('--recipe=fine_tune', CHECKPOINT, *words)
    assert values['decoder_output_is_logits'] and not values['last_layers_contain_logits_only']
    assert not values['initialize_last_layer'] and values['last_layer_gradient_multiplier'] == 10.0


def test_another_optimizer_leaves_out_the_rate_of_fine_tuning():
    values = parsed('--recipe=fine_tune', CHECKPOINT, '--optimizer=adamw')
    assert values['base_learning_rate'] == values.default('base_learning_rate')
    assert values['last_layers_contain_logits_only']


def test_an_unknown_recipe_is_refused_with_the_known_ones():
    with pytest.raises(UsageError, match=r'big_data.*small_data'):
        parsed('--recipe=big_data')


@pytest.mark.parametrize('words', [['--recipe=list'], ['--recipe', 'list'], [*TRAIN, '-recipe=list']])
def test_the_list_explains_each_flag(words, capsys):
    assert cli.main(['train', *words]) == 0
    shown = ' '.join(capsys.readouterr().out.split())
    for recipe in recipes.RECIPES.values():
        assert recipe.purpose in shown
        for setting in recipe.settings:
            assert f'--{setting.flag}=' in shown
            assert setting.reason in shown
