"""Validation during training: metrics, best checkpoint, early stopping, and no effect on training."""

import dataclasses
import json
import os
import pathlib
import shutil
import types

import numpy as np
import pytest
import tensorflow as tf

from deeplab import cli, train, wording
from deeplab import eval as eval_program
from deeplab.cli.program import names_in_messages
from deeplab.core import checkpoints, quantization
from deeplab.core.metrics import ConfusionMatrix, confusion_matrix
from deeplab.datasets.segmentation_dataset import DataSource
from deeplab.errors import DataError, OptionError, OutOfMemoryError
from deeplab.evaluation import evaluation_rounds
from deeplab.options import EvalOptions, ResizeOptions, ValidationOptions, WaitOptions
from deeplab.system import memory
from deeplab.training import validation
from deeplab.training.metrics_file import MetricsHook
from deeplab.training.run_loggers import RunLoggers
from deeplab.training.train_hooks import ProgressHook
from deeplab.training.train_loop import StepResult
from tests.helpers import dataset_files, training_setup
from tests.helpers.checkpoint_files import values_of

pytestmark = pytest.mark.usefixtures('tiny_network')


@pytest.fixture
def data(tmp_path):
    found = training_setup.write_data(tmp_path / 'records')
    records = [dataset_files.record(100 + seed, 18 + seed, 40 - seed) for seed in range(3)]
    dataset_files.write_split(tmp_path / 'records', 'val', [records])
    return found


def options(data, logdir, steps=6, every=2, early_stop=None, crop_size=None, **changes):
    chosen = ValidationOptions('val', every, crop_size, early_stop)
    return training_setup.options(data, logdir, steps, validation=chosen, **changes)


def quick(chosen):
    """With a small batch norm decay, so that a few steps change the predictions."""
    return dataclasses.replace(chosen, model=dataclasses.replace(chosen.model, batch_norm_decay=0.1))


def figures(logdir):
    """Content of each metrics-STEP.json by step."""
    found = [json.loads(path.read_text()) for path in pathlib.Path(logdir, 'eval').glob('metrics-*.json')]
    return {content['global_step']: content for content in sorted(found, key=lambda content: content['global_step'])}


def test_the_description_is_loaded_and_each_split_opened_once(data, tmp_path, monkeypatch):
    opened = dataset_files.openings(monkeypatch)
    line = [f'--dataset={data.name}', f'--dataset_dir={data.directory}', f'--train_logdir={tmp_path}/log']
    network = ['--model_variant=tiny', '--train_crop_size=17,33', '--aspp_convs_filters=8', '--train_batch_size=2']
    steps = ['--training_number_of_steps=2', '--eval_split=val', '--eval_every=1']
    chosen = cli.options_of('train', [*line, *network, *steps])
    train.run(chosen)
    assert opened == [f'load {data.name}', 'find val', 'find train', 'open train', 'open val']
    assert set(figures(tmp_path / 'log')) == {1, 2}


def use_figures(monkeypatch, by_step):
    """Gives each validation the figures in `by_step` without a network; returns the validated steps."""
    asked = []
    monkeypatch.setattr(validation, 'InferenceNetwork', lambda *arguments: None)
    monkeypatch.setattr(validation.ValidationHook, 'check_memory', lambda self, training: None)

    def evaluate(checkpoint, task, handle):
        handle({})
        step = checkpoints.step_of(checkpoint)
        asked.append(step)
        metrics = dataclasses.replace(ConfusionMatrix(3, 255).result(), miou=by_step[step])
        return evaluation_rounds.Round(metrics=metrics, checkpoint=checkpoint, global_step=step, images=3, seconds=0.1)

    monkeypatch.setattr(evaluation_rounds, 'evaluate', evaluate)
    return asked


def test_it_finds_what_eval_finds_and_training_does_not_notice_it(data, tmp_path, caplog):
    logdir = tmp_path / 'log'
    with caplog.at_level('INFO'):
        chosen = quick(options(data, logdir, 3, every=2))
        result = train.run(chosen)
    found = figures(logdir)
    assert list(found) == [2, 3]  # those due, and the last
    assert found[2]['confusion_matrix'] != found[3]['confusion_matrix']  # the one network takes other weights each time
    dataset = dataclasses.replace(data, split='val')
    model = dataclasses.replace(chosen.model, crop_size=(33, 49))
    alone = EvalOptions(model, dataset, result.checkpoint, str(tmp_path / 'eval'), wait=WaitOptions(0, 1, 0))
    (only,) = eval_program.run(alone).rounds
    assert found[3]['confusion_matrix'] == [list(row) for row in only.metrics.confusion_matrix]
    assert found[3]['miou'] == only.metrics.miou
    for step, content in found.items():
        assert (content['split'], content['crop_size'], content['images']) == ('val', [33, 49], 3)
        assert content['checkpoint'] == str(logdir / f'model.ckpt-{step}')
    lines = [record.getMessage() for record in caplog.records]
    assert f'eval/miou_1.0_overall[{found[2]["miou"]:.9g}]' in lines
    assert 'Validating on 3 images of split val, 33 x 49 pixels, every 2 steps.' in lines
    tags = {}
    for path in (logdir / 'eval').glob('events.out.tfevents.*'):
        for event in tf.compat.v1.train.summary_iterator(str(path)):
            tags.update({(event.step, value.tag): value.simple_value for value in event.summary.value})
    assert tags[2, 'eval/miou_1.0_overall'] == pytest.approx(found[2]['miou'])
    assert (3, 'eval/miou_1.0_class_2') in tags
    best = max(found, key=lambda step: found[step]['miou'])
    assert result.report.endswith(f' Best mIoU {found[best]["miou"]:.4f} at step {best}: {logdir}/best')
    plain = training_setup.trained(data, tmp_path / 'plain', 3, model=chosen.model)
    assert training_setup.losses(logdir) == training_setup.losses(tmp_path / 'plain')
    first, second = values_of(plain.checkpoint), values_of(result.checkpoint)
    assert first.keys() == second.keys()
    assert all(value.tobytes() == second[name].tobytes() for name, value in first.items())
    assert sorted(path.name for path in logdir.glob('*.index')) == [f'model.ckpt-{step}.index' for step in (0, 2, 3)]


def test_moving_averages_are_what_is_measured(data, tmp_path, monkeypatch):
    use_figures(monkeypatch, {2: 0.5})
    evaluate, seen = evaluation_rounds.evaluate, []

    def noted(checkpoint, task, handle):
        seen.append(task.use_moving_average)
        return evaluate(checkpoint, task, handle)

    monkeypatch.setattr(evaluation_rounds, 'evaluate', noted)
    for decay, averages in ((None, False), (0.9, True)):
        logdir = tmp_path / f'log{decay}'
        hook = new_hook(options(data, logdir, 2, moving_average_decay=decay), monkeypatch)
        hook.begin(None, 0)
        assert validate(hook, monkeypatch, [2]) == [2]
        assert (seen.pop(), figures(logdir)[2]['moving_average']) == (averages, averages)


def test_the_best_is_kept_and_is_a_folder_of_its_own(data, tmp_path, monkeypatch):
    use_figures(monkeypatch, {1: 0.2, 2: 0.6, 3: 0.6, 4: None, 5: 0.3, 6: 0.1, 7: 0.5, 8: 0.4})
    show, notes = validation.ValidationHook._show, []
    monkeypatch.setattr(validation.ValidationHook, '_show', lambda self: show(self) or notes.append(self._bar.note))
    logdir = tmp_path / 'log'
    train.run(options(data, logdir, 8, every=1))
    assert notes[:3] == ['', 'mIoU 0.2000 (best 0.2000)', 'mIoU 0.6000 (best 0.6000)']
    assert notes[4:6] == ['mIoU - (best 0.6000)', 'mIoU 0.3000 (best 0.6000)']
    best = logdir / 'best'
    assert not (logdir / 'model.ckpt-2.index').exists()
    path = checkpoints.newest(str(best))
    assert path == str(best / 'model.ckpt-2')
    assert checkpoints.damage(path) is None
    assert checkpoints.step_of(path) == 2
    content = json.loads((best / 'metrics-2.json').read_text())
    assert (content['miou'], content['checkpoint']) == (0.6, path)
    names = {'checkpoint', 'metrics-2.json', 'model.ckpt-2.index', 'model.ckpt-2.data-00000-of-00001'}
    assert {each.name for each in best.iterdir()} == names


@pytest.mark.slow
def test_a_resume_remembers_the_best_and_the_count(data, tmp_path, monkeypatch):
    asked = use_figures(monkeypatch, {1: 0.2, 2: 0.6, 3: 0.5, 4: 0.55, 5: 0.58, 6: 0.9})
    logdir = tmp_path / 'log'
    train.run(options(data, logdir, 3, every=1, early_stop=3))
    result = train.run(options(data, logdir, 6, every=1, early_stop=3))
    assert asked == [1, 2, 3, 4, 5]
    assert result.step == 5
    assert checkpoints.newest(str(logdir / 'best')).endswith('model.ckpt-2')
    assert 'Ended before the last step: mIoU has not improved in 3 validations (early_stop=3)' in result.report
    assert 'the best was 0.6000 at step 2' in result.report
    again = train.run(options(data, logdir, 6, every=1, early_stop=3))
    assert (again.step, again.loss) == (5, None)
    more = train.run(options(data, logdir, 6, every=1, early_stop=4))
    assert (more.step, asked[5:]) == (6, [6])
    assert checkpoints.newest(str(logdir / 'best')).endswith('model.ckpt-6')


def hook_of(chosen):
    bar = ProgressHook(chosen.number_of_steps, chosen.batch_size)
    metrics = MetricsHook(chosen.train_logdir, chosen.log_steps, chosen.batch_size, RunLoggers(chosen.loggers))
    return validation.ValidationHook(chosen, validation.find_split(chosen, DataSource(chosen.dataset)), bar, metrics)


def validate_saved(chosen, folder, *steps):
    """Validates checkpoints of these steps, each with the step alone in it, until training would end."""
    hook = hook_of(chosen)
    hook.begin(None, steps[0] - 1)
    for step in steps:
        assert hook.stop_reason() is None
        path = str(folder / f'model.ckpt-{step}')
        with tf.Graph().as_default(), tf.compat.v1.Session() as session:
            counter = tf.compat.v1.get_variable('global_step', initializer=np.int64(step))
            session.run(counter.initializer)
            tf.compat.v1.train.Saver().save(session, path, write_meta_graph=False)
        hook.after_checkpoint(path, step, Quiet())
    return hook


def test_a_score_without_labels_has_no_step():
    score = validation.Score()
    score.add(1, None)
    assert str(score) == 'none, as no labels were found'
    score.add(2, 0.25)
    assert str(score) == '0.2500 at step 2'


@pytest.mark.slow
def test_who_takes_the_best_away_begins_anew(data, tmp_path, monkeypatch):
    """Both the best figure and the count of validations without improvement, now and after a resume."""
    use_figures(monkeypatch, {1: 0.2, 2: 0.6, 3: 0.5, 4: 0.4, 5: 0.45, 6: 0.3, 7: 0.2})
    chosen = options(data, tmp_path / 'log', 9, every=1, early_stop=2)
    best = tmp_path / 'log' / 'best'
    assert 'the best was 0.6000 at step 2' in validate_saved(chosen, tmp_path, 1, 2, 3, 4).stop_reason()
    shutil.rmtree(best)
    assert validate_saved(chosen, tmp_path, 5, 6).score.best_step == 5
    assert checkpoints.newest(str(best)) == str(best / 'model.ckpt-5')
    assert 'the best was 0.4500 at step 5' in validate_saved(chosen, tmp_path, 7).stop_reason()
    (best / 'model.ckpt-5.index').write_bytes(b'damaged')
    hook = hook_of(chosen)
    hook.begin(None, 7)
    assert hook.score.best is None and hook.stop_reason() is None


def test_another_split_starts_anew(data, tmp_path, monkeypatch):
    found = {1: 0.9}
    use_figures(monkeypatch, found)
    chosen = options(data, tmp_path / 'log', 2, every=1)
    validate_saved(chosen, tmp_path, 1)
    found.update({1: 0.05, 2: 0.1})  # what the same checkpoint is worth there, and the next
    other = dataclasses.replace(chosen, validation=dataclasses.replace(chosen.validation, split='train'))
    path = str(tmp_path / 'model.ckpt-1')
    assert validation.is_pending(other, path, 1) and not validation.is_pending(chosen, path, 1)
    assert validate_saved(other, tmp_path, 1, 2).score.best_step == 2
    assert checkpoints.newest(str(tmp_path / 'log' / 'best')).endswith('model.ckpt-2')


@pytest.mark.parametrize('changed', ['crop_size', 'min_resize_value', 'quantized', 'records'])
def test_other_settings_start_anew(data, tmp_path, monkeypatch, caplog, changed):
    """Also when a run goes back to the settings of earlier figures: best/ has those of the others."""
    use_figures(monkeypatch, {1: 0.9, 2: 0.1, 3: 0.2, 4: 0.3})
    chosen = other = options(data, tmp_path / 'log', 4, every=1)
    if changed == 'crop_size':
        other = dataclasses.replace(chosen, validation=dataclasses.replace(chosen.validation, crop_size=(49, 49)))
        named = '(crop_size: 33,49 -> 49,49)'
    elif changed == 'min_resize_value':
        other = dataclasses.replace(chosen, resize=ResizeOptions(18))
        named = '(min_value: not set -> 18'
    elif changed == 'quantized':
        other = in_8_bits(chosen)
        monkeypatch.setattr(quantization, 'are_measured', lambda session: True)
        named = '(fake quantization: false -> true)'
    else:
        named = '(validation records: sha256:'
    assert validate_saved(chosen, tmp_path, 1).score.best_step == 1
    validate_saved(chosen, tmp_path, 2)
    assert 'cannot be compared' not in caplog.text
    if changed == 'records':
        records = [dataset_files.record(200 + seed, 18 + seed, 40 - seed) for seed in range(3)]
        dataset_files.write_split(pathlib.Path(data.directory), 'val', [records])
    else:
        path = str(tmp_path / 'model.ckpt-2')  # without ranges, before which an 8-bit network is not validated
        assert validation.is_pending(other, path, 2) is (changed != 'quantized')
        assert not validation.is_pending(chosen, path, 2)
    assert validate_saved(other, tmp_path, 3).score.best_step == 3
    assert f'was measured with other settings {named}' in caplog.text
    assert checkpoints.newest(str(tmp_path / 'log' / 'best')).endswith('model.ckpt-3')
    if changed == 'crop_size':
        assert validate_saved(chosen, tmp_path, 4).score.best_step == 4
        assert '(crop_size: 49,49 -> 33,49)' in caplog.text


def in_8_bits(chosen):
    return dataclasses.replace(chosen, model=dataclasses.replace(chosen.model, quantize_delay_step=0))


@pytest.mark.parametrize(('batches', 'is_due'), [(0.0, False), (1.0, True)])
def test_ranges_of_8_bits_are_measured_before_a_validation(data, tmp_path, monkeypatch, batches, is_due):
    """Where a run in 8 bits resumes from a checkpoint without ranges, the next validation is the first."""
    use_figures(monkeypatch, {})
    hook = new_hook(in_8_bits(options(data, tmp_path / 'log', 4, every=2)), monkeypatch)
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        counter = tf.compat.v1.get_variable('a/act_quant/a/act_quant/min/local_step', initializer=batches)
        session.run(counter.initializer)
        hook.begin(session, 2)
    assert hook.needs_checkpoint(2) is is_due
    for step in (3, 4):
        hook.after_step(StepResult(step, 1.0, 0.1, 1.0), {})
        assert hook.needs_checkpoint(step) is (step == 4)


class Quiet:
    received = None


class KilledError(BaseException):
    """Simulates a kill: nothing catches it."""


@pytest.mark.parametrize('name', ['link', 'replace', 'remove'])
@pytest.mark.parametrize('at', range(5))
def test_killed_while_the_best_is_written(data, tmp_path, monkeypatch, name, at):
    """Whatever call is the last one, best/ holds a complete checkpoint with its figures."""
    folder, logdir = str(tmp_path / 'best'), tmp_path / 'log'
    logdir.mkdir()
    for step in (1, 2):
        for suffix in ('index', 'data-00000-of-00001'):
            (logdir / f'model.ckpt-{step}.{suffix}').write_text(f'{suffix} of {step}')
    validation.keep_copy(str(logdir / 'model.ckpt-1'), folder, {'global_step': 1, 'miou': 0.1})
    original, calls = getattr(os, name), []

    def killed(*arguments, **keywords):
        calls.append(arguments)
        if len(calls) > at:
            raise KilledError
        return original(*arguments, **keywords)

    monkeypatch.setattr(os, name, killed)
    try:
        validation.keep_copy(str(logdir / 'model.ckpt-2'), folder, {'global_step': 2, 'miou': 0.2})
    except KilledError:
        pass
    monkeypatch.setattr(os, name, original)
    path = checkpoints.newest(folder)
    step = path[-1]
    for suffix in ('index', 'data-00000-of-00001'):
        assert pathlib.Path(f'{path}.{suffix}').read_text() == f'{suffix} of {step}'
    assert json.loads(pathlib.Path(folder, f'metrics-{step}.json').read_text())['checkpoint'] == path
    validation.keep_copy(str(logdir / 'model.ckpt-2'), folder, {'global_step': 2, 'miou': 0.2})
    validation.keep_copy(str(logdir / 'model.ckpt-2'), folder, {'global_step': 2, 'miou': 0.2})
    assert len(os.listdir(folder)) == 4
    assert checkpoints.newest(folder) == f'{folder}/model.ckpt-2'


def test_killed_before_the_figures_are_written(data, tmp_path, monkeypatch):
    """They are written last, so that the next run repeats that validation."""
    use_figures(monkeypatch, {2: 0.5, 4: 0.25})
    logdir = tmp_path / 'log'
    original = evaluation_rounds.write_json

    def killed(content, path):
        if path == str(logdir / 'eval' / 'metrics-4.json'):
            raise KilledError
        original(content, path)

    monkeypatch.setattr(evaluation_rounds, 'write_json', killed)
    chosen = options(data, logdir, 4)
    hook = new_hook(chosen, monkeypatch)
    hook.begin(None, 0)
    with pytest.raises(KilledError):
        validate(hook, monkeypatch, [2, 4])
    assert list(figures(logdir)) == [2]
    assert validation.is_pending(chosen, 'model.ckpt-4', 4)


def test_a_validation_that_is_pending_is_done_even_if_training_is_done(data, tmp_path, monkeypatch):
    use_figures(monkeypatch, {1: 0.5})
    logdir = tmp_path / 'log'
    training_setup.trained(data, logdir, 1)
    result = train.run(options(data, logdir, 1, every=1))
    assert (result.step, result.loss) == (1, None)
    assert list(figures(logdir)) == [1]
    assert train.run(options(data, logdir, 1, every=1)).report.startswith('Nothing to train: ')


def test_figures_of_eval_are_not_overwritten(data, tmp_path, monkeypatch):
    asked = use_figures(monkeypatch, {2: 0.5, 4: 0.25})
    path = tmp_path / 'log' / 'eval' / 'metrics-2.json'
    path.parent.mkdir(parents=True)
    path.write_text('{"global_step": 2, "miou": 1.0, "flags": {}}')
    chosen = options(data, tmp_path / 'log', 4)
    validate_saved(chosen, tmp_path, 2)
    assert json.loads(path.read_text())['miou'] == 1.0
    assert json.loads(path.with_stem('metrics-2-in_training').read_text())['miou'] == 0.5
    hook = validate_saved(chosen, tmp_path, 4)  # remembers the validation of step 2
    assert asked == [2, 4]
    assert 'Best mIoU 0.5000 at step 2' in hook.report()


def test_a_folder_without_links(tmp_path, monkeypatch):
    (tmp_path / 'model.ckpt-1.index').write_text('index')
    (tmp_path / 'model.ckpt-1.data-00000-of-00001').write_text('data')

    def no_links(*arguments):
        raise OSError('no links here')

    monkeypatch.setattr(os, 'link', no_links)
    validation.keep_copy(str(tmp_path / 'model.ckpt-1'), str(tmp_path / 'best'), {'global_step': 1})
    assert (tmp_path / 'best' / 'model.ckpt-1.data-00000-of-00001').read_text() == 'data'


def test_a_signal_breaks_a_validation_off(data, tmp_path, monkeypatch, caplog):
    use_figures(monkeypatch, {2: 0.5})
    chosen = options(data, tmp_path / 'log')
    hook = hook_of(chosen)
    hook.begin(None, 0)

    class Stopping:
        received = 15

    hook.after_checkpoint(str(tmp_path), 2, Stopping())
    assert 'The validation of step 2 was interrupted; the next run repeats it.' in caplog.text
    assert hook.score.best is None
    assert hook.needs_checkpoint(2)


def test_a_validation_for_which_the_memory_is_not_enough(data, tmp_path, monkeypatch):
    def evaluate(*arguments):
        raise MemoryError

    monkeypatch.setattr(evaluation_rounds, 'evaluate', evaluate)
    hook = new_hook(options(data, tmp_path / 'log'), monkeypatch)
    with pytest.raises(OutOfMemoryError, match=r'resize the images \(min_value and max_value\), reduce batch_size'):
        hook.after_checkpoint(str(tmp_path), 2, Quiet())


def test_images_for_which_the_memory_is_not_enough(data, tmp_path, monkeypatch):
    """They are refused before the first step, whose own memory counts, too."""
    hook = hook_of(options(data, tmp_path / 'log', batch_size=1, crop_size=(1025, 2049)))
    need = hook._task.network.memory_need()
    monkeypatch.setattr(memory, 'free', lambda: need.certain + (1 << 20))
    hook.check_memory(memory.Need(need.activations, 0))
    with pytest.raises(OutOfMemoryError, match=r"^Validations of split='val' with images of 1025 x 2049 .* resize the"):
        hook.check_memory(memory.Need(0, 2 << 20))


def test_the_memory_of_validations_is_compared_before_the_first_step(data, tmp_path, monkeypatch):
    given = []
    monkeypatch.setattr(memory, 'check_validation', lambda need, training, images: given.append((training, images)))
    train.run(quick(options(data, tmp_path / 'log', 1)))
    ((training, images),) = given
    assert training.activations > 0 and training.waiting > 0 and images.endswith('33 x 49 pixels')
    sizes = [
        np.prod(shape) * 4 for name, shape in tf.train.list_variables(str(tmp_path / 'log')) if name != 'global_step'
    ]
    assert sum(sizes) <= training.held <= sum(sizes) + 64  # weights and slots


def new_hook(chosen, monkeypatch):
    """A hook without a network, for validations with the figures of `use_figures`."""
    monkeypatch.setattr(validation, 'InferenceNetwork', lambda *arguments: None)
    return hook_of(chosen)


def validate(hook, monkeypatch, steps, behind=0):
    """Takes a hook through these steps; each checkpoint is of a step so far behind the one that is asked for."""
    monkeypatch.setattr(checkpoints, 'step_of', lambda path: int(path) + behind)
    monkeypatch.setattr(validation, 'keep_copy', lambda *arguments: None)
    asked = []
    for step in steps:
        hook.after_step(StepResult(step, 1.0, 0.1, 1.0), {})
        if hook.needs_checkpoint(step):
            asked.append(step)
            hook.after_checkpoint(str(step), step, Quiet())
            assert not hook.needs_checkpoint(step)
    return asked


def test_steps_that_others_count_too(data, tmp_path, monkeypatch):
    """A validation is due at the first step after a multiple, whatever the step of the checkpoint."""
    use_figures(monkeypatch, dict.fromkeys(range(50), 0.5))
    chosen = options(data, tmp_path / 'log', 31, every=10)
    hook = new_hook(chosen, monkeypatch)
    hook.begin(None, 0)
    assert not hook.needs_checkpoint(0)
    assert validate(hook, monkeypatch, [3, 8, 11, 14, 19, 32], behind=2) == [11, 32]
    assert list(figures(tmp_path / 'log')) == [13, 34]
    assert not validation.is_pending(chosen, 'model.ckpt-34', 34)


def test_a_validation_that_was_broken_off_behind_its_multiple(data, tmp_path, monkeypatch):
    use_figures(monkeypatch, dict.fromkeys(range(50), 0.5))
    chosen = options(data, tmp_path / 'log', 50, every=10)
    hook = new_hook(chosen, monkeypatch)
    hook.begin(None, 0)
    assert validate(hook, monkeypatch, [12]) == [12]
    for step, is_due in ((19, False), (23, True)):
        hook = new_hook(chosen, monkeypatch)
        hook.begin(None, step)
        assert hook.needs_checkpoint(step) is is_due


def test_masks_on_which_every_figure_is_false(data, tmp_path, monkeypatch, caplog):
    """The warning is logged once, when the hook is created, before the first step."""
    mask = dataset_files.ids(18, 40, classes=2) * 255
    dataset_files.write_split(
        pathlib.Path(data.directory), 'val', [[dataset_files.record(0, 18, 40, label=dataset_files.png(mask))]]
    )
    monkeypatch.setattr(validation, 'InferenceNetwork', lambda *arguments: None)
    chosen = options(data, tmp_path / 'log')
    hook_of(chosen)
    line = "The masks of split 'val' contain only the ids 0 and 255"
    assert caplog.text.count(line) == 1
    (tmp_path / 'log' / 'eval' / 'metrics-2.json').write_text('{"global_step": 2, "miou": 1.0, "split": "val"}')
    hook_of(chosen)
    assert caplog.text.count(line) == 1


@pytest.mark.parametrize(('split', 'count'), [('val', 1), ('train', 0)])
def test_choices_for_predictions_are_kept_of_validation_splits_alone(data, tmp_path, monkeypatch, split, count):
    use_figures(monkeypatch, {2: 0.5})
    saved = []
    monkeypatch.setattr(validation.task_calibration, 'save', lambda *arguments: saved.append(arguments))
    chosen = options(data, tmp_path / 'log', 2)
    chosen = dataclasses.replace(chosen, validation=dataclasses.replace(chosen.validation, split=split))
    hook = new_hook(chosen, monkeypatch)
    hook.begin(None, 0)
    assert validate(hook, monkeypatch, [2]) == [2] and len(saved) == count


def test_all_workers_know_that_an_earlier_run_has_stopped(data, tmp_path, monkeypatch):
    use_figures(monkeypatch, {})
    hook = new_hook(options(data, tmp_path / 'log', 9, early_stop=2), monkeypatch)
    monkeypatch.setattr(validation, '_earlier', lambda *arguments: {1: 0.5, 2: 0.4, 3: 0.3})
    monkeypatch.setattr(hook, '_first_in_score', lambda: 1)
    shared = {}
    hook._group = types.SimpleNamespace(task=0, put=shared.__setitem__, get=shared.__getitem__)
    hook.begin(None, 3)
    assert 'has not improved in 2 validations' in hook.stop_reason()
    other = new_hook(options(data, tmp_path / 'log', 9, early_stop=2), monkeypatch)
    monkeypatch.setattr(validation.ValidationHook, '_is_chief', property(lambda self: False))
    other._group = types.SimpleNamespace(task=1, get=shared.__getitem__)
    other.begin(None, 3)
    assert other.stop_reason() == hook._reason_of_chief and not other.needs_checkpoint(3)


def test_workers_refuse_a_metric_without_state_before_the_first_step(data, tmp_path, monkeypatch):
    monkeypatch.delattr(confusion_matrix.Figures, 'accumulated')
    chosen = options(data, tmp_path / 'log')
    split = validation.find_split(chosen, DataSource(chosen.dataset))
    bar = ProgressHook(chosen.number_of_steps, chosen.batch_size)
    validation.ValidationHook(chosen, split, bar, None)
    with pytest.raises(OptionError, match="'confusion_matrix' cannot be evaluated in parts"):
        validation.ValidationHook(chosen, split, bar, None, types.SimpleNamespace(task=0))


class TestBadInput:
    @pytest.mark.parametrize(
        ('given', 'message'),
        [
            ({'split': 'val'}, "split='val' has no effect without every"),
            ({'every': 5}, 'every=5 has no effect without split: set or omit both.'),
            ({'split': 'val', 'every': 0}, '^every=0 is not allowed: it must be greater than 0.'),
            ({'early_stop': 2}, '^early_stop=2 is not allowed: .* set split and every.'),
            ({'crop_size': (9, 9)}, r'^crop_size=\(9, 9\) is not allowed: .* set split and every.'),
            ({'split': 'val', 'every': 5, 'early_stop': 0}, '^early_stop=0 is not allowed'),
            ({'split': 'val', 'every': 5, 'crop_size': (9,)}, r'^crop_size=\(9,\) is not allowed'),
        ],
    )
    def test_options(self, given, message):
        with pytest.raises(OptionError, match=message):
            ValidationOptions(**given)

    def test_a_split_that_does_not_exist(self, data, tmp_path):
        chosen = options(data, tmp_path / 'log')
        chosen = dataclasses.replace(chosen, validation=dataclasses.replace(chosen.validation, split='test'))
        with pytest.raises(
            DataError, match=r"split='test': There is no shard 'test-\*'.* Splits with shards there: train, val"
        ):
            train.run(chosen)
        assert not (tmp_path / 'log').exists()

    def test_an_image_larger_than_the_crop(self, data, tmp_path):
        with pytest.raises(DataError, match=r'larger than crop_size=\(17, 33\); 3 of 3 images are. Set crop_size'):
            train.run(options(data, tmp_path / 'log', crop_size=(17, 33)))

    def test_a_crop_beside_the_stride(self, data, tmp_path, monkeypatch, caplog):
        with wording.flag_names(names_in_messages(cli.find_program('train'))):
            new_hook(options(data, tmp_path / 'log', crop_size=(34, 49)), monkeypatch)
        assert '--eval_crop_size=34,49 is not a multiple of --output_stride=16 plus 1' in caplog.text

    def test_a_split_without_masks(self, data, tmp_path):
        dataset_files.write_split(pathlib.Path(data.directory), 'bare', [[dataset_files.record(label=None)]])
        chosen = options(data, tmp_path / 'log')
        chosen = dataclasses.replace(chosen, validation=dataclasses.replace(chosen.validation, split='bare'))
        with pytest.raises(DataError, match='has no mask'):
            train.run(chosen)
        assert not list((tmp_path / 'log').glob('*.index'))
