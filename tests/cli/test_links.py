"""Flags that are made of the declarations of options: defaults, copies, and names in the messages of libraries.

Covers options/fields.py and the declarations in options/.
"""

import dataclasses
import re
import sys
import types

import pytest

from deeplab import cli, options, wording
from deeplab.cli import links, parse, words
from deeplab.cli.program import names_in_messages
from deeplab.errors import OptionError
from deeplab.options import fields

TRAIN = ['--train_logdir=logs', '--dataset_dir=records']


@pytest.mark.parametrize(
    ('kind', 'field', 'flag_kind', 'default'),
    [
        (options.OptimizerOptions, 'weight_decay', 'float', 4e-5),
        (options.OptimizerOptions, 'clip_gradient_norm', 'float', None),
        (options.TrainOptions, 'xla', 'boolean', False),
        (options.TrainOptions, 'train_logdir', 'string', None),
        (options.WaitOptions, 'interval_secs', 'integer', 300),
        (options.PredictionOptions, 'scales', 'repeated float', [1.0]),
        (options.ModelOptions, 'image_pooling_stride', 'list', ['1', '1']),
        (options.AsppOptions, 'rates', 'repeated integer', None),
        (options.OptimizerOptions, 'name', 'enum', 'momentum'),
        (options.ModelOptions, 'quantize_delay_step', 'integer', -1),  # "never" of the original's flag
    ],
)
def test_type_and_default_come_from_the_field(kind, field, flag_kind, default):
    flag = links.flag_of(kind, field)
    assert (flag.kind, flag.default, flag.fields) == (flag_kind, default, (f'{kind.__name__}.{field}',))


def test_an_option_is_added_by_one_field(monkeypatch, capsys):
    """The flag, its help, its check and the value in the options follow from the declaration."""

    @dataclasses.dataclass(frozen=True)
    class LossOptions(options.LossOptions):
        tail: int = fields.declared(3, 'Rows below {stride}.', flag='loss_tail', range='[0, 9]')

    monkeypatch.setitem(links._OPTIONS, 'LossOptions', LossOptions)
    train = cli.find_program('train')
    loss = words.Group('Loss', links.of(LossOptions))
    program = dataclasses.replace(train, groups=tuple(loss if g.title == 'Loss' else g for g in train.groups))
    values = parse.parse_flags(program, [*TRAIN, '--loss_tail=5'])
    assert links.filled(LossOptions, values, label_weights=None).tail == 5
    assert '  --loss_tail=N\n      Rows below --loss_stride. Default: 3.\n' in cli.program_help(program, is_full=True)
    with pytest.raises(OptionError, match=r'^tail=10 is not allowed: it must be from 0 to 9\.$'):
        LossOptions(tail=10)


def test_flags_of_files_and_folders_are_paths_in_every_program():
    """In a path, ~ is the home folder, and an unknown scheme is an error."""
    words_of_paths = re.compile('.*(_dir|logdir|workdir|_folder|_root|_path|_file|_json|rename_map)')
    others = {
        'annotations',
        'checkpoints',
        'class_map',
        'colors',
        'data',
        'dataset',
        'directory',
        'exports',
        'file',
        'fix',
        'folder',
        'folds',
        'from',
    }
    others |= {'html', 'inputs', 'labeled', 'output', 'published', 'run', 'target', 'tf_initial_checkpoint'}
    no_paths = {'instance_dir', 'log_dir'}  # the former is in another folder, the latter is read by absl
    for program in cli.PROGRAMS:
        for name, flag in program.flags.items():
            expected = name in others or (words_of_paths.fullmatch(name) and name not in no_paths)
            assert flag.is_path == bool(expected) or 'string' not in flag.kind, (program.name, name)


def test_every_declared_field_has_a_flag_in_some_program():
    names = {field for program in cli.PROGRAMS for field in program.flag_names}
    declared = {
        f'{name}.{field}': each
        for name, kind in links._OPTIONS.items()
        for field, each in fields.declarations(kind).items()
    }
    assert {name for name, each in declared.items() if each.flag is not None or each.with_flag_of} <= names


def test_no_two_flags_of_a_program_set_one_field():
    for program in cli.PROGRAMS:
        fields = [field for flag in program.flags.values() for field in flag.fields]
        assert len(fields) == len(set(fields)), program.name
        assert len(program.flag_names) >= len(fields), program.name


# Their defaults are those of the original's flags, or depend on the program.
OTHER_DEFAULTS = {
    'batch_norm_decay', 'colormap_type', 'dense_prediction_cell_json', 'ignore_missing_vars',
    'max_number_of_evaluations', 'max_number_of_iterations', 'quantize_delay_step',
    'train_split', 'eval_split', 'vis_split', 'train_crop_size', 'eval_crop_size', 'vis_crop_size', 'crop_size',
    'output_stride', 'dataset', 'image_channels', 'num_classes', 'against', 'job_name', 'task', 'output',
}  # fmt: skip


def test_a_flag_has_the_default_of_its_field():
    for program in cli.PROGRAMS:
        for flag in program.flags.values():
            if flag.fields and flag.name not in OTHER_DEFAULTS:
                kind, _, field = flag.fields[0].partition('.')
                declared = fields.declarations(links._OPTIONS[kind])
                if field in declared:
                    assert flag.default == declared[field].flag_default, (program.name, flag.name)


def test_inherited_fields_have_the_names_of_all_their_classes():
    names = cli.find_program('build_ade20k_data').flag_names
    assert names['BuilderOptions.seed'] == names['BuildAde20kOptions.seed'] == 'seed'
    assert names['BuildAde20kOptions.output_dir'] == names['BuilderOptions.output_dir'] == 'output_dir'


def test_messages_name_flags_on_a_command_line_and_fields_in_python():
    with pytest.raises(OptionError, match='^momentum=2 is not allowed'):
        options.OptimizerOptions(settings={'momentum': 2})
    with pytest.raises(OptionError, match=r'^--momentum=2\.0 is not allowed'):
        cli.options_of('train', [*TRAIN, '--momentum=2'])
    with pytest.raises(OptionError, match='^--inference_scales=0.0 is not allowed'):
        cli.options_of('export_model', ['--checkpoint_path=c', '--export_path=e', '--inference_scales=0'])
    assert not wording.is_set_by_flag('OptimizerOptions.momentum')


@pytest.mark.parametrize(
    ('program', 'field', 'flag'),
    [
        ('train', 'ModelOptions.crop_size', '--train_crop_size'),
        ('train', 'ValidationOptions.crop_size', '--eval_crop_size'),
        ('eval', 'ModelOptions.crop_size', '--eval_crop_size'),
        ('vis', 'DatasetOptions.split', '--vis_split'),
        ('export_model', 'PredictionOptions.scales', '--inference_scales'),
        ('eval', 'TrainOptions.train_logdir', '--train_logdir'),  # a flag of another program
        ('checkpoint', 'ModelOptions.crop_size', 'crop_size'),  # whose name depends on the program
    ],
)
def test_a_flag_has_the_name_of_its_program(program, field, flag):
    with wording.flag_names(names_in_messages(cli.find_program(program))):
        assert wording.option(field) == flag


def test_a_program_that_runs_names_flags(monkeypatch, capsys):
    def run(given):
        raise OptionError(f'{wording.option("NetworksOptions.variants", given.variants)} is bad.')

    module = types.ModuleType('deeplab.programs.networks')
    module.run = run
    monkeypatch.setitem(sys.modules, 'deeplab.programs.networks', module)
    assert cli.main(['networks', '--model_variant=mobilenet_v2']) == cli.ERROR_STATUS
    assert capsys.readouterr().err == 'deeplab networks: error: --model_variant=mobilenet_v2 is bad.\n'
    with pytest.raises(OptionError, match='^--model_variant=mobilenet_v2 is bad'):
        cli.run_program('networks', ['--model_variant=mobilenet_v2'])
