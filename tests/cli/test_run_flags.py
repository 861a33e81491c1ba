"""Network flags that eval, vis and export take from the run.json beside a checkpoint.

Covers cli/parse.py, and of cli/run.py what waits for a training.
"""

import json

import pytest

from deeplab import cli
from deeplab.cli import early, run, to_options
from deeplab.cli.parse import given_fields
from deeplab.datasets import segmentation_dataset
from deeplab.errors import DataError
from deeplab.evaluation import waiting
from tests.helpers import checkpoint_files

TRAIN = ['--train_logdir=log', '--dataset_dir=records', '--depth_multiplier=0.5', '--atrous_rates=6']
TRAIN += ['--atrous_rates=12', '--decoder_output_stride=4', '--quantize_delay_step=7', '--quantize_per_channel']
FORM = {}


@pytest.fixture(autouse=True, params=['data', 'command line'])
def form(request, monkeypatch):
    """How a run.json states what was given: as data or, from older versions, by the command line alone."""
    monkeypatch.setitem(FORM, 'is_data', request.param == 'data')


@pytest.fixture
def logdir(tmp_path):
    folder = tmp_path / 'log'
    folder.mkdir()
    return write_run(folder, TRAIN)


def write_run(folder, command, **facts):
    model = {'outputs_to_num_classes': {'semantic': 8}, 'input_channels': 4}
    options = {'model': model, 'dataset': {'name': 'pascal_voc_seg'}}
    run = {'command': command, 'folder': str(folder.parent), 'options': options, **facts}
    if FORM['is_data']:
        set_words = [word for word in [*command, *(facts.get('recipe_flags') or ())] if not word.startswith('--recipe')]
        given = given_fields(cli.parse_flags(cli.find_program('train'), set_words))
        run |= {'command': ['--not_read'], 'given': given, 'plugins': []}
    (folder / 'run.json').write_text(json.dumps({'format': 1, 'runs': [run]}))
    return folder


def parsed(program, path, *words):
    given = {
        'eval': ['--dataset_dir=records', '--eval_logdir=e', f'--checkpoint_dir={path}'],
        'vis': ['--dataset_dir=records', '--vis_logdir=v', f'--checkpoint_dir={path}'],
        'export_model': ['--export_path=x.pb', f'--checkpoint_path={path}'],
    }
    return cli.parse_flags(cli.find_program(program), [*given[program], *words])


@pytest.mark.parametrize('program', ['eval', 'vis', 'export_model'])
@pytest.mark.parametrize('place', ['', 'model.ckpt-7', 'best', 'best/model.ckpt-7'])
def test_what_the_training_line_had_is_taken(logdir, program, place):
    (logdir / 'best').mkdir()
    values = parsed(program, logdir / place)
    model = values['depth_multiplier'], values['atrous_rates'], values['decoder_output_stride']
    assert model == (0.5, [6, 12], [4])
    assert (values['quantize_delay_step'], values['quantize_per_channel']) == (7, True)
    (note,) = values.notes
    assert f'{logdir}/run.json' in note
    assert '--depth_multiplier=0.5 --quantize_delay_step=7 --quantize_per_channel=true' in note
    assert '--atrous_rates=6,12 --decoder_output_stride=4' in note


def test_flags_that_the_training_emptied_are_not_set(logdir):
    write_run(logdir, [*TRAIN, '--atrous_rates=', '--decoder_output_stride='])
    values = parsed('eval', logdir)
    assert (values['atrous_rates'], values['decoder_output_stride'], values['depth_multiplier']) == (None, [], 0.5)


def test_the_line_wins_and_so_does_its_preset(logdir):
    values = parsed('eval', logdir, '--depth_multiplier=1.0', '--atrous_rates=18')
    assert (values['depth_multiplier'], values['atrous_rates']) == (1.0, [18])
    write_run(logdir, [*TRAIN, '--model_variant=mobilenet_v2', '--aspp_convs_filters=64'])
    values = parsed('eval', logdir, '--preset=xception65_coco_voc_trainval')
    assert (values['model_variant'], values['aspp_convs_filters']) == ('xception_65', 64)
    assert values['atrous_rates'] != [6, 12]


def test_defaults_of_the_training_and_flags_that_are_no_networks_stay(logdir):
    write_run(logdir, [*TRAIN, '--min_resize_value=100', '--batch_norm_decay=0.9'])
    values = parsed('export_model', logdir)
    assert values['output_stride'] == 8  # the default of export_model, as run.json does not have it
    assert values['min_resize_value'] is None
    assert not values.given('batch_norm_decay')
    for words, is_noted in (([], True), (['--output_stride=16'], False), (['--output_stride=8'], False)):
        write_run(logdir, [*TRAIN, *words])
        values = parsed('export_model', logdir)
        to_options.export_options(values)
        assert any('default of export_model' in note for note in values.notes) == is_noted


def test_export_takes_the_output_stride_that_was_the_default_of_the_training(logdir):
    model = {'outputs_to_num_classes': {'semantic': 8}, 'input_channels': 4, 'output_stride': 16}
    write_run(logdir, TRAIN, options={'model': model, 'dataset': {'name': 'pascal_voc_seg'}})
    values = parsed('export_model', logdir)
    assert to_options.export_options(values).model.output_stride == 16
    (note,) = values.notes
    assert '--output_stride=16' in note
    assert parsed('export_model', logdir, '--output_stride=8')['output_stride'] == 8
    assert parsed('eval', logdir)['output_stride'] == 16


def test_resizing_that_eval_and_vis_lack_is_a_warning(logdir):
    write_run(logdir, [*TRAIN, '--min_resize_value=100', '--max_resize_value=200'])
    for program in ('eval', 'vis'):
        (warning,) = parsed(program, logdir).warnings
        assert 'resized images: --min_resize_value=100 --max_resize_value=200. Without' in warning
        assert not parsed(program, logdir, '--min_resize_value=50').warnings
    assert not parsed('export_model', logdir).warnings
    write_run(logdir, TRAIN)
    assert not parsed('eval', logdir).warnings


def test_atrous_rates_of_another_output_stride_are_a_warning(logdir):
    model = {'outputs_to_num_classes': {'semantic': 8}, 'output_stride': 16}
    write_run(logdir, TRAIN, options={'model': model})
    for program in ('eval', 'export_model'):
        (warning,) = parsed(program, logdir, '--output_stride=8').warnings
        assert 'atrous rates 6, 12' in warning and '(12, 24)' in warning
        assert not parsed(program, logdir, '--output_stride=8', '--atrous_rates=12,24,36').warnings
        assert not parsed(program, logdir, '--output_stride=16').warnings
        assert not parsed(program, logdir).warnings
    # These find the network of each checkpoint, and warn then.
    assert not cli.parse_flags(
        cli.find_program('predict'), ['a.jpg', f'--checkpoint_dir={logdir}', '--output_stride=8']
    ).warnings
    write_run(logdir, TRAIN[:3], options={'model': model})
    assert not parsed('eval', logdir, '--output_stride=8').warnings


def test_a_preset_of_the_training_is_taken(logdir):
    write_run(logdir, ['--train_logdir=log', '--dataset_dir=records', '--preset=xception65_coco_voc_trainval'])
    values = parsed('eval', logdir)
    assert values['model_variant'] == 'xception_65'
    assert values['decoder_output_stride'] == [4]


@pytest.mark.parametrize(('recorded', 'stride'), [(['--decoder_output_stride=4'], [4]), ([], []), (None, [])])
def test_a_recipe_sets_what_it_set_in_the_training(logdir, recorded, stride):
    write_run(logdir, ['--train_logdir=log', '--dataset_dir=records', '--recipe=small_data'], recipe_flags=recorded)
    values = parsed('eval', logdir)
    assert (values['decoder_output_stride'] or []) == stride
    assert values['decoder_filters'] == 256


def test_export_takes_classes_and_channels(logdir):
    values = parsed('export_model', logdir)
    assert (values['num_classes'], values['image_channels']) == (8, 4)
    values = parsed('export_model', logdir, '--num_classes=3', '--image_channels=1')
    assert (values['num_classes'], values['image_channels']) == (3, 1)
    run = json.loads((logdir / 'run.json').read_text())
    run['runs'][0]['options']['dataset'] = {'name': 'wide.json'}
    (logdir / 'run.json').write_text(json.dumps(run))
    assert parsed('export_model', logdir)['image_bits'] == 8  # there is no such data set here
    (logdir / 'wide.json').write_text(json.dumps({'num_classes': 8, 'image_bits': 16, 'splits': ['train']}))
    values = parsed('export_model', logdir)
    assert values['image_bits'] == 16 and '--image_bits=16' in values.notes[0]
    assert parsed('export_model', logdir, '--image_bits=8')['image_bits'] == 8


def test_a_relative_path_is_that_of_the_training(logdir, monkeypatch, tmp_path):
    (tmp_path / 'cell.json').write_text('[]')
    write_run(logdir, [*TRAIN, '--dense_prediction_cell_json=cell.json'])
    (tmp_path / 'elsewhere').mkdir()
    monkeypatch.chdir(tmp_path / 'elsewhere')
    assert parsed('eval', logdir)['dense_prediction_cell_json'] == str(tmp_path / 'cell.json')


@pytest.mark.parametrize('place', ['other', 'log/model.ckpt', 'nowhere/model.ckpt-5'])
def test_checkpoints_without_a_run_of_their_own_are_as_before(logdir, tmp_path, place):
    """A published checkpoint in a training's folder does not belong to that training."""
    (tmp_path / 'other').mkdir()
    values = parsed('eval', tmp_path / place)
    assert values['depth_multiplier'] == 1.0
    (note,) = values.notes
    assert 'run.json' not in note


def of_dataset(logdir, name):
    run = json.loads((logdir / 'run.json').read_text())
    run['runs'][0]['options']['dataset'] = {'name': name}
    (logdir / 'run.json').write_text(json.dumps(run))


@pytest.mark.parametrize('program', ['eval', 'vis'])
@pytest.mark.parametrize('place', ['', 'model.ckpt-7', 'best'])
def test_the_data_set_is_that_of_the_training_where_the_records_state_none(logdir, program, place):
    (logdir / 'best').mkdir()
    of_dataset(logdir, 'camvid')
    values = parsed(program, logdir / place)
    assert to_options.dataset_and_model(values)[1].num_classes == 11
    assert f'Flag from {logdir}/run.json, as it is not given: --dataset=camvid' in values.notes
    assert parsed(program, logdir / place, '--dataset=cityscapes')['dataset'] == 'cityscapes'
    assert parsed(program, logdir, '--preset=xception65_ade20k_train')['dataset'] == 'ade20k'


def test_a_description_beside_the_records_comes_before_the_data_set_of_the_training(logdir, tmp_path):
    of_dataset(logdir, 'camvid')
    (tmp_path / 'own').mkdir()
    (tmp_path / 'own' / 'dataset.json').write_text(json.dumps({'num_classes': 8, 'splits': ['val']}))
    values = parsed('eval', logdir, f'--dataset_dir={tmp_path}/own')
    assert values['dataset'] == f'{tmp_path}/own/dataset.json'


def test_a_description_that_the_training_was_given_is_looked_for_beside_its_run(logdir, tmp_path):
    (tmp_path / 'own.json').write_text(json.dumps({'num_classes': 8, 'splits': ['val']}))
    of_dataset(logdir, 'own.json')
    assert parsed('eval', logdir)['dataset'] == f'{tmp_path}/own.json'


@pytest.mark.parametrize('name', ['os', 'gone.yaml'])
def test_a_data_set_that_is_assumed_is_named_with_the_flag(logdir, tmp_path, name):
    of_dataset(logdir, name)
    *_, note = parsed('eval', tmp_path / 'other').notes
    assert note.startswith('The data set is not stated: --dataset=pascal_voc_seg with 21 classes is assumed.')
    note = next(note for note in parsed('eval', logdir).notes if 'is assumed' in note)
    assert f"The data set of {logdir}/run.json, '{name}', is not known here: --dataset=pascal_voc_seg" in note
    assert not any('is assumed' in note for note in parsed('eval', logdir, '--dataset=pascal_voc_seg').notes)


@pytest.mark.parametrize('text', ['nonsense', '{}', '{"runs": [{"command": [], "given": []}]}'])
def test_a_manifest_that_cannot_be_read_is_passed_over(logdir, text):
    (logdir / 'run.json').write_text(text)
    assert parsed('eval', logdir)['depth_multiplier'] == 1.0


@pytest.mark.parametrize(
    ('run', 'reason'),
    [
        ({'command': ['--no_such_flag=1']}, 'Unknown flag --no_such_flag'),
        ({'given': {'ModelOptions.no_such': 1}}, 'There is no option ModelOptions.no_such'),
        ({'given': {'ModelOptions.depth_multiplier': [1, 2]}}, '--depth_multiplier=1,2 is not allowed'),
        ({'given': {'ModelOptions.depth_multiplier': None}}, '--depth_multiplier= is not allowed'),
        ({'given': {'AsppOptions.rates': {'6': 12}}}, "--atrous_rates={'6': 12} is not allowed"),
    ],
)
def test_what_cannot_be_used_is_said(logdir, run, reason):
    network = {'AsppOptions.filters': 64}
    if 'given' in run:
        run = {'command': [], 'given': network | run['given']}
    (logdir / 'run.json').write_text(json.dumps({'runs': [run]}))
    values = parsed('eval', logdir)
    assert (values['depth_multiplier'], values['aspp_convs_filters']) == (1.0, 256)
    assert any(f'The flags in {logdir}/run.json cannot be used: {reason}' in note for note in values.notes)


@pytest.mark.parametrize('program', ['eval', 'vis'])
def test_a_program_that_is_started_before_the_training_takes_its_flags(program, tmp_path, monkeypatch, caplog):
    folder = tmp_path / 'log'
    values = parsed(program, folder, '--output_stride=8', '--timeout_secs=30')
    made = cli.find_program(program).to_options(values)
    assert made.model.depth_multiplier == 1.0
    with pytest.raises(DataError):  # records that do not exist are no reason to wait
        run.with_awaited_run(cli.find_program(program), values, made)
    monkeypatch.setattr(segmentation_dataset.DataSource, 'split', lambda source: None)

    def begin(directory, wait):
        assert (directory, wait.timeout_secs) == (str(folder), 30)
        folder.mkdir()
        write_run(folder, TRAIN)
        return iter([str(folder)])

    monkeypatch.setattr(waiting, 'rounds', begin)
    with caplog.at_level('INFO'):
        found = run.with_awaited_run(cli.find_program(program), values, made)
    assert (found.model.depth_multiplier, found.model.output_stride) == (0.5, 8)
    assert f'{folder}/run.json' in caplog.text and '--depth_multiplier=0.5' in caplog.text
    monkeypatch.setattr(waiting, 'rounds', None)
    assert run.with_awaited_run(cli.find_program(program), values, found) is found  # it was there at the start


@pytest.mark.parametrize('program', ['eval', 'vis'])
def test_a_checkpoint_without_a_run_is_not_awaited(program, tmp_path):
    checkpoint_files.write(tmp_path / 'log' / 'model.ckpt-1', {'weight': [1.0]})
    values = parsed(program, tmp_path / 'log')
    made = cli.find_program(program).to_options(values)
    assert run.with_awaited_run(cli.find_program(program), values, made) is made


@pytest.mark.parametrize('program', ['eval', 'vis'])
def test_a_folder_that_does_not_exist_is_named_at_once(program, tmp_path, caplog):
    made = cli.find_program(program).to_options(parsed(program, tmp_path / 'nowhere'))
    early.announce_wait(made)
    assert f"'{tmp_path}/nowhere' does not exist yet. Waiting for" in caplog.text
    caplog.clear()
    for place in ('', 'nowhere/model.ckpt-5'):  # which are said when they are looked for
        early.announce_wait(cli.find_program(program).to_options(parsed(program, tmp_path / place)))
    assert not caplog.text
