"""Command lines of the original and new ones: their options, messages for mistakes, and how a program runs.

Covers cli/builder_programs.py, cli/first_import.py, cli/help.py, cli/parse.py, cli/program.py, cli/programs.py,
cli/run.py, cli/to_options.py, cli/values.py, cli/words.py, errors.py and overview.py.
"""

import contextlib
import gc
import importlib.util
import logging as standard_logging
import os
import pathlib
import subprocess
import sys
import types

import numpy as np
import pytest
from absl import logging
from PIL import Image

import deeplab
from deeplab import cli, names, options, start
from deeplab.cli import first_import
from deeplab.cli.values import Values
from deeplab.cli.words import Flag, with_named
from deeplab.errors import DataError, OptionError, OutputError
from deeplab.overview import GROUPS, SUMMARIES

TRAIN = ['--train_logdir=logs', '--dataset_dir=records']
EVAL = ['--checkpoint_dir=logs', '--eval_logdir=eval', '--dataset_dir=records']
VIS = ['--checkpoint_dir=logs', '--vis_logdir=vis', '--dataset_dir=records']


def _line(text):
    """Splits a command line into words as a shell does."""
    return text.split()


# --- Command lines that people have ----------------------------------------------------------------------------------


def test_train_line_of_2018_for_voc():
    made = cli.options_of(
        'train',
        _line(
            '--logtostderr --training_number_of_steps=30000 --train_split=train --model_variant=xception_65'
            ' --atrous_rates=6 --atrous_rates=12 --atrous_rates=18 --output_stride=16 --decoder_output_stride=4'
            ' --train_crop_size=513 --train_crop_size=513 --train_batch_size=1 --dataset=pascal_voc_seg'
            ' --tf_initial_checkpoint=init/model.ckpt --train_logdir=train_on_train_set/train --dataset_dir=tfrecord'
        ),
    )
    assert made == options.TrainOptions(
        model=options.ModelOptions(
            outputs_to_num_classes={'semantic': 21},
            crop_size=(513, 513),
            model_variant='xception_65',
            output_stride=16,
            aspp=options.AsppOptions(rates=(6, 12, 18)),
            decoder=options.DecoderOptions(output_strides=(4,)),
            nas=options.NasOptions(total_training_steps=30000),
        ),
        dataset=options.DatasetOptions(split='train', directory='tfrecord', name='pascal_voc_seg'),
        train_logdir='train_on_train_set/train',
        initial_checkpoint='init/model.ckpt',
        batch_size=1,
        number_of_steps=30000,
    )


def test_train_line_of_2019_for_cityscapes():
    made = cli.options_of(
        'train',
        _line(
            '--logtostderr --training_number_of_steps=90000 --train_split=train_fine --model_variant=xception_71'
            ' --atrous_rates=6 --atrous_rates=12 --atrous_rates=18 --output_stride=16 --decoder_output_stride=4'
            ' --train_crop_size=769,769 --train_batch_size=8 --num_clones=4 --fine_tune_batch_norm=false'
            ' --base_learning_rate=0.007 --learning_policy=poly --dataset=cityscapes --initialize_last_layer=0'
            ' --tf_initial_checkpoint=x71/model.ckpt --train_logdir=logs --dataset_dir=cityscapes/tfrecord'
        ),
    )
    assert made.model.outputs_to_num_classes == {'semantic': 19}
    assert made.model.crop_size == (769, 769)
    assert made.dataset.split == 'train_fine'
    assert made.clones.num_clones == 4
    assert made.clone_batch_size == 2
    assert made.fine_tune_batch_norm is False
    assert made.initialize_last_layer is False
    assert made.optimizer.learning_rate == options.LearningRateOptions(base=0.007)


def test_train_line_of_2018_for_ade20k():
    made = cli.options_of(
        'train',
        _line(
            '--logtostderr --training_number_of_steps=150000 --train_split=train --model_variant=xception_65'
            ' --atrous_rates=6 --atrous_rates=12 --atrous_rates=18 --output_stride=16 --decoder_output_stride=4'
            ' --train_crop_size=513 --train_crop_size=513 --train_batch_size=4 --min_resize_value=513'
            ' --max_resize_value=513 --resize_factor=16 --dataset=ade20k'
            ' --tf_initial_checkpoint=init/model.ckpt --train_logdir=logs --dataset_dir=ADE20K/tfrecord'
        ),
    )
    assert made.model.num_classes == 151
    assert made.resize == options.ResizeOptions(513, 513, 16)
    assert made.number_of_steps == 150000


def test_eval_line_of_2018_for_voc():
    made = cli.options_of(
        'eval',
        _line(
            '--logtostderr --eval_split=val --model_variant=xception_65 --atrous_rates=6 --atrous_rates=12'
            ' --atrous_rates=18 --output_stride=16 --decoder_output_stride=4 --eval_crop_size=513'
            ' --eval_crop_size=513 --dataset=pascal_voc_seg --checkpoint_dir=train --eval_logdir=eval'
            ' --dataset_dir=tfrecord'
        ),
    )
    assert made == options.EvalOptions(
        model=options.ModelOptions(
            outputs_to_num_classes={'semantic': 21},
            crop_size=(513, 513),
            model_variant='xception_65',
            aspp=options.AsppOptions(rates=(6, 12, 18)),
            decoder=options.DecoderOptions(output_strides=(4,)),
        ),
        dataset=options.DatasetOptions(split='val', directory='tfrecord'),
        checkpoint_dir='train',
        eval_logdir='eval',
    )


def test_eval_line_with_scales_and_flips_for_cityscapes():
    made = cli.options_of(
        'eval',
        _line(
            '--logtostderr --eval_split=val_fine --output_stride=8 --atrous_rates=12 --atrous_rates=24'
            ' --atrous_rates=36 --model_variant=xception_65 --decoder_output_stride=4 --eval_crop_size=1025,2049'
            ' --eval_scales=0.75 --eval_scales=1.0 --eval_scales=1.25 --add_flipped_images --dataset=cityscapes'
            ' --max_number_of_evaluations=1 --checkpoint_dir=train --eval_logdir=eval --dataset_dir=tfrecord'
        ),
    )
    assert made.model.crop_size == (1025, 2049)
    assert made.model.output_stride == 8
    assert made.model.aspp.rates == (12, 24, 36)
    assert made.prediction == options.PredictionOptions((0.75, 1.0, 1.25), add_flipped_images=True)
    assert made.wait == options.WaitOptions(interval_secs=300, max_rounds=1, timeout_secs=None)


def test_vis_lines_of_both_years():
    common = (
        '--logtostderr --vis_split=val_fine --model_variant=mobilenet_v2 --dataset=cityscapes'
        ' --colormap_type=cityscapes --checkpoint_dir=train --vis_logdir=vis --dataset_dir=tfrecord'
        ' --also_save_raw_predictions=true --max_number_of_iterations=1'
    )
    old = cli.options_of('vis', _line(f'{common} --vis_crop_size=1025 --vis_crop_size=2049'))
    new = cli.options_of('vis', _line(f'{common} --vis_crop_size=1025,2049'))
    assert old == new
    assert old.model.crop_size == (1025, 2049)
    assert old.colormap_type == 'cityscapes'
    assert old.also_save_raw_predictions is True
    assert old.wait.max_rounds == 1


def test_line_of_the_mobilenet_v3_checkpoint():
    made = cli.options_of(
        'eval',
        _line(
            '--model_variant=mobilenet_v3_large_seg --image_pooling_crop_size=769,769 --image_pooling_stride=4,5'
            ' --add_image_level_feature=1 --aspp_convs_filters=128 --aspp_with_concat_projection=0'
            ' --aspp_with_squeeze_and_excitation=1 --decoder_use_sum_merge=1 --decoder_filters=19'
            ' --decoder_output_is_logits=1 --image_se_uses_qsigmoid=1 --decoder_output_stride=8 --output_stride=32'
            ' --dataset=cityscapes --eval_crop_size=1025,2049'
        )
        + EVAL,
    )
    assert made.model.image_pooling_crop_size == (769, 769)
    assert made.model.image_pooling_stride == (4, 5)
    assert made.model.aspp == options.AsppOptions(
        filters=128,
        with_concat_projection=False,
        with_squeeze_and_excitation=True,
        image_se_uses_qsigmoid=True,
    )
    assert made.model.decoder == options.DecoderOptions((8,), 19, use_sum_merge=True, output_is_logits=True)


def test_builder_lines():
    voc = cli.options_of(
        'build_voc2012_data',
        _line(
            '--image_folder=JPEGImages --semantic_segmentation_folder=SegmentationClassRaw'
            ' --list_folder=ImageSets/Segmentation --image_format=jpg --output_dir=tfrecord'
        ),
    )
    assert voc == options.BuildVocOptions(
        image_folder='JPEGImages',
        semantic_segmentation_folder='SegmentationClassRaw',
        list_folder='ImageSets/Segmentation',
        image_format='jpg',
        output_dir='tfrecord',
    )
    cityscapes = cli.options_of('build_cityscapes_data', _line('--cityscapes_root=cs --output_dir=cs/tfrecord'))
    assert cityscapes == options.BuildCityscapesOptions(cityscapes_root='cs', output_dir='cs/tfrecord')
    ade20k = cli.options_of('build_ade20k_data', _line('--image_format=jpg --num_shards=2 --num_workers=3 --seed=4'))
    assert ade20k == options.BuildAde20kOptions(image_format='jpg', num_shards=2, num_workers=3, seed=4)
    masks = cli.options_of('remove_gt_colormap', _line('--original_gt_folder=a --output_dir=b'))
    assert masks == options.RemoveColormapOptions(original_gt_folder='a', output_dir='b')


def test_builders_called_without_flags_look_where_they_always_did():
    assert cli.options_of('build_voc2012_data', []) == options.BuildVocOptions()
    assert cli.options_of('build_cityscapes_data', []) == options.BuildCityscapesOptions()
    assert cli.options_of('build_ade20k_data', []) == options.BuildAde20kOptions()
    assert cli.options_of('remove_gt_colormap', []) == options.RemoveColormapOptions()
    assert cli.options_of('demo', []) == options.DemoOptions()


# --- What a value means ----------------------------------------------------------------------------------------------


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
    given = with_named(['a,b', '--path=c', '~/d', '--x'], {'path': paths}, 'path')
    assert given == ['--path=a,b', '--path=c', '--path=~/d', '--x']
    values = Values(given, {'path': paths}, {})
    for word in given[:3]:
        values.parse('path', word.removeprefix('--path='))
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


# --- Mistakes that people make ---------------------------------------------------------------------------------------

# A command line, and what its message contains besides the flag: the fix.
MISTAKES = [
    (['--train_logdir', '=', 'foo'], ("space next to the '='", 'write --train_logdir=foo without')),
    (['--train_logdir=', 'foo'], ("space next to the '='", 'write --train_logdir=foo without')),
    (['--train_logdir', '=foo'], ("space next to the '='", 'write --train_logdir=foo without')),
    (['--fine_tune_batch_norm', '=', 'false'], ('write --fine_tune_batch_norm=false without',)),
    (['--Train_logdir=foo'], ('--Train_logdir:', 'write --train_logdir.')),
    (['--NoUpsample_logits'], ('--NoUpsample_logits:', 'write --noupsample_logits.')),
    (['--dataset=“cityscapes”'], ('--dataset=“cityscapes” contains curly quotes', 'write --dataset="cityscapes" with')),
    (['“--dataset=cityscapes”'], ('“--dataset=cityscapes” contains curly', 'write "--dataset=cityscapes" with')),
    (['–dataset=cityscapes'], ('–dataset=cityscapes', 'write --dataset=cityscapes with two hyphens')),
    (
        ['--label_weights={0,0.1,10}'],
        ('--label_weights={0,0.1,10} is', '--label_weights=0 --label_weights=0.1 --label_weights=10,', 'brackets'),
    ),
    (
        ['--label_weights=auto', '--label_weights=2'],
        ('--label_weights=auto --label_weights=2 is', 'either --label_weights=auto or numbers'),
    ),
    (
        ['--label_weights=1,auto'],
        ('--label_weights=1,auto is', '--label_weights=0.5 --label_weights=1.0, or --label_weights=auto.'),
    ),
    (
        ['--atrous_rates=[6, 12]'],
        ('--atrous_rates=[6, 12] is', 'write --atrous_rates=6 --atrous_rates=12,', 'brackets'),
    ),
    (
        ['--train_crop_size=(513,513)'],
        ('--train_crop_size=(513,513) is', 'write --train_crop_size=513,513,', 'brackets'),
    ),
    (['--atrous_rates=none'], ('--atrous_rates=none is', "Omit the flag for 'not set'.")),
    (['--atrous_rates', 'None'], ('--atrous_rates=None is', "Omit the flag for 'not set'.")),
    (['--tf_initial_checkpoint=None'], ('--tf_initial_checkpoint=None is', "Omit the flag for 'not set'.")),
    (
        ['--tf_initial_checkpoint=m/model.ckpt.index'],
        ('--tf_initial_checkpoint=m/model.ckpt.index is one of', 'prefix, --tf_initial_checkpoint=m/model.ckpt.'),
    ),
    (
        ['--tf_initial_checkpoint=m/model.ckpt-30.data-00000-of-00001'],
        ('m/model.ckpt-30.data-00000-of-00001 is one of', 'prefix, --tf_initial_checkpoint=m/model.ckpt-30.'),
    ),
    (['--train_logdr=foo'], ('Unknown flag --train_logdr: did you mean --train_logdir?',)),
    (['--train-split', 'val'], ('Unknown flag --train-split: did you mean --train_split?',)),
    (['--qqq=1'], ('Unknown flag --qqq: see deeplab train --helpfull.',)),
    (['--qqq=1', '--momentun=0.9'], ('--qqq: see deeplab train --helpfull.', '--momentun: did you mean --momentum?')),
    (
        ['--add_flipped_images'],
        (
            '--add_flipped_images (it belongs to eval, report, compare, networks, predict, vis, export_model)',
            'deeplab train --helpfull.',
        ),
    ),
    (['--fine_tune_batch_norm', 'false'], ("'false'", 'write --fine_tune_batch_norm=false with')),
    (['--atrous_rates', '6', '12', '18', '--seed=1'], ("'12 18'", 'write --atrous_rates=6,12,18 without')),
    (['--train_crop_size=[513,', '513]'], ("'513]'", 'write --train_crop_size=513,513 without')),
    (['records', 'logs'], ("'records logs'", 'written --flag=value')),
    (['--train_logdir', '--dataset_dir=x'], ('--train_logdir has no value', 'write --train_logdir=VALUE.')),
    (['--train_logdir'], ('--train_logdir has no value', 'write --train_logdir=VALUE.')),
    (['--noupsample_logits=1'], ('--noupsample_logits', '--upsample_logits=true or --upsample_logits=false')),
    (['--train_batch_size=8.5'], ('--train_batch_size=8.5 is not allowed', 'whole number, such as 8')),
    (['--momentum=nan'], ('--momentum=nan is not allowed', 'number, such as 0.5')),
    (['--upsample_logits=maybe'], ('--upsample_logits=maybe is not allowed', 'true or false')),
    (['--optimizer=sgd'], ('--optimizer=sgd is not allowed', 'one of adam, adamw, lamb, lars, momentum, rmsprop.')),
    (['--train_crop_size=513x513'], ('--train_crop_size=513x513 is not allowed', 'such as 513,513')),
    (
        ['--image_pyramid=0.5;1'],
        ('--image_pyramid=0.5;1 is not allowed', 'such as --image_pyramid=0.5 --image_pyramid=1.0.'),
    ),
    (['--train_crop_size=513'], ('--train_crop_size=513 is', 'write --train_crop_size=513,513.')),
    (['--train_crop_size=513,513,3'], ('--train_crop_size=513,513,3 is not allowed', 'two positive', '513,513.')),
    (['--num_clones=3'], ('--train_batch_size=8 is not allowed', '--num_clones=3', 'a multiple of 3')),
    (
        ['--accumulation_steps=3'],
        ('--accumulation_steps=3 is not allowed', '--train_batch_size=8', '1, 2, 4, 8 only', 'a multiple of 3'),
    ),
]


@pytest.mark.parametrize(('words', 'parts'), MISTAKES, ids=lambda value: value[0] if isinstance(value, list) else '')
def test_a_mistake_gets_one_line_with_the_fix(words, parts, capsys):
    assert cli.main(['train', *TRAIN, *words]) == cli.USAGE_STATUS
    said = capsys.readouterr()
    assert said.err.startswith('deeplab train: error: ')
    assert said.err.count('\n') == 1
    assert not [part for part in parts if part not in said.err], said.err
    assert said.out == ''


def test_all_missing_flags_are_named_at_once(capsys):
    assert cli.main(['train']) == cli.USAGE_STATUS
    said = capsys.readouterr().err
    assert '--train_logdir (folder for checkpoints and logs)' in said
    assert '--dataset_dir (folder of the TFRecord shards that a builder wrote)' in said
    assert cli.main(['vis', '--dataset_dir=', '--vis_logdir=vis']) == cli.USAGE_STATUS
    said = capsys.readouterr().err
    assert '--checkpoint_dir (' in said
    assert '--dataset_dir (' in said
    assert '--vis_logdir' not in said


@pytest.mark.parametrize('suffix', ['.index', '.meta', '.data-00000-of-00001'])
def test_one_file_of_a_checkpoint_to_evaluate(suffix, capsys):
    assert cli.main(['eval', f'--checkpoint_dir=logs/model.ckpt-30{suffix}']) == cli.USAGE_STATUS
    said = capsys.readouterr().err
    assert f'--checkpoint_dir=logs/model.ckpt-30{suffix} is one of the files of a checkpoint' in said
    assert 'prefix, --checkpoint_dir=logs/model.ckpt-30, or its folder, --checkpoint_dir=logs.' in said


def test_an_unknown_data_set(capsys):
    assert cli.main(['train', *TRAIN, '--dataset=voc']) == cli.USAGE_STATUS
    said = capsys.readouterr().err
    assert said.startswith("deeplab train: error: Unknown dataset 'voc'. Did you mean pascal_voc_seg? Known: ade20k, ")
    assert said.count('\n') == 1


def test_a_flag_file_that_does_not_exist(capsys):
    assert cli.main(['train', '--flagfile=nowhere.txt']) == cli.USAGE_STATUS
    said = capsys.readouterr().err
    assert said.startswith('deeplab train: error: Unable to open flagfile:')
    assert 'nowhere.txt' in said


@pytest.mark.parametrize(
    ('name', 'message'),
    [
        ('trian', "Unknown program 'trian'. Did you mean train? Known: "),
        ('xyz', "Unknown program 'xyz'. Known: demo, build_voc2012_data, "),
        ('--v=1', '--v=1 stands before the program: write deeplab PROGRAM --v=1. Known: demo, '),
    ],
)
def test_unknown_programs(name, message, capsys):
    assert cli.main([name, '--help']) == cli.USAGE_STATUS
    assert capsys.readouterr().err.startswith(f'deeplab: error: {message}')


# --- Running ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def stand_in(monkeypatch):
    """Replaces the module of the demo; returns the list of the options that it was run with."""
    module = types.ModuleType('deeplab.programs.demo.demo')
    module.calls = []
    module.result = types.SimpleNamespace(report='mIoU 0.7')

    def run(given, run_program):
        assert run_program is cli.run_program
        module.calls.append(given)
        logging.info('global step 10')
        if isinstance(module.result, BaseException):
            raise module.result
        return module.result

    module.run = run
    monkeypatch.setitem(sys.modules, 'deeplab.programs.demo.demo', module)
    monkeypatch.setattr(logging.get_absl_handler().python_handler, 'stream', sys.stderr)
    monkeypatch.setenv('TF_CPP_MIN_LOG_LEVEL', '2')
    verbosity = logging.get_verbosity()
    tensorflow = standard_logging.getLogger('tensorflow')
    level = tensorflow.level
    yield module
    logging.set_verbosity(verbosity)
    tensorflow.setLevel(level)


def test_a_run_logs_to_standard_error_and_reports_on_standard_output(stand_in, capsys):
    assert cli.main(['demo', '--steps=3', '--seed=1', '--workdir=here', '--logtostderr']) == 0
    said = capsys.readouterr()
    assert stand_in.calls == [options.DemoOptions('here', 3, 1)]
    assert said.out == 'mIoU 0.7\n'
    assert said.err.endswith('] global step 10\n')
    assert said.err.count('\n') == 1


def test_v_rules_the_log_of_one_run_alone(stand_in, capsys):
    assert cli.main(['demo', '--v=-1']) == 0
    assert capsys.readouterr().err == ''
    assert cli.main(['demo']) == 0
    assert 'global step 10' in capsys.readouterr().err


@pytest.mark.parametrize(
    ('result', 'status', 'message'),
    [
        (DataError('No such folder.'), cli.ERROR_STATUS, 'deeplab demo: error: No such folder.\n'),
        (KeyboardInterrupt(), 130, 'deeplab demo: error: interrupted\n'),
    ],
)
def test_an_error_of_the_user_s_has_no_stack_trace(stand_in, capsys, result, status, message):
    stand_in.result = result
    assert cli.main(['demo', '--v=-1']) == status
    assert capsys.readouterr() == ('', message)


def test_a_path_of_an_unknown_scheme_is_an_error_before_the_program_runs(stand_in, capsys):
    assert cli.main(['demo', '--workdir=foo://bucket/demo']) == cli.ERROR_STATUS
    assert stand_in.calls == []
    said = capsys.readouterr().err
    assert said.startswith(
        "deeplab demo: error: 'foo://bucket/demo' cannot be used: this TensorFlow knows file://, gs://"
    )


def test_a_defect_of_ours_keeps_its_stack_trace(stand_in):
    stand_in.result = ZeroDivisionError('ours')
    with pytest.raises(ZeroDivisionError, match='ours'):
        cli.main(['demo', '--v=-1'])


def test_what_a_builder_wrote_is_said(stand_in, capsys):
    val = {'images': 101, 'shards': 4, 'labeled': True, 'seconds': 1.5}
    stand_in.result = {'output_dir': 'records', 'splits': {'val': val, 'test': {**val, 'labeled': False}}}
    assert cli.main(['demo']) == 0
    assert capsys.readouterr().out == (
        'Written to records:\n  val: 101 images in 4 shards\n  test: 101 images in 4 shards, without masks\n'
    )
    stand_in.result = {'output_dir': 'masks', 'masks': 7, 'seconds': 0.1}
    assert cli.main(['demo']) == 0
    assert capsys.readouterr().out == 'Written to masks:\n  7 masks\n'


def test_a_stopped_program_s_status_is_handed_on(stand_in, capsys):
    stand_in.result = types.SimpleNamespace(report='Stopped at step 7.', status=143)
    assert cli.main(['demo']) == 143
    assert capsys.readouterr().out == 'Stopped at step 7.\n'


def test_a_program_that_runs_another(tmp_path, capsys):
    (tmp_path / 'palette').mkdir()
    mask = Image.fromarray(np.array([[0, 1], [2, 255]], np.uint8)).convert('P')
    mask.save(tmp_path / 'palette' / 'a.png')
    plain = tmp_path / 'plain'
    words = [f'--original_gt_folder={tmp_path / "palette"}', f'--output_dir={plain}']
    result = cli.run_program('remove_gt_colormap', words)
    assert result['masks'] == 1
    assert capsys.readouterr().out == f'Written to {plain}:\n  1 mask\n'
    assert [path.name for path in plain.iterdir()] == ['a.png']
    with pytest.raises(DataError, match=str(plain)):
        cli.run_program('remove_gt_colormap', [f'--original_gt_folder={plain}', f'--output_dir={plain}'])


@pytest.mark.parametrize('words', [['--version'], ['eval', '--help'], ['networks']])
def test_a_standard_output_that_is_full(monkeypatch, capsys, words):
    module = types.ModuleType('deeplab.programs.networks')
    module.run = lambda *_: types.SimpleNamespace(report='a table')
    monkeypatch.setitem(sys.modules, 'deeplab.programs.networks', module)
    with open('/dev/full', 'w') as full:
        monkeypatch.setattr(sys, 'stdout', full)
        assert cli.main(words) == cli.ERROR_STATUS
    line = 'deeplab: error: standard output cannot be written (No space left on device). Is the disk full?\n'
    assert capsys.readouterr().err == line


def test_what_cannot_be_written_is_shown_before_the_error(monkeypatch, capsys):
    def fail(*_):
        raise OutputError('the folder is full', 'a table')

    module = types.ModuleType('deeplab.programs.networks')
    module.run = fail
    monkeypatch.setitem(sys.modules, 'deeplab.programs.networks', module)
    assert cli.main(['networks']) == cli.ERROR_STATUS
    assert capsys.readouterr() == ('a table\n', 'deeplab networks: error: the folder is full.\n')
    with open('/dev/full', 'w', buffering=1) as full:
        monkeypatch.setattr(sys, 'stderr', full)
        assert cli.main(['networks']) == cli.ERROR_STATUS
        monkeypatch.undo()
        logging.get_absl_handler().python_handler.setStream(sys.stderr)
        with contextlib.suppress(OSError):  # what it holds cannot be written
            full.close()


def test_keras_waits_until_it_is_used(monkeypatch):
    for name in ('keras', 'tensorflow'):
        monkeypatch.delitem(sys.modules, name, raising=False)
    finders = list(sys.meta_path)
    with first_import.shortened():
        assert importlib.util.find_spec('keras') is not None  # TensorFlow looks for its folder
        for name in ('keras.src', 'sklearn', 'scipy', 'h5py'):
            with pytest.raises(ImportError):
                sys.meta_path[0].find_spec(name)
        assert importlib.util.find_spec('deeplab') is not None
        assert not gc.isenabled()
    assert gc.isenabled() and sys.meta_path == finders


def test_an_error_of_a_program_is_one_line_from_start_to_end(tmp_path, monkeypatch):
    """With the real TensorFlow, which logs much when it is loaded."""
    monkeypatch.delenv('TF_CPP_MIN_LOG_LEVEL', raising=False)  # whoever sets it sees more
    words = ['train', '--dataset_dir=nowhere', f'--train_logdir={tmp_path / "logs"}']
    done = subprocess.run([sys.executable, '-m', 'deeplab', *words], capture_output=True, text=True, timeout=120)
    assert done.returncode == cli.ERROR_STATUS
    assert done.stdout == ''
    assert done.stderr.startswith('deeplab train: error: ')
    assert "'nowhere'" in done.stderr
    assert done.stderr.count('\n') == 1


@pytest.mark.parametrize('spelling', [['-m', 'deeplab.eval'], ['deeplab/eval.py'], ['-m', 'deeplab', 'eval']])
def test_three_spellings_of_a_call(spelling):
    done = subprocess.run(
        [sys.executable, *spelling, '--eval_logdir=e', '--dataset_dir=d'],
        cwd=pathlib.Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == cli.USAGE_STATUS
    assert done.stderr.splitlines()[-1].startswith('deeplab eval: error: eval requires --checkpoint_dir (')


def test_help_and_version(capsys):
    assert cli.main(['--help']) == 0
    overview = capsys.readouterr().out
    assert [title for title in GROUPS if f'\n\n{title}:\n' in overview] == list(GROUPS)
    assert list(SUMMARIES) == [program.name for program in cli.PROGRAMS]  # of all, in the order of the table
    for program in cli.PROGRAMS:
        assert f'  {program.name} ' in overview
        assert program.summary in overview
    assert cli.main([]) == cli.USAGE_STATUS
    assert capsys.readouterr().out == overview
    assert start.main(['--help']) == 0
    assert capsys.readouterr().out == overview
    assert cli.main(['train', *TRAIN, '--help']) == 0
    text = capsys.readouterr().out
    assert text == cli.program_help(cli.find_program('train')) + '\n'
    assert cli.main(['train', '--helpfull']) == 0
    full = capsys.readouterr().out
    assert full == cli.program_help(cli.find_program('train'), is_full=True) + '\n'
    assert text.count('\n') < 130 < full.count('\n')
    assert 'nas_stem_output' in full and 'nas_stem_output' not in text and '--helpfull lists all' in text
    assert text.partition('--[no]fine_tune_batch_norm\n')[2].partition('\n  --')[0].endswith('Default: true.')
    assert cli.main(['help', 'train']) == 0
    assert capsys.readouterr().out == text
    assert cli.main(['--version']) == 0
    assert capsys.readouterr().out == f'deeplab {deeplab.__version__}\n'


def test_usage_shows_positional_arguments_and_report_no_crop_size_that_it_does_not_use():
    usage = {name: cli.program_help(cli.find_program(name)) for name in ('train', 'report', 'checkpoint', 'presets')}
    assert 'deeplab train --flag=' in usage['train']
    assert 'deeplab report RUN ... --flag=' in usage['report']
    assert 'deeplab checkpoint FILE --flag=' in usage['checkpoint']
    assert 'deeplab presets [NAME] --flag=' in usage['presets']
    assert '513,513.' in usage['train'] and 'Default: 513,513.' not in usage['report']


def test_names_keep_their_capitals_in_the_middle_of_a_sentence():
    assert [names.lower_first(text) for text in ('OpenVINO on', 'JSON file', 'A file', 'Names.')] == [
        'OpenVINO on',
        'JSON file',
        'a file',
        'names.',
    ]


def test_examples_in_the_help_are_lines_that_work():
    for program in cli.PROGRAMS:
        cli.options_of(program.name, program.example.split())


@pytest.mark.parametrize('name', ['build-voc2012-data', 'datasets/build_voc2012_data', 'build_voc2012_data.py'])
def test_other_spellings_of_a_program(name):
    assert cli.find_program(name).name == 'build_voc2012_data'
    assert cli.find_program('visualize').name == 'vis'


def test_help_and_mistakes_load_no_tensorflow():
    code = (
        'import sys; from deeplab import cli;'
        'cli.main(["train", "--help"]); cli.main(["train", "--train_logdir=a", "--dataset_dir=b", "--num_clones=3"]);'
        'loaded = {"tensorflow", "tf_slim"} & set(sys.modules); assert not loaded, loaded'
    )
    done = subprocess.run([sys.executable, '-c', code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert 'Usage: deeplab train' in done.stdout


def test_a_reader_of_the_help_may_leave_early():
    command = f'{sys.executable} -m deeplab train --help | head -1'
    done = subprocess.run(['bash', '-o', 'pipefail', '-c', command], capture_output=True, text=True, timeout=60)
    assert done.stderr == ''
    assert done.stdout.startswith('deeplab train:')


def test_errors_are_option_errors():
    with pytest.raises(OptionError):
        cli.options_of('train', ['--qqq'])
