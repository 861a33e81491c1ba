"""Mistakes on command lines: one line with the fix.

Covers cli/words.py and errors.py.
"""

import pytest

from deeplab import cli
from deeplab.errors import OptionError

TRAIN = ['--train_logdir=logs', '--dataset_dir=records']


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
    (['--train_crop_size=513,513', 'train_batch_size=1'], ("'train_batch_size=1'", ' write --train_batch_size=1.')),
    (['--train_logdir', '--dataset_dir=x'], ('--train_logdir has no value', 'write --train_logdir=VALUE.')),
    (['--train_logdir'], ('--train_logdir has no value', 'write --train_logdir=VALUE.')),
    (['--noupsample_logits=1'], ('--noupsample_logits', '--upsample_logits=true or --upsample_logits=false')),
    (['--train_batch_size=8.5'], ('--train_batch_size=8.5 is not allowed', 'whole number, such as 8')),
    (['--momentum=nan'], ('--momentum=nan is not allowed', 'number, such as 0.5')),
    (['--upsample_logits=maybe'], ('--upsample_logits=maybe is not allowed', 'true or false')),
    (['--optimizer=adm'], ('--optimizer=adm is not allowed', 'did you mean adam?')),
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


@pytest.mark.parametrize('first', ['--train_split=mine', '# of a night\n--train_split=mine'])
def test_a_flag_file_with_a_byte_order_mark(tmp_path, first):
    (tmp_path / 'flags.txt').write_text(f'{first}\n--dataset_dir=data\n--train_logdir=log\n', 'utf-8-sig')
    options = cli.options_of('train', [f'--flagfile={tmp_path}/flags.txt'])
    assert options.dataset.split == 'mine' and options.train_logdir == 'log'


def test_a_flag_file_in_another_encoding(tmp_path, capsys):
    (tmp_path / 'flags.txt').write_text('--train_logdir=log', 'utf-16')
    assert cli.main(['train', f'--flagfile={tmp_path}/flags.txt']) == cli.USAGE_STATUS
    said = capsys.readouterr().err
    assert f'--flagfile={tmp_path}/flags.txt: ' in said and 'not text in UTF-8. Save it as UTF-8.' in said


def test_errors_are_option_errors():
    with pytest.raises(OptionError):
        cli.options_of('train', ['--qqq'])


@pytest.mark.parametrize(
    ('words', 'network', 'machine'),
    [
        (['--task=panoptic'], 'panoptic', 0),
        (['-task', 'panoptic'], 'panoptic', 0),
        (['--task', '2', '--network_task=depth'], 'depth', 2),
        (['--task=1', '--task=depth'], 'depth', 1),
    ],
)
def test_the_task_of_a_network_has_a_name_and_a_machine_a_number(words, network, machine):
    values = cli.parse_flags(cli.find_program('train'), [*TRAIN, *words])
    assert (values['network_task'], values['task']) == (network, machine)
