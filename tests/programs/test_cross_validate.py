"""cross_validate on a tiny split: each fold is predicted by the network without it, and a second run repeats nothing.

Covers evaluation/fold_figures.py and reporting/fold_page.py.
"""

import contextlib
import io
import json
import os
import pathlib
import re
import shutil

import numpy as np
import pytest
from PIL import Image

from deeplab import cli, train, vis
from deeplab.core.metrics import ConfusionMatrix
from deeplab.evaluation import fold_figures
from deeplab.files import cross_validation, run_manifests
from deeplab.training.train_loop import TrainResult
from tests.helpers import dataset_files, task_records

pytestmark = pytest.mark.usefixtures('tiny_network')

LINE = ['--model_variant=tiny', '--aspp_convs_filters=8', '--train_crop_size=17,33', '--train_batch_size=2']
LINE += ['--log_steps=1', '--training_number_of_steps=2', '--base_learning_rate=0.05', '--save_interval_secs=0']
EVAL = ['--eval_logdir=eval', '--dataset_dir=records']
SIZES = {1: [(20, 30), (24, 28)], 2: [(22, 26), (18, 33), (30, 20)]}
CLASSES = ['sky', 'road', 'car']


def truth(fold, number):
    return dataset_files.ids(*SIZES[fold][number], 3, 10 * fold + number)


def write_records(folder, more=0):
    """Records of two folds; `more` changes the images of the second."""
    (folder / 'dataset.json').write_text(json.dumps({'num_classes': 3, 'class_names': CLASSES, 'eval_ids': [7, 8, 8]}))
    for fold, sizes in SIZES.items():
        records = []
        for number, (height, width) in enumerate(sizes):
            image = dataset_files.png(dataset_files.pixels(height, width, 10 * fold + number + (fold - 1) * more))
            mask = dataset_files.png(truth(fold, number))
            records.append(dataset_files.example.encode(image, 'png', f'{fold}:{number}', height, width, 3, mask))
        dataset_files.write_split(folder, f'fold{fold}', [records])
    return folder


def require_package_of_pages():
    pytest.importorskip('vl_convert', reason='the package vl-convert-python is not installed')


def line(records, output, *more):
    return ['cross_validate', f'--dataset_dir={records}', f'--output_dir={output}', *LINE, *more]


@pytest.fixture(scope='module')
def records(tmp_path_factory):
    return write_records(tmp_path_factory.mktemp('records'))


@pytest.fixture(scope='module')
def finished(tmp_path_factory, records, tiny_network):
    """The folder of a finished run, and what it printed."""
    require_package_of_pages()
    folder = tmp_path_factory.mktemp('finished') / 'cv'
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        assert cli.main(line(records, folder, '--save=errors')) == 0
    return folder, printed.getvalue()


@pytest.fixture
def copied(finished, tmp_path):
    """A copy of the folder, which a test may change."""
    return pathlib.Path(shutil.copytree(finished[0], tmp_path / 'cv'))


def predicted(folder, fold, number):
    masks = folder / 'predictions' / f'fold{fold}' / 'raw_segmentation_results'
    (name,) = vis.file_names([f'{fold}:{number}'.encode()])
    return np.array(Image.open(masks / f'{name}.png'))  # class ids, although two classes share an id in eval_ids


def test_each_fold_is_predicted_without_it(finished):
    folder, _ = finished
    validation = cross_validation.read(str(folder))
    assert [(fold.number, fold.split) for fold in validation.folds] == [(1, 'fold1'), (2, 'fold2')]
    total = np.zeros((3, 3), np.int64)
    for fold in validation.folds:
        run = run_manifests.newest_in(fold.train_logdir)
        assert run['records']['split'] == f'folds_without_{fold.number}'
        assert cli.options_of('eval', EVAL + [f'--checkpoint_dir={fold.train_logdir}']).model.model_variant == 'tiny'
        assert run['command'][-2:] == [f'--fold={fold.number}', f'--train_logdir={fold.train_logdir}']
        assert fold.checkpoint == f'{fold.train_logdir}/model.ckpt-2' and not fold.use_moving_average
        matrix = ConfusionMatrix(3)
        for number in range(len(SIZES[fold.number])):
            matrix.update(truth(fold.number, number), predicted(folder, fold.number, number))
        total += matrix.counts
        assert json.loads(pathlib.Path(fold.metrics).read_text())['confusion_matrix'] == matrix.counts.tolist()
        assert fold.miou == matrix.result().miou
        errors = folder / 'predictions' / fold.split / 'segmentation_results'
        assert len(list(errors.glob('*_errors.png'))) == len(SIZES[fold.number])
    assert validation.results['confusion_matrix'] == total.tolist()
    assert validation.results['images'] == [2, 3]


def test_it_ends_with_a_table_and_the_places(finished):
    folder, printed = finished
    results = cross_validation.read(str(folder)).results
    assert fold_figures.table(results) in printed
    assert f'{results["figures"]["mean IoU"]["mean"]:.4f}' in printed
    assert printed.splitlines()[-1].startswith(f'{folder}/report.html (')


def test_the_page_shows_all_images_with_their_predictions(finished):
    folder, _ = finished
    page = (folder / 'report.html').read_text()
    content = json.loads(re.search(r'id="content">(.*?)</script>', page)[1])
    names = ['1:0', '1:1', '2:0', '2:1', '2:2']
    assert content['image_names'] == names
    assert [run['name'] for run in content['runs']] == ['All folds', 'Fold 1', 'Fold 2']
    results = cross_validation.read(str(folder)).results
    assert content['runs'][0]['confusion'] == results['confusion_matrix']
    assert content['runs'][0]['miou'][0] == results['figures']['mean IoU']['pooled']
    assert content['folds']['classes'].keys() == set(CLASSES)
    assert all(run['points'] and run['miou'] for run in content['runs'][1:])
    for place, picture in enumerate(content['pictures']):
        fold, number = map(int, names[picture['image']].split(':'))
        counts = np.zeros((3, 3), int)
        np.add.at(counts, (truth(fold, number), predicted(folder, fold, number)), 1)
        assert dict(map(tuple, picture['cells'][0])) == {i: n for i, n in enumerate(counts.reshape(-1)) if n}
        assert f'id="picture-{place}"' in page
    assert len(content['pictures']) == len(names)


def test_a_finished_one_is_not_repeated(copied, records, monkeypatch, capsys):
    monkeypatch.setattr(train, 'run', None)
    before = json.loads((copied / 'cross_validation.json').read_text())
    assert cli.main(line(records, copied, '--log_steps=3')) == 0  # which changes no result
    after = json.loads((copied / 'cross_validation.json').read_text())
    assert after == before and 'mean IoU' in capsys.readouterr().out


def test_an_interrupted_one_continues(copied, finished, records, monkeypatch, capsys):
    content = json.loads((copied / 'cross_validation.json').read_text())
    content['folds'].pop()
    content['results'] = {}
    (copied / 'cross_validation.json').write_text(json.dumps(content))
    shutil.rmtree(copied / 'fold2')
    run = train.run
    monkeypatch.setattr(train, 'run', lambda options: TrainResult(1, None, 0.0, None, signal=2, report='At step 1.'))
    assert cli.main(line(records, copied)) == 130
    assert 'Stopped in fold 2 of 2; the same command continues. At step 1.' in capsys.readouterr().out
    assert not cross_validation.load(str(copied)).is_finished
    os.remove(cross_validation.load(str(copied)).folds[0].metrics)  # evaluated again
    trained = []
    monkeypatch.setattr(train, 'run', lambda options: trained.append(options.fold) or run(options))
    assert cli.main(line(records, copied)) == 0
    results = [cross_validation.read(str(folder)).results for folder in (copied, finished[0])]
    assert trained == [1, 2] and results[0] == results[1]


@pytest.mark.parametrize(
    ('flag', 'change'),
    [
        ('--seed=1', '--seed: 0 -> 1'),
        ('--training_number_of_steps=3', '--training_number_of_steps: 2 -> 3'),
        ('--tf_initial_checkpoint=other', '--tf_initial_checkpoint: not set -> other'),
        ('--eval_every=1', '--eval_every: not set -> 1'),
    ],
)
def test_changed_flags_are_refused(finished, records, capsys, flag, change):
    assert cli.main(line(records, finished[0], flag)) == 1
    error = capsys.readouterr().err
    assert f'flags: {change}. ' in error and '--output_dir' in error and str(finished[0]) in error


def test_other_records_are_refused(finished, tmp_path, capsys):
    other = write_records(tmp_path, more=50)
    assert cli.main(line(other, finished[0])) == 1
    assert '5 other images' in capsys.readouterr().err
    dataset_files.write_split(tmp_path, 'fold3', [[dataset_files.record(1)]])
    assert cli.main(line(other, finished[0])) == 1
    assert 'number of folds: 2 -> 3' in capsys.readouterr().err


def test_the_flags_of_a_training_can_be_repeated(records, tmp_path):
    logdir = tmp_path / 'of a training'
    command = [f'--train_logdir={logdir}', f'--dataset_dir={records}', '--train_split=fold1', '--weight_decay=0.5']
    run = {'command': command, 'working_directory': str(tmp_path), 'plugins': []}
    logdir.mkdir()
    (logdir / 'run.json').write_text(json.dumps({'runs': [run]}))
    options = cli.options_of('cross_validate', [f'--from={logdir}/run.json', f'--output_dir={tmp_path}/my cv'])
    assert options.train.optimizer.weight_decay == 0.5 and options.train.dataset.directory == str(records)
    words = [word.removeprefix('--') for word in options.of_fold(2).command[-2:]]
    assert words == ['fold=2', f'train_logdir={tmp_path}/my cv/fold2']


@pytest.mark.parametrize('flag', ['--fold=2', '--train_split=fold1', '--eval_split=fold1', '--train_logdir=logs'])
def test_what_it_sets_itself_is_refused(records, tmp_path, capsys, flag):
    assert cli.main(line(records, tmp_path / 'cv', flag)) == 2
    assert f'Omit {flag.partition("=")[0]}.' in capsys.readouterr().err


def test_workers_are_refused(records, tmp_path, capsys):
    assert cli.main(line(records, tmp_path / 'cv', '--worker_hosts=a:1,b:1')) == 2
    assert 'one after the other' in capsys.readouterr().err


def test_a_range_test_is_refused(records, tmp_path, capsys):
    assert cli.main(line(records, tmp_path / 'cv', '--find_learning_rate')) == 2
    assert '--find_learning_rate=true is not allowed: find the learning rate in a training' in capsys.readouterr().err
    assert not (tmp_path / 'cv').exists()


def test_records_without_folds_are_refused(tmp_path, capsys):
    require_package_of_pages()
    (tmp_path / 'dataset.json').write_text(json.dumps({'num_classes': 3}))
    dataset_files.write_split(tmp_path, 'train', [[dataset_files.record(1)]])
    assert cli.main(line(tmp_path, tmp_path / 'cv')) == 1
    error = capsys.readouterr().err
    assert 'have no folds' in error and '--folds=5' in error
    assert not (tmp_path / 'cv').exists()


@pytest.mark.slow
def test_networks_without_classes(tmp_path, capsys):
    """A network of depth has a table of its figures, a page without images, and the files of its predictions."""
    for fold in (1, 2):
        records = [task_records.record(10 * fold + number, with_labels=False) for number in range(2)]
        dataset_files.write_split(tmp_path, f'fold{fold}', [records])
    content = {'num_classes': task_records.CLASSES, 'depth_scale': task_records.DEPTH_SCALE}
    (tmp_path / 'dataset.json').write_text(json.dumps(content))
    assert cli.main(line(tmp_path, tmp_path / 'cv', '--network_task=depth', '--train_crop_size=33,33')) == 0
    validation = cross_validation.read(str(tmp_path / 'cv'))
    rmse = [json.loads(pathlib.Path(fold.metrics).read_text())['metrics']['depth']['rmse'] for fold in validation.folds]
    assert validation.results['figures']['depth rmse']['folds'] == rmse and not validation.results['classes']
    assert 'depth rmse' in capsys.readouterr().out
    page = (tmp_path / 'cv' / 'report.html').read_text()
    content = json.loads(re.search(r'id="content">(.*?)</script>', page)[1])
    assert [run['name'] for run in content['runs']] == ['Fold 1', 'Fold 2'] and not content['pictures']
    assert len(list((tmp_path / 'cv' / 'predictions').rglob('depth/*.png'))) == 4


def of_fold(matrix, **further):
    figures = ConfusionMatrix.of_counts(np.array(matrix)).result()
    return {
        'miou': figures.miou,
        'class_iou': dict(zip('ab', figures.class_iou, strict=True)),
        'pixel_accuracy': figures.pixel_accuracy,
        'mean_accuracy': figures.mean_accuracy,
        'confusion_matrix': matrix,
        'images': 3,
        **further,
    }


def test_mean_deviation_and_pooled_figures():
    # IoU of a: 3/4, 1/2; of b: 1/2, not there.
    results = fold_figures.of_folds([of_fold([[3, 1], [0, 1]]), of_fold([[1, 1], [0, 0]])])
    assert results['classes']['a'] == {
        'mean': pytest.approx(0.625), 'deviation': pytest.approx(0.25 / 2**0.5), 'folds': [0.75, 0.5],
        'pooled': pytest.approx(4 / 6),
    }  # fmt: skip
    assert results['classes']['b']['folds'] == [0.5, 0.0] and results['classes']['b']['pooled'] == pytest.approx(1 / 3)
    assert results['figures']['mean IoU']['pooled'] == pytest.approx(0.5)
    assert results['figures']['mean IoU']['mean'] == pytest.approx((0.625 + 0.25) / 2)
    assert results['confusion_matrix'] == [[4, 2], [0, 1]]


def test_a_class_that_a_fold_lacks_is_left_out_of_its_mean():
    results = fold_figures.of_folds([of_fold([[3, 1], [0, 1]]), of_fold([[2, 0], [0, 0]])])
    assert results['classes']['b'] == {'mean': 0.5, 'deviation': None, 'folds': [0.5, None], 'pooled': 0.5}
    row = next(row for row in fold_figures.table(results).splitlines() if row.startswith('b'))
    assert row.split() == ['b', '0.5000', '-', '0.5000', '-', '0.5000']


def test_figures_of_further_tasks_have_no_pooled_figure():
    contents = [of_fold([[0, 0], [0, 0]], metrics={'depth': {'rmse': rmse}}) for rmse in (1.0, 3.0)]
    for content in contents:
        del content['confusion_matrix']
    results = fold_figures.of_folds(contents)
    assert results['classes'] == {} and 'confusion_matrix' not in results
    assert results['figures'] == {
        'depth rmse': {'mean': 2.0, 'deviation': pytest.approx(2**0.5), 'folds': [1.0, 3.0], 'pooled': None}
    }
    lines = fold_figures.table(results).splitlines()
    assert lines[0].split() == ['figure', 'mean', 'deviation', 'fold1', 'fold2', 'pooled'] and set(lines[1]) == {'-'}
    assert lines[2].split()[:3] == ['depth', 'rmse', '2.0000'] and len(lines) == 3
