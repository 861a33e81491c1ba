"""Flags that are linked to fields of options: defaults, copies, and names in the messages of libraries."""

import sys
import types

import pytest

from deeplab import cli, options, wording
from deeplab.cli import links
from deeplab.cli.program import names_in_messages
from deeplab.errors import OptionError

TRAIN = ['--train_logdir=logs', '--dataset_dir=records']


@pytest.mark.parametrize(
    ('field', 'kind', 'flag_kind', 'default'),
    [
        ('OptimizerOptions.weight_decay', None, 'float', 4e-5),
        ('OptimizerOptions.clip_gradient_norm', None, 'float', None),
        ('TrainOptions.xla', None, 'boolean', False),
        ('TrainOptions.train_logdir', None, 'string', None),
        ('WaitOptions.interval_secs', 'integer', 'integer', 300),
        ('PredictionOptions.scales', 'repeated float', 'repeated float', [1.0]),
        ('ModelOptions.image_pooling_stride', 'list', 'list', ['1', '1']),
        ('AsppOptions.rates', 'repeated integer', 'repeated integer', None),
    ],
)
def test_type_and_default_come_from_the_field(field, kind, flag_kind, default):
    flag = links.linked('name', field, 'Meaning.', kind=kind)
    assert (flag.kind, flag.default, flag.fields) == (flag_kind, default, (field,))


def test_choices_make_an_enum():
    assert links.linked('name', 'OptimizerOptions.name', 'Meaning.', choices=('a',)).kind == 'enum'


@pytest.mark.parametrize('field', ['OptimizerOptions.momentun', 'Options.momentum', 'momentum'])
def test_only_fields_can_be_linked(field):
    with pytest.raises(AttributeError, match=field):
        links.linked('name', field, 'Meaning.')


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
                assert flag.default == links.default_of(flag.fields[0], flag.kind), (program.name, flag.name)


def test_inherited_fields_have_the_names_of_all_their_classes():
    names = cli.find_program('build_ade20k_data').flag_names
    assert names['BuilderOptions.seed'] == names['BuildAde20kOptions.seed'] == 'seed'
    assert names['BuildAde20kOptions.output_dir'] == names['BuilderOptions.output_dir'] == 'output_dir'


def test_messages_name_flags_on_a_command_line_and_fields_in_python():
    with pytest.raises(OptionError, match='^momentum=2 is not allowed'):
        options.OptimizerOptions(momentum=2)
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
