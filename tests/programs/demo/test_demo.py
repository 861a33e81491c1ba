"""The demo: its programs, its output, and folders that are not empty."""

import dataclasses
import json
import re
import shlex

import numpy as np
import pytest
from PIL import Image

from deeplab import cli
from deeplab.errors import DataError, OptionError
from deeplab.options import DemoOptions
from deeplab.programs.demo import dataset, demo, instances, scenes

SMALL = demo.Settings(
    train_scenes=8,
    val_scenes=3,
    height=64,
    width=80,
    rows=2,
    network=('--model_variant=toy', '--aspp_convs_filters=8', '--decoder_output_stride=4', '--decoder_filters=8'),
    training=('--train_batch_size=2', '--optimizer=adam', '--batch_norm_decay=0.9'),
)
TINY = dataclasses.replace(SMALL, train_scenes=2, val_scenes=2, height=32, width=48)
# The decoders of the task belong to its outputs.
PANOPTIC = dataclasses.replace(
    SMALL, network=('--task=panoptic', '--model_variant=toy', '--aspp_convs_filters=8', '--center_sigma=3')
)
TINY_PANOPTIC = dataclasses.replace(PANOPTIC, train_scenes=2, val_scenes=2, height=32, width=48)


class FakePrograms:
    """Replaces the command line: records the calls, and writes the files that the demo reads."""

    def __init__(self, statuses=()):
        self.calls = []
        self.statuses = dict(statuses)

    def __call__(self, name, flags):
        self.calls.append(name)
        options = dict(flag[2:].split('=', 1) for flag in flags if '=' in flag)
        if name == 'eval':
            folder = demo.pathlib.Path(options['eval_logdir'])
            folder.mkdir(exist_ok=True)
            of_classes = dict.fromkeys(scenes.CLASS_NAMES, 0.5)
            figures = {'miou': 0.5, 'class_iou': of_classes}
            if '--task=panoptic' in flags:
                figures |= {'metrics': {'panoptic': {'pq': 0.25}}, 'class_metrics': {'panoptic': {'pq': of_classes}}}
            (folder / 'metrics-4.json').write_text(json.dumps(figures))
        if name == 'vis':
            kinds = instances.KINDS if '--task=panoptic' in flags else ()
            for kind in ('raw_segmentation_results', *kinds):
                folder = demo.pathlib.Path(options['vis_logdir']) / kind
                folder.mkdir(parents=True, exist_ok=True)
                for number in range(2):
                    Image.fromarray(np.zeros((32, 48), np.uint8)).save(folder / f'val_{number:04d}.png')
        return type('Result', (), {'status': self.statuses.get(name, 0)})()


def options(tmp_path, **changes) -> DemoOptions:
    return DemoOptions(**{'workdir': str(tmp_path / 'work'), 'steps': 4, 'seed': 0, **changes})


def command_lines(report: str) -> list[str]:
    return report.split('to copy:\n')[1].strip().split('\n\n')


def test_the_demo_runs_the_whole_job(tmp_path, toy_network):
    result = demo.run(options(tmp_path), cli.run_program, SMALL)
    work = tmp_path / 'work'
    assert (work / 'train/model.ckpt-4.index').exists()
    figures = json.loads((work / 'eval/metrics-4.json').read_text())
    assert result.miou == figures['miou'] and figures['images'] == 3
    assert set(figures['class_iou']) == set(scenes.CLASS_NAMES)
    assert len(list((work / 'vis/segmentation_results').glob('*_prediction.png'))) == 3
    with Image.open(result.sheet) as sheet:
        assert sheet.width > 1000
    assert f'mIoU {result.miou:.3f} on 3 validation scenes' in result.report


@pytest.mark.slow
def test_the_panoptic_demo_runs_the_whole_job(tmp_path, toy_network):
    result = demo.run(options(tmp_path, task='panoptic'), cli.run_program, PANOPTIC)
    work = tmp_path / 'work'
    figures = json.loads((work / 'eval/metrics-4.json').read_text())
    assert result.miou == figures['miou'] and result.pq == figures['metrics']['panoptic']['pq']
    assert 0 <= result.baseline_pq <= 1
    assert result.report.split('\n')[0].endswith(
        f'PQ {result.pq:.3f} and mIoU {result.miou:.3f} on 3 validation scenes.'
    )
    assert f': {result.baseline_pq:.3f}.' in result.report.split('\n')[1]
    with Image.open(result.sheet) as sheet:
        assert sheet.width > 1000


@pytest.mark.slow
def test_a_short_demo_learns(tmp_path):
    settings = demo.Settings(train_scenes=60, val_scenes=12, height=96, width=128, rows=2)
    result = demo.run(options(tmp_path, steps=120), cli.run_program, settings)
    assert result.miou >= 0.35  # one class everywhere has less than 0.05


@pytest.mark.long
def test_the_demo_learns_what_color_does_not_tell(tmp_path):
    # One seed here; benchmarks/demo_seeds.py does three, and the clock.
    result = demo.run(DemoOptions(workdir=str(tmp_path / 'work')), cli.run_program)
    assert result.miou >= 0.70


def test_the_reported_lines_are_the_commands_and_parse(tmp_path):
    result = demo.run(options(tmp_path, workdir=str(tmp_path / 'a folder')), FakePrograms(), TINY)
    lines = command_lines(result.report)
    assert len(lines) == 4
    programs = []
    for line, command in zip(lines, result.commands, strict=True):
        words = shlex.split(line)[len(demo.launcher()) :]
        assert words == [command.program, *command.flags]
        parsed = cli.options_of(words[0], words[1:])
        programs.append(words[0])
        if words[0] == 'train':
            assert parsed.number_of_steps == 4 and parsed.train_logdir == str(tmp_path / 'a folder' / 'train')
    assert programs == ['build_voc2012_data', 'train', 'eval', 'vis']


def test_the_demos_own_settings_parse(tmp_path):
    paths = demo.paths_in(tmp_path)
    paths.scenes.mkdir()
    (paths.scenes / dataset.DESCRIPTION).write_text(json.dumps(dataset.description({'train': 1, 'val': 1})))
    parsed = [cli.options_of(c.program, c.flags) for c in demo.commands_for(paths, demo.Settings(), seed=7)]
    _, train, evaluation, vis = parsed
    assert train.seed == 7 and train.number_of_steps == demo.Settings().steps
    assert train.model.outputs_to_num_classes == {'semantic': len(scenes.CLASS_NAMES)}
    # The crop of evaluation holds a whole scene, and suits the network.
    for model in (evaluation.model, vis.model):
        assert model.crop_size[0] >= demo.Settings().height and model.crop_size[1] >= demo.Settings().width
        assert all(side % model.output_stride == 1 for side in model.crop_size)
        assert model.decoder == train.model.decoder and model.aspp == train.model.aspp


def test_the_panoptic_demos_own_settings_parse(tmp_path):
    settings = demo.SETTINGS['panoptic']
    paths = demo.paths_in(tmp_path)
    paths.scenes.mkdir()
    description = dataset.description({'train': 1, 'val': 1}, with_instances=True)
    (paths.scenes / dataset.DESCRIPTION).write_text(json.dumps(description))
    parsed = [cli.options_of(c.program, c.flags) for c in demo.commands_for(paths, settings, seed=7)]
    build, train, evaluation, vis = parsed
    assert build.instance_folder == str(paths.scenes / dataset.INSTANCES)
    assert {train.model.task, evaluation.model.task, vis.model.task} == {'panoptic'}
    assert train.model.settings == evaluation.model.settings == vis.model.settings


def test_the_task_chooses_the_settings(tmp_path, monkeypatch):
    monkeypatch.setitem(demo.SETTINGS, 'panoptic', TINY_PANOPTIC)
    programs = FakePrograms()
    result = demo.run(options(tmp_path, task='panoptic'), programs)
    assert programs.calls == ['build_folder_data', 'train', 'eval', 'vis']
    assert result.pq == 0.25 and 0 <= result.baseline_pq < 0.5  # all pixels have one class
    assert (tmp_path / 'work/voc' / dataset.INSTANCES / 'val_0001.png').exists()
    with pytest.raises(OptionError, match=r'has a demo with task panoptic \(not semantic\)'):
        demo.run(options(tmp_path), FakePrograms(), TINY)


def test_a_stop_of_the_panoptic_demo_names_its_task(tmp_path):
    result = demo.run(options(tmp_path, task='panoptic'), FakePrograms({'train': 143}), TINY_PANOPTIC)
    assert result.report.endswith('--seed=0 --steps=4 --task=panoptic')


def test_the_semantic_demo_notes_no_task(tmp_path):
    demo.run(options(tmp_path), FakePrograms(), TINY)
    assert 'task' not in json.loads((tmp_path / 'work' / demo.SETTINGS_FILE).read_text())


def test_the_report_names_files_that_exist(tmp_path):
    result = demo.run(options(tmp_path), FakePrograms(), TINY)
    found = dict(re.findall(rf'^  (\w+) +({re.escape(str(tmp_path))}\S+)', result.report, re.M))
    assert found.keys() == {'sheet', 'scenes', 'records', 'checkpoints', 'metrics', 'predictions'}
    for name in ('sheet', 'scenes', 'metrics'):  # the others are not faked
        assert demo.pathlib.Path(found[name]).exists()


def test_a_stop_while_training_ends_the_demo_and_says_how_to_go_on(tmp_path):
    programs = FakePrograms({'train': 143})
    result = demo.run(options(tmp_path), programs, TINY)
    assert programs.calls == ['build_voc2012_data', 'train']
    assert result.status == 143 and result.miou is None
    assert result.report.endswith(f'demo --workdir={tmp_path / "work"} --seed=0 --steps=4')


def test_going_on_uses_the_scenes_that_are_there(tmp_path):
    demo.run(options(tmp_path), FakePrograms(), TINY)
    mark = tmp_path / 'work/voc/mark'
    mark.touch()
    demo.run(options(tmp_path), FakePrograms(), TINY)
    assert mark.exists()


@pytest.mark.parametrize(
    ('changes', 'what'),
    [({'seed': 1}, 'seed 0 (not 1)'), ({'steps': 9}, 'steps 4 (not 9)'), ({'seed': 1, 'steps': 9}, None)],
)
def test_another_demo_in_the_folder_is_refused(tmp_path, changes, what):
    demo.run(options(tmp_path), FakePrograms(), TINY)
    programs = FakePrograms()
    with pytest.raises(OptionError) as error:
        demo.run(options(tmp_path, **changes), programs, TINY)
    what = what or 'seed 0 (not 1) and steps 4 (not 9)'
    assert str(error.value).startswith(f'{tmp_path / "work"} has a demo with {what}. Use another workdir')
    assert programs.calls == []


def test_settings_of_another_version_are_refused(tmp_path):
    demo.run(options(tmp_path), FakePrograms(), TINY)
    with pytest.raises(OptionError, match='other settings, from another version of deeplab'):
        demo.run(options(tmp_path), FakePrograms(), dataclasses.replace(TINY, width=64))


def test_settings_that_are_damaged_are_named(tmp_path):
    demo.run(options(tmp_path), FakePrograms(), TINY)
    (tmp_path / 'work' / demo.SETTINGS_FILE).write_text('{')
    with pytest.raises(OptionError, match=f'{demo.SETTINGS_FILE} is not JSON: .*Use another workdir'):
        demo.run(options(tmp_path), FakePrograms(), TINY)


def test_a_folder_that_is_not_a_demos_is_left_alone(tmp_path):
    (tmp_path / 'work').mkdir()
    (tmp_path / 'work/thesis.txt').touch()
    with pytest.raises(OptionError, match=r'workdir=.*work.*: the folder is not empty, and its files are not from'):
        demo.run(options(tmp_path), FakePrograms(), TINY)
    assert [path.name for path in (tmp_path / 'work').iterdir()] == ['thesis.txt']


def test_a_file_in_place_of_the_folder_is_refused(tmp_path):
    (tmp_path / 'work').touch()
    with pytest.raises(OptionError, match=r'workdir: .*work.* cannot be written: File exists.*use another path'):
        demo.run(options(tmp_path), FakePrograms(), TINY)


def test_figures_that_eval_did_not_write_are_missed(tmp_path):
    with pytest.raises(DataError, match=r'eval has not written .*metrics-5\.json'):
        demo.run(options(tmp_path, steps=5), FakePrograms(), TINY)


def test_a_full_disk_is_told_in_one_line(tmp_path, monkeypatch, full_disk):
    with full_disk(10), pytest.raises(OptionError, match='workdir: .*work.* cannot be written: File too large'):
        demo.run(options(tmp_path), lambda *_: None)
    assert not (tmp_path / 'work').exists()

    def fail(*_):
        raise OSError(28, 'No space left on device')

    monkeypatch.setattr(demo.dataset, 'write_dataset', fail)
    with pytest.raises(OptionError, match='workdir: .*work.* cannot be written: No space left'):
        demo.run(options(tmp_path), lambda *_: None)
