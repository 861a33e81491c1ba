"""The eval program on a tiny split and a network with known predictions.

Covers evaluation/evaluation_rounds.py and evaluation/runner.py.
"""

import csv
import dataclasses
import json
import logging
import os
import pathlib
import re
import subprocess
import sys
import types

import numpy as np
import pytest
import tensorflow as tf

from deeplab import cli, common, input_preprocess
from deeplab import eval as eval_program
from deeplab.core.metrics import ConfusionMatrix
from deeplab.datasets import descriptor
from deeplab.errors import CheckpointError, DataError, OptionError, OutputError
from deeplab.evaluation import evaluation_rounds, runner, scoring
from deeplab.inference import model_source
from deeplab.options import EvalOptions, PredictionOptions, ResizeOptions, TrainOptions, WaitOptions
from deeplab.registry import METRICS
from deeplab.training import run_manifest
from tests.helpers import checkpoint_files, dataset_files
from tests.helpers import evaluation_setup as setup

DEFAULT_LINE = ['--checkpoint_dir=logs', '--eval_logdir=eval', '--dataset_dir=records']
ONCE = WaitOptions(interval_secs=0, max_rounds=1, timeout_secs=0)


@pytest.fixture
def options(tmp_path, monkeypatch):
    setup.use_small_network(monkeypatch)
    dataset = setup.write_data(tmp_path / 'records')
    (tmp_path / 'train').mkdir()
    return EvalOptions(setup.MODEL, dataset, str(tmp_path / 'train'), str(tmp_path / 'eval'), wait=ONCE, batch_size=2)


def changed(options, part=None, **changes):
    """Options with other values, in one of their parts if it is named."""
    if part is None:
        return dataclasses.replace(options, **changes)
    return dataclasses.replace(options, **{part: dataclasses.replace(getattr(options, part), **changes)})


def logged(caplog, level=logging.INFO):
    return [record.getMessage() for record in caplog.records if record.levelno >= level]


@pytest.fixture(autouse=True)
def listen(caplog):
    caplog.set_level(logging.INFO, logger='absl')


def test_the_description_is_loaded_and_the_split_opened_once(options, monkeypatch):
    setup.write_checkpoint(options.checkpoint_dir)
    opened = dataset_files.openings(monkeypatch)
    line = [f'--dataset={options.dataset.name}', f'--dataset_dir={options.dataset.directory}', *DEFAULT_LINE[:2]]
    from_line = cli.options_of('eval', line)
    eval_program.run(dataclasses.replace(options, dataset=from_line.dataset))
    assert opened == [f'load {options.dataset.name}', 'find val', 'open val']


def test_a_perfect_checkpoint(options, caplog):
    path = setup.write_checkpoint(options.checkpoint_dir)
    result = eval_program.run(options)
    (only,) = result.rounds
    assert only.metrics.class_iou == (1.0,) * 4
    assert (only.images, only.global_step, only.checkpoint) == (5, 10, path)
    counted = sum(sum(row) for row in only.metrics.confusion_matrix)
    assert counted == sum(height * width - 1 for height, width in setup.SIZES)
    lines = logged(caplog)
    assert 'eval/miou_1.0_overall[1]' in lines
    assert 'eval/miou_1.0_class_3[1]' in lines
    assert any(re.fullmatch(r'5 images in \d+\.\d s \(\d+\.\d images/s\)\.', line) for line in lines)


def test_a_terminal_gets_the_figures_of_classes_in_the_table_alone(options, caplog, monkeypatch):
    setup.write_checkpoint(options.checkpoint_dir)
    monkeypatch.setattr(sys.stderr, 'isatty', lambda: True)
    eval_program.run(options)
    assert [line for line in logged(caplog) if line.startswith('eval/')] == ['eval/miou_1.0_overall[1]']


def test_masks_are_warned_of_before_a_checkpoint_is_waited_for(options, caplog, monkeypatch):
    split = types.SimpleNamespace(
        descriptor=descriptor.DatasetDescriptor('own', 4, 1),
        crop_size=(17, 17),
        check_result=types.SimpleNamespace(class_pixels=np.array([0, 0, 7, 0]), ignored_pixels=3),
        has_labels=True,
    )
    monkeypatch.setattr(runner, 'open_fitting_split', lambda *_: split)
    with pytest.raises(CheckpointError):  # there is none
        eval_program.run(options)
    found = logged(caplog, logging.WARNING)
    assert any('ignore_label is 1' in line for line in found)
    assert any("only '2' (id 2) occurs in split 'val'" in line for line in found)


def test_figures_equal_a_matrix_of_our_own(options, monkeypatch):
    """With a GPU, too, to which images are copied as bytes."""
    images_of, types_read = input_preprocess.images_of, []

    def noted(batch, mean_pixel):
        types_read.append(batch[common.IMAGE].dtype)
        return images_of(batch, mean_pixel)

    monkeypatch.setattr(input_preprocess, 'images_of', noted)
    setup.write_checkpoint(options.checkpoint_dir, weight=2.0)
    matrix, images = ConfusionMatrix(4, 255), []
    for number in range(len(setup.SIZES)):
        guess = np.minimum(np.round(setup.image(number)[..., 0] / 10 * 2).astype(int), 3)
        image = ConfusionMatrix(4, 255)
        image.update(setup.truth(number), guess)
        matrix.merge(image)
        images.append(image.result().miou)
    for batch_size, gpus in ((1, []), (3, ['GPU']), (8, [])):
        monkeypatch.setattr(tf.config, 'list_physical_devices', lambda kind, gpus=gpus: gpus)
        result = eval_program.run(changed(options, batch_size=batch_size, metrics=('image_iou',)))
        assert result.rounds[0].metrics == matrix.result()
        assert result.rounds[0].further == {
            'image_iou': {'mean': pytest.approx(np.mean(images)), 'lowest': min(images)}
        }
    assert types_read == [tf.float32, tf.uint8, tf.float32]
    content = json.loads(pathlib.Path(result.rounds[0].path).read_text())
    assert content['metrics'] == result.rounds[0].further
    assert content['flags']['metrics'] == {'image_iou': {}}
    assert f'image_iou mean                   {np.mean(images):.4f}' in result.report
    assert [eval_program._shown(figure) for figure in (None, 0.5, 436.0)] == ['      -', ' 0.5000', '    436']
    tagged = evaluation_rounds.further_tagged_figures(result.rounds[0], PredictionOptions((0.5, 1.0)))
    assert tagged['eval/image_iou_0.5_1.0_lowest'] == min(images)


def test_json_and_events_and_report(options):
    path = setup.write_checkpoint(options.checkpoint_dir, weight=0.0)
    result = eval_program.run(options)
    logdir = pathlib.Path(options.eval_logdir)
    content = json.loads((logdir / 'metrics-10.json').read_text())
    assert set(content) == set(
        'miou class_iou pixel_accuracy mean_accuracy frequency_weighted_iou confusion_matrix images seconds checkpoint '
        'global_step flags mean_precision mean_dice class_accuracy class_precision class_dice'.split()
    )
    assert content['class_iou'].keys() == set(setup.CLASSES)
    assert content['class_iou']['road'] == 0.0
    assert (content['images'], content['checkpoint'], content['global_step']) == (5, path, 10)
    assert not [file for file in logdir.iterdir() if 'tmp' in file.name]
    (events,) = logdir.glob('events.out.tfevents.*')
    found = {
        value.tag: (event.step, value.simple_value)
        for event in tf.compat.v1.train.summary_iterator(str(events))
        for value in event.summary.value
    }
    assert found['eval/miou_1.0_overall'] == (10, pytest.approx(content['miou']))
    assert len(found) == 5
    assert re.search(r'^sky +\d+\.\d\d%  +0\.\d{4}( +\d\.\d{4}){3}$', result.report, re.M)
    assert f'mean IoU                         {content["miou"]:.4f}' in result.report
    assert str(logdir / 'metrics-10.json') in result.report


def test_all_metrics_with_their_files_beside_the_figures(options, tmp_path, caplog):
    setup.write_checkpoint(options.checkpoint_dir, weight=2.0)
    names = ['=1+1', 'a,b', '../../up', '<b>', 'plain']
    dataset = setup.write_data(tmp_path / 'named', names=names)
    result = eval_program.run(changed(options, dataset=dataset, metrics=('all',), settings={'bootstrap_samples': 100}))
    logdir = pathlib.Path(options.eval_logdir)
    content = json.loads((logdir / 'metrics-10.json').read_text())
    assert content['metrics'].keys() == set(METRICS.names()) - {'confusion_matrix', 'category_iou', 'instance_iou'}
    assert content['class_metrics']['boundary_iou']['iou'].keys() == set(setup.CLASSES)
    low, high = (content['metrics']['intervals'][f'miou {end}'] for end in ('low', 'high'))
    assert low <= content['miou'] <= high
    # The network is sure of each prediction.
    assert content['metrics']['calibration']['ece'] == pytest.approx(1 - content['pixel_accuracy'])
    lines = (logdir / 'per_image-10.csv').read_text().splitlines()
    assert [line.rpartition(',5,7,')[0] for line in lines[1:2]] == ["'=1+1"]
    assert len(json.loads((logdir / 'calibration-10.json').read_text())['bins']) == 15
    assert re.search(
        r'^class +pixels .* Dice  boundary_f  boundary_iou  intervals low  intervals high$', result.report, re.M
    )
    assert len({len(line) for line in result.report.splitlines()[: len(setup.CLASSES) + 2]}) == 1
    tags = evaluation_rounds.further_tagged_figures(result.rounds[0], options.prediction)
    assert [line for line in logged(caplog) if line.startswith('eval/')] == [
        evaluation_rounds.log_line(tag, value)
        for tag, value in evaluation_rounds.tagged_figures(result.rounds[0], options.prediction).items()
    ]
    assert tags['eval/boundary_iou_1.0_iou_class_3'] == content['class_metrics']['boundary_iou']['iou']['car']


def test_figures_of_other_flags_are_kept_apart_and_say_their_flags(options):
    setup.write_checkpoint(options.checkpoint_dir)
    eval_program.run(options)
    eval_program.run(changed(options, prediction=PredictionOptions((0.5, 1.0), True)))
    logdir = pathlib.Path(options.eval_logdir)
    plain, other = (
        json.loads((logdir / f'metrics-10{end}.json').read_text()) for end in ('', '-scales_0.5_1.0-flipped')
    )
    assert (plain['flags']['eval_scales'], plain['flags']['add_flipped_images']) == ([1.0], False)
    assert (other['flags']['eval_scales'], other['flags']['add_flipped_images']) == ([0.5, 1.0], True)
    assert plain['flags']['eval_split'] == 'val'


def test_the_table_is_not_lost_where_its_files_cannot_be_written(options, full_disk, monkeypatch):
    setup.write_checkpoint(options.checkpoint_dir)
    with full_disk(100), pytest.raises(OutputError) as error:
        eval_program.run(options)
    for part in ('eval_logdir', f"'{options.eval_logdir}'", 'File too large'):
        assert part in str(error.value)
    assert re.search(r'^mean IoU +1\.0000$', error.value.report, re.M)
    assert 'metrics-10.json' not in error.value.report
    assert not os.path.exists(options.eval_logdir)

    def fail(*_):
        raise IndexError('No space left on device')  # as the writer of event files puts it

    monkeypatch.setattr(evaluation_rounds, 'add_summaries', fail)
    with pytest.raises(OutputError, match='No space left on device') as error:
        eval_program.run(options)
    assert 'All metrics: ' in error.value.report
    assert (pathlib.Path(options.eval_logdir) / 'metrics-10.json').exists()


def test_figures_of_a_validation_during_training_are_not_overwritten(options):
    setup.write_checkpoint(options.checkpoint_dir)
    path = pathlib.Path(options.eval_logdir, 'metrics-10.json')
    path.parent.mkdir()
    path.write_text('{"global_step": 10, "miou": 0.5, "split": "val"}')
    for _ in range(2):
        (only,) = eval_program.run(options).rounds
        assert only.path == str(path.with_stem('metrics-10-by_eval'))
    assert json.loads(path.read_text())['miou'] == 0.5


def test_names_of_files_of_figures(options):
    cases = {
        '': {},
        '-test': {'dataset': dataclasses.replace(options.dataset, split='test')},
        '-a_b': {'dataset': dataclasses.replace(options.dataset, split='a-b')},
        '-flipped': {'prediction': PredictionOptions((1.0,), True)},
        '-moving_average': {'use_moving_average': True},
        '-output_stride_8': {'model': dataclasses.replace(options.model, output_stride=8)},
        '-resized_-_17_16': {'resize': ResizeOptions(max_value=17, factor=16)},
    }
    for end, changes in cases.items():
        assert eval_program.figures_file(7, changed(options, **changes)) == f'metrics-7{end}.json'
    several = changed(options, ensemble=True, further_checkpoint_dirs=('other',))  # whose networks may differ
    assert 'output_stride' not in eval_program.flags_of_figures(several)
    assert cli.options_of('eval', DEFAULT_LINE).dataset.split == 'val'
    assert eval_program.figures_file(7, cli.options_of('eval', DEFAULT_LINE)) == 'metrics-7.json'


def test_a_class_that_occurs_nowhere_is_null_and_has_no_summary(options):
    empty = scoring.Results(metrics=ConfusionMatrix(3, 255).result())
    tags = evaluation_rounds.tagged_figures(empty, PredictionOptions((0.5, 1.0, 1.75), True))
    assert list(tags) == ['eval/miou_0.5_1.0_1.75_flipped_overall'] + [
        f'eval/miou_0.5_1.0_1.75_flipped_class_{i}' for i in range(3)
    ]
    assert set(tags.values()) == {None}


def test_moving_averages_take_the_place_of_the_weights(options, caplog):
    values = {'weight': np.zeros(1, np.float32), 'weight/ExponentialMovingAverage': np.ones(1, np.float32)}
    checkpoint_files.write(pathlib.Path(options.checkpoint_dir) / 'model.ckpt-3', values)
    assert eval_program.run(options).rounds[0].metrics.miou < 0.5
    assert caplog.text.count('Set use_moving_average=True to use them') == 1
    caplog.clear()
    assert eval_program.run(changed(options, use_moving_average=True)).rounds[0].metrics.miou == 1.0
    assert 'use_moving_average' not in caplog.text
    checkpoint_files.write_run(options.checkpoint_dir, 0.99)
    (found,) = eval_program.run(options).rounds
    assert found.metrics.miou == 1.0 and found.path.endswith('metrics-3-moving_average.json')
    assert json.loads(pathlib.Path(found.path).read_text())['flags']['use_moving_average'] is True
    (found,) = eval_program.run(changed(options, use_moving_average=False)).rounds
    assert found.metrics.miou < 0.5 and found.path.endswith('metrics-3.json')


def test_each_of_several_checkpoints_has_the_averages_of_its_own_training(options, tmp_path):
    values = {'weight': np.zeros(1, np.float32), 'weight/ExponentialMovingAverage': np.ones(1, np.float32)}
    for name, decay in (('plain', None), ('averaged', 0.99)):
        checkpoint_files.write(tmp_path / name / 'model.ckpt-3', values)
        checkpoint_files.write_run(tmp_path / name, decay)
    folders = {'checkpoint_dir': f'{tmp_path}/averaged', 'further_checkpoint_dirs': (f'{tmp_path}/plain',)}
    plain, averaged = eval_program.run(changed(options, **folders)).rounds
    assert plain.metrics.miou < 0.5 and averaged.metrics.miou == 1.0
    summary = json.loads((pathlib.Path(options.eval_logdir) / 'checkpoints.json').read_text())
    assert summary['flags']['use_moving_average'] is None


def test_no_moving_averages_to_take(options):
    path = setup.write_checkpoint(options.checkpoint_dir)
    with pytest.raises(CheckpointError, match=f"The checkpoint '{path}' contains no moving averages"):
        eval_program.run(changed(options, use_moving_average=True))


def test_several_scales_and_flips(options, monkeypatch, caplog):
    calls = setup.use_small_network(monkeypatch)
    setup.write_checkpoint(options.checkpoint_dir)
    eval_program.run(changed(options, prediction=PredictionOptions((0.5, 1.0), True)))
    assert calls == [('multi', (0.5, 1.0), True)]
    assert 'eval/miou_0.5_1.0_flipped_overall[1]' in logged(caplog)
    assert not [line for line in logged(caplog, logging.WARNING) if 'add_flipped_images' in line]


def test_flips_of_a_single_scale_do_nothing_and_say_so(options, monkeypatch, caplog):
    calls = setup.use_small_network(monkeypatch)
    setup.write_checkpoint(options.checkpoint_dir)
    eval_program.run(changed(options, prediction=PredictionOptions((1.0,), True)))
    assert calls == [('single', None)]
    assert 'eval/miou_1.0_flipped_overall[1]' in logged(caplog)
    (warning,) = logged(caplog, logging.WARNING)
    assert warning.startswith('add_flipped_images has no effect with scales=(1.0,)')
    assert 'scales=(0.75, 1.0, 1.25)' in warning


def test_several_rounds_take_each_new_checkpoint_once(options, monkeypatch):
    setup.write_checkpoint(options.checkpoint_dir, 1, weight=0.0)
    later = iter([lambda: None, lambda: setup.write_checkpoint(options.checkpoint_dir, 2)])
    monkeypatch.setattr('deeplab.evaluation.waiting.time.sleep', lambda seconds: next(later, lambda: None)())
    wait = WaitOptions(interval_secs=0, max_rounds=2, timeout_secs=20)
    result = eval_program.run(changed(options, wait=wait))
    assert [r.global_step for r in result.rounds] == [1, 2]
    assert result.rounds[0].metrics.miou < result.rounds[1].metrics.miou == 1.0
    assert 'step 2' in result.report


def test_patience_that_ends_after_a_round_is_no_error(options):
    setup.write_checkpoint(options.checkpoint_dir)
    result = eval_program.run(changed(options, wait=WaitOptions(interval_secs=0, timeout_secs=0)))
    assert len(result.rounds) == 1


def test_a_single_checkpoint_may_be_named(options):
    path = setup.write_checkpoint(options.checkpoint_dir, 3)
    setup.write_checkpoint(options.checkpoint_dir, 4)
    result = eval_program.run(changed(options, checkpoint_dir=path, wait=WaitOptions()))
    assert [r.global_step for r in result.rounds] == [3]
    with pytest.raises(CheckpointError, match="is one of a checkpoint's files. Pass .* without the extension"):
        eval_program.run(changed(options, checkpoint_dir=f'{path}.index'))


def test_every_checkpoint_of_a_folder_is_compared_by_step(options, tmp_path, caplog):
    for step, weight in ((20, 1.0), (3, 0.0), (100, 2.0)):
        setup.write_checkpoint(options.checkpoint_dir, step, weight)
    pathlib.Path(options.checkpoint_dir, 'model.ckpt-50.index').write_text('damaged')
    chosen = changed(changed(options, 'model', crop_size=None), all_checkpoints=True, wait=WaitOptions())
    result = eval_program.run(chosen)
    assert [each.global_step for each in result.rounds] == [3, 20, 100]
    content = json.loads(pathlib.Path(options.eval_logdir, 'checkpoints.json').read_text())
    assert content['best'] == result.rounds[1].checkpoint
    assert [each['miou'] for each in content['checkpoints']] == [each.metrics.miou for each in result.rounds]
    assert all(os.path.exists(each['metrics']) for each in content['checkpoints'])
    assert 'mean' not in content  # of steps of one training run
    assert content['flags']['eval_crop_size'] == [17, 17]
    assert (content['flags']['output_stride'], content['flags']['atrous_rates']) == (16, [])
    assert re.search(r'^mean IoU +1\.0000$', result.report, re.M)  # the table of the best one
    assert re.search(r'^ +20 +1\.0000 +1\.0000  .*model.ckpt-20 \(best\)$', result.report, re.M)
    assert result.report.endswith('checkpoints.csv')
    assert any('model.ckpt-50' in line for line in logged(caplog, logging.WARNING))


def test_checkpoints_of_several_folders_have_a_folder_each(options, tmp_path):
    folders = [tmp_path / name / 'train' for name in 'ab']
    for folder, weight in zip(folders, (1.0, 0.0), strict=True):
        folder.mkdir(parents=True)
        setup.write_checkpoint(folder, 10, weight)
    several = {
        'checkpoint_dir': str(folders[1]),
        'further_checkpoint_dirs': (str(folders[0]),),
    }  # the last is the main one
    result = eval_program.run(changed(options, wait=WaitOptions(), **several))
    logdir = pathlib.Path(options.eval_logdir)
    assert [each.path for each in result.rounds] == [
        str(logdir / name / 'metrics-10.json') for name in ('train', 'train_2')
    ]
    assert result.rounds[0].metrics.miou == 1.0 > result.rounds[1].metrics.miou
    assert len(list((logdir / 'train_2').glob('events*'))) == 1
    content = json.loads((logdir / 'checkpoints.json').read_text())
    sky = np.array([each.metrics.class_iou[0] for each in result.rounds])
    assert content['mean']['class_iou']['sky'] == pytest.approx(sky.mean())
    assert content['deviation']['class_iou']['sky'] == pytest.approx(sky.std(ddof=1))
    head, *rows = csv.reader((logdir / 'checkpoints.csv').read_text().splitlines())
    assert head[:5] == ['checkpoint', 'global_step', 'miou', 'pixel_accuracy', 'iou sky']
    assert [row[0] for row in rows] == [*(each.checkpoint for each in result.rounds), 'mean', 'deviation']
    assert [float(row[4]) for row in rows] == pytest.approx([*sky, sky.mean(), sky.std(ddof=1)])
    miou = np.array([each.metrics.miou for each in result.rounds])
    assert re.search(rf'^sky +{sky.mean():.4f} +{sky.std(ddof=1):.4f}$', result.report, re.M)
    assert re.search(rf'^deviation +{miou.std(ddof=1):.4f} +0\.\d{{4}}  of 2 training runs$', result.report, re.M)
    with pytest.raises(CheckpointError, match='nowhere'):
        several['further_checkpoint_dirs'] = (str(tmp_path / 'nowhere'),)
        eval_program.run(changed(options, **several))


def test_checkpoints_of_networks_that_predict_differently(options, tmp_path):
    for name, stride in (('a', 16), ('b', 8)):
        (tmp_path / name).mkdir()
        setup.write_checkpoint(tmp_path / name, 10)
        trained = changed(options, 'model', output_stride=stride)
        run = {
            'command': [],
            'options': run_manifest.options_as_json(TrainOptions(trained.model, trained.dataset, 'log')),
        }
        (tmp_path / name / 'run.json').write_text(json.dumps({'format': 1, 'runs': [run]}))
    several = {'checkpoint_dir': str(tmp_path / 'a'), 'further_checkpoint_dirs': (str(tmp_path / 'b'),)}
    with pytest.raises(OptionError, match=r'run.json: output_stride\. Evaluate them one by one, use deeplab compare'):
        eval_program.run(changed(options, **several))
    several['network'] = {'ModelOptions.output_stride': 16}  # set for both
    assert len(eval_program.run(changed(options, wait=WaitOptions(), **several)).rounds) == 2
    (tmp_path / 'a' / 'run.json').unlink()  # now the options give the network: output stride 16
    with pytest.raises(OptionError, match=r"/a' and .*/b' differ, and only the latter has a run.json: output_stride\."):
        eval_program.run(changed(options, **several | {'network': {}}))


@pytest.mark.parametrize(
    ('changes', 'are_equal'),
    [
        ({'ModelOptions.quantize_delay_step': 7}, True),
        ({'ModelOptions.quantize_delay_step': None}, False),
        ({'ModelOptions.batch_norm_decay': 0.9}, True),
        ({'NasOptions.drop_path_keep_prob': 0.5, 'NasOptions.total_training_steps': 9}, True),
        ({'NasOptions.remove_os32_stride': True}, False),
    ],
)
def test_options_of_training_alone_are_not_compared(changes, are_equal):
    network = dataclasses.replace(setup.MODEL, quantize_delay_step=3)
    other = model_source.changed(network, changes)
    assert (eval_program._predicting(network) == eval_program._predicting(other)) == are_equal


def test_no_checkpoint_of_several_fits(options):
    setup.write_checkpoint(options.checkpoint_dir, name='other')
    with pytest.raises(CheckpointError, match='it lacks 1 of 1 variables'):
        eval_program.run(changed(options, all_checkpoints=True))
    assert not os.path.exists(os.path.join(options.eval_logdir, 'checkpoints.json'))


def test_a_repeated_checkpoint_dir():
    made = cli.options_of('eval', ['--checkpoint_dir=a', '--checkpoint_dir', 'b', *DEFAULT_LINE, '--eval_scales=1'])
    assert (made.further_checkpoint_dirs, made.checkpoint_dir, made.network) == (('a', 'b'), 'logs', {})
    made = cli.options_of('eval', ['--checkpoint_dir=a', '--output_stride=8', *DEFAULT_LINE])
    assert made.network == {'ModelOptions.output_stride': 8}
    assert cli.options_of('eval', DEFAULT_LINE).further_checkpoint_dirs == ()


@pytest.mark.parametrize(
    ('crop_size', 'fits', 'expected'),
    [
        ((9, 8), True, (17, 17)),
        ((33, 17), True, (33, 17)),
        ((49, 17), True, (49, 17)),
        ((49, 17), False, (49, 17)),
        (None, False, (17, 17)),
    ],
)
def test_a_crop_size_into_which_every_image_fits(options, crop_size, fits, expected, caplog):
    chosen = dataclasses.replace(changed(options, 'model', crop_size=crop_size), fits_crop_size=fits)
    assert eval_program._open_split(chosen).crop_size == expected
    assert any('can lower the mIoU' in line for line in logged(caplog)) == (expected == (49, 17) and fits)


def test_a_chosen_crop_size_holds_the_pooling_crop(options):
    chosen = changed(options, 'model', crop_size=(17, 17), image_pooling_crop_size=(33, 20))
    assert eval_program._open_split(dataclasses.replace(chosen, fits_crop_size=True)).crop_size == (33, 33)


def test_the_crop_size_of_a_command_line_is_kept():
    default, given = (cli.options_of('eval', [*DEFAULT_LINE, *more]) for more in ((), ('--eval_crop_size=513,513',)))
    assert default.model.crop_size == given.model.crop_size == (513, 513)
    assert (default.fits_crop_size, given.fits_crop_size) == (True, False)


def test_images_are_measured_at_the_resized_size(options):
    setup.write_checkpoint(options.checkpoint_dir)
    result = eval_program.run(changed(options, resize=ResizeOptions(min_value=4, max_value=17)))
    assert sum(map(sum, result.rounds[0].metrics.confusion_matrix)) < sum(h * w - 1 for h, w in setup.SIZES)


@pytest.mark.parametrize(
    ('checkpoint', 'message'),
    [
        ({'shape': (2,)}, r'1 variable differs \(weight: \[1\] here, \[2\] in the checkpoint\)'),
        ({'name': 'other'}, r'it lacks 1 of 1 variables \(weight\)'),
    ],
)
def test_a_checkpoint_of_another_network_is_refused(options, checkpoint, message):
    setup.write_checkpoint(options.checkpoint_dir, **checkpoint)
    with pytest.raises(CheckpointError, match=message):
        eval_program.run(options)
    assert not list(pathlib.Path(options.eval_logdir).glob('metrics-*'))


def test_a_crop_smaller_than_an_image(options):
    small = changed(options, 'model', crop_size=(9, 8))
    with pytest.raises(DataError) as error:
        eval_program.run(small)
    assert "Image 'image_2' (val-00000-of-00002.tfrecord, record 2) is 9 x 9 pixels" in str(error.value)
    assert 'Set crop_size=(17, 17).' in str(error.value)


def test_a_crop_that_does_not_align_warns_and_runs(options, caplog):
    setup.write_checkpoint(options.checkpoint_dir)
    eval_program.run(changed(options, 'model', crop_size=(17, 20)))
    (warning,) = logged(caplog, logging.WARNING)
    assert warning.startswith('crop_size=(17, 20) is not a multiple of output_stride=16 plus 1')
    assert warning.endswith('sizes are 17,17 and 17,33.')


def test_a_split_without_labels_says_what_to_do(options, tmp_path):
    dataset = setup.write_data(tmp_path / 'bare', 'test', with_labels=False)
    with pytest.raises(DataError, match='have no mask.*can be visualized .*, but neither trained on nor eval'):
        eval_program.run(changed(options, dataset=dataset))


def test_other_mistakes(options):
    with pytest.raises(OptionError, match="metrics='bound' is not allowed.*boundary_iou.* all"):
        changed(options, metrics=('bound',))
    with pytest.raises(OptionError, match="model_variant='vgg' is not known. Known: .*mobilenet_v2"):
        eval_program.run(changed(options, 'model', model_variant='vgg'))
    with pytest.raises(OptionError, match="The network has 3 classes, the data set 'tiny' 4; they must be equal."):
        eval_program.run(changed(options, 'model', outputs_to_num_classes={'semantic': 3}))
    with pytest.raises(DataError, match="There is no shard 'test-\\*'.*Splits with shards there: val"):
        eval_program.run(changed(options, 'dataset', split='test'))
    pathlib.Path(options.eval_logdir).write_text('a file')
    with pytest.raises(DataError, match='Cannot create the folder'):
        eval_program.run(options)


def test_the_file_can_be_called_from_its_own_folder():
    file = pathlib.Path(eval_program.__file__)
    done = subprocess.run([sys.executable, file.name, '--help'], cwd=file.parent, capture_output=True, text=True)
    assert done.returncode == 0
    assert '--eval_crop_size' in done.stdout


def test_a_task_has_a_table_of_its_own():
    result = evaluation_rounds.Round(
        metrics=ConfusionMatrix(3, 255).result(),
        checkpoint='model.ckpt-1',
        global_step=1,
        images=1,
        seconds=1.0,
        further={'panoptic': {'pq': 0.5}},
        of_classes={'panoptic': {'pq': (None, 0.5, 0.25), 'fn': (0.0, 12.0, 3.0)}},
    )
    toy = descriptor.DatasetDescriptor('toy', 3)
    both = eval_program.report(result, toy).splitlines()
    alone = eval_program.report(dataclasses.replace(result, has_classes=False), toy).splitlines()
    assert both[0].split() == ['class', 'pixels', 'IoU', 'accuracy', 'precision', 'Dice']
    assert [line.split() for line in both[5:9]] == [
        ['panoptic', 'pq', 'fn'], ['0', '-', '0'], ['1', '0.5000', '12'], ['2', '0.2500', '3']
    ]  # fmt: skip
    assert both[5:10] == alone[:5]
    assert alone[5].split() == ['panoptic', 'pq', '0.5000'] and 'mean IoU' not in '\n'.join(alone)
