"""The report and compare programs on two small runs with known predictions.

Covers cli/report_flags.py, programs/compare.py, options/reports.py, reporting/content.py, reporting/inference.py
and evaluation/split_images.py.
"""

import contextlib
import dataclasses
import json
import os
import pathlib
import re
import types

import numpy as np
import pytest

from deeplab import cli, registry
from deeplab.core.metrics import ConfusionMatrix
from deeplab.errors import CheckpointError, DataError, OptionError
from deeplab.evaluation.image_results import ImageResults
from deeplab.files import output_files, run_manifests, writing
from deeplab.inference import exports, network_source
from deeplab.options import EngineOptions, PredictionOptions, ReportedRun, ReportOptions
from deeplab.programs import compare, report
from deeplab.reporting import content, evaluation_files, inference, run_files
from tests.helpers import checkpoint_files, dataset_files, report_setup
from tests.helpers import evaluation_setup as setup


@pytest.fixture
def options(tmp_path, monkeypatch):
    setup.use_small_network(monkeypatch)
    report_setup.without_charts(monkeypatch)
    return report_setup.write_runs(tmp_path)


@pytest.fixture(scope='module')
def page_of_two(tmp_path_factory):
    """The result of a report of both runs."""
    with pytest.MonkeyPatch.context() as patch:
        setup.use_small_network(patch)
        report_setup.without_charts(patch)
        return report.run(report_setup.write_runs(tmp_path_factory.mktemp('two')))


def data_of(path, id='content'):
    text = pathlib.Path(path).read_text('utf-8')
    return json.loads(re.search(rf'<script type="application/json" id="{id}">(.*?)</script>', text, re.DOTALL)[1])


def half_right():
    """The confusion matrix of a network that predicts round(class / 2), over all images."""
    matrix = ConfusionMatrix(4, 255)
    for number in range(5):
        ids = setup.truth(number)
        shown = np.where(ids == 255, 1, ids)
        matrix.update(ids, np.round(shown / 2).astype(int))
    return matrix.result()


def test_a_page_of_two_runs(page_of_two):
    result = page_of_two
    data = data_of(result.path)
    one, two = data['runs']
    expected = half_right()
    assert (one['miou'], two['miou'][0]) == ([1.0, 1.0, 1.0], pytest.approx(expected.miou))
    assert two['confusion'] == [list(row) for row in expected.confusion_matrix]
    assert two['miou'][1] < two['miou'][0] < two['miou'][2]
    assert [each['iou'][0] for each in two['classes']] == pytest.approx(list(expected.class_iou))
    assert one['calibration']['ece'] == 0 and sum(each['pixels'] for each in one['calibration']['bins']) > 100
    assert [each['miou'] for each in two['evaluations']] == [0.25, 0.5]
    assert len(one['points']) == 20
    (difference,) = data['differences']
    assert difference['run'] == 1 and difference['miou'][0] == pytest.approx(expected.miou - 1)
    assert difference['worse'] == 5 and difference['miou'][2] < 0
    assert [each['name'] for each in data['classes']] == report_setup.CLASSES
    assert sorted(data['image_names']) == sorted(report_setup.NAMES)
    assert result.images == len(data['pictures']) == 5
    assert 'two - one: -' in result.report and result.report.endswith('B)')
    assert ['Crop size', '17 x 17'] in one['figures'] and result.report.count('padded to crop_size=') == 1
    assert ['Split', 'val'] in one['settings'] and dict(one['settings'])['Scales'] == '1'


def test_the_figures_of_a_page_are_beside_it(page_of_two):
    data, found = data_of(page_of_two.path), json.loads(pathlib.Path(page_of_two.path).with_suffix('.json').read_text())
    assert found['runs'][1]['miou'] == data['runs'][1]['miou'] and found['runs'][1]['scores']
    assert found['differences'] == data['differences'] and found['image_names'] == data['image_names']
    assert page_of_two.path.replace('.html', '.json') in page_of_two.report


def test_pictures_are_those_of_the_images(page_of_two):
    result = page_of_two
    for number, picture in enumerate(data_of(result.path)['pictures']):
        height, width = setup.SIZES[picture['image']]
        assert picture['size'] == [width, height]
        shown = data_of(result.path, f'picture-{number}')
        assert (shown['width'], shown['height'], len(shown['predictions'])) == (width, height, 2)
        pixels = sum(count for _, count in picture['cells'][0])
        assert pixels == width * height - 1


def test_one_run_with_fewer_images(options):
    result = report.run(dataclasses.replace(options, runs=options.runs[1:], images=3))
    data = data_of(result.path)
    assert result.images == 3 and len(data['image_names']) == 5 and not data['differences']
    pair = f'{2 * 4 + 1}'
    image, pixels = data['runs'][0]['examples'][pair][0]
    assert pixels == max((setup.truth(i) == 2).sum() for i in range(5)) == (setup.truth(image) == 2).sum()
    eval_folder = pathlib.Path(options.runs[1].path, 'eval')
    assert [*eval_folder.glob('record_check-val-*')]  # the next report need not check the records


def test_the_averages_of_a_training_with_a_decay(options, tmp_path):
    values = {'weight': np.zeros(1, np.float32), 'weight/ExponentialMovingAverage': np.ones(1, np.float32)}
    checkpoint_files.write(tmp_path / 'log' / 'model.ckpt-10', values)
    checkpoint_files.write_run(tmp_path / 'log', 0.99)
    evaluation = options.runs[0].evaluation
    for asked, expected in ((None, 'moving averages'), (False, 'as trained')):
        asking = dataclasses.replace(evaluation, use_moving_average=asked)
        task = inference.prepare(str(tmp_path / 'log' / 'model.ckpt-10'), asking, None, checks_weights=True)
        with contextlib.ExitStack() as stack:
            found = inference.run(task, stack)
            assert (found.round.metrics.miou == 1.0) == (asked is None)
            assert ('Weights', expected) in content._settings(task)


def test_a_run_without_records_has_curves_and_says_so(options):
    run = dataclasses.replace(options.runs[0], evaluation=None, no_records='--dataset_dir is not given.')
    result = report.run(dataclasses.replace(options, runs=(run,)))
    data = data_of(result.path)
    assert result.images == 0 and not data['pictures']
    assert data['runs'][0]['notes'] == ['No images: --dataset_dir is not given.']
    assert len(data['runs'][0]['evaluations']) == 2
    assert [each['name'] for each in data['classes']] == report_setup.CLASSES


def test_the_page_says_which_figures_are_not_on_its_curves(options):
    for path in list(pathlib.Path(options.runs[0].path, 'eval').glob('metrics-*.json')):
        content_of = json.loads(path.read_text())
        path.write_text(json.dumps(content_of | {'crop_size': [17, 17]}))
        path.with_stem(f'{path.stem}-val').write_text(json.dumps(content_of | {'crop_size': [33, 33]}))
    run = dataclasses.replace(options.runs[0], evaluation=None, no_records='none.')
    (found,) = data_of(report.run(dataclasses.replace(options, runs=(run,))).path)['runs']
    (curves,) = (note for note in found['notes'] if 'curves' in note)
    assert 'crop size' in curves and '2 metrics files of other settings' in curves
    assert len(found['evaluations']) == 2


def exported(num_classes):
    """An open export at step 7 that is always right, except where the label is ignored."""
    return registry.Exported(
        predict=lambda images, _: registry.Outputs(np.rint(images[..., 0] / 10).astype(np.int32)),
        size=None,
        takes_smaller=False,
        channels=3,
        num_classes=num_classes,
        has_probabilities=False,
        metadata={'global_step': 7},
    )


def test_an_export_and_a_checkpoint_after_a_run_without_predictions(options, tmp_path, monkeypatch):
    export = tmp_path / 'frozen.pb'
    export.write_bytes(b'')
    asked, classes = [], [4]

    @contextlib.contextmanager
    def opened(path, threads=None, record=None):
        asked.append(threads)
        yield exported(*classes)

    monkeypatch.setattr(exports, 'opened', opened)
    engine = EngineOptions('onnxruntime', threads=3)
    prediction = PredictionOptions((0.5, 1.0), True)
    evaluation = dataclasses.replace(options.runs[1].evaluation, engine=engine, prediction=prediction)
    second = dataclasses.replace(options.runs[1], path=str(export), evaluation=evaluation)
    without_records = dataclasses.replace(options.runs[0], evaluation=None)
    result = report.run(dataclasses.replace(options, runs=(without_records, options.runs[1], second)))
    _, two, one = data_of(result.path)['runs']
    assert one['miou'][0] == 1.0 > two['miou'][0]
    assert one['calibration'] is None and two['calibration'] is not None
    assert one['name'] == 'frozen.pb' and dict(one['figures'])['Step'] == '7'
    assert asked[-1] == 3  # threads
    assert ['Weights', 'of the export'] in one['settings'] and 'Windows' not in dict(one['settings'])
    (note,) = one['notes']
    assert (
        all(part in note for part in ('engine=', 'scales=(0.5, 1.0)', 'add_flipped_images=True')) and not two['notes']
    )
    (difference,) = data_of(result.path)['differences']
    assert (difference['run'], difference['first'], difference['better']) == (2, 1, 5)
    assert f'{one["name"]} - {two["name"]}: +' in result.report
    empty, *others = data_of(result.path, 'picture-0')['predictions']
    assert empty is None and all(others) and others[0] != others[1]
    classes[0] = 5
    with pytest.raises(CheckpointError, match='5 classes, but the data set has 4'):
        report.run(dataclasses.replace(options, runs=(second,)))


def test_a_run_that_does_not_exist(options, tmp_path):
    run = dataclasses.replace(options.runs[0], path=str(tmp_path / 'missing'))
    with pytest.raises(OptionError, match=r'missing.*does not exist'):
        report.run(dataclasses.replace(options, runs=(run,)))


def test_nothing_to_report_is_an_error(options, tmp_path):
    run = dataclasses.replace(
        options.runs[0], path=str(tmp_path / 'records'), evaluation=None, no_records='None given.'
    )
    with pytest.raises(OptionError, match=r'nothing to report.*None given'):
        report.run(dataclasses.replace(options, runs=(run,)))


def test_a_run_without_checkpoint_is_not_compared(tmp_path):
    runs = tuple(types.SimpleNamespace(path=str(tmp_path)) for _ in range(2))
    with pytest.raises(CheckpointError, match='no checkpoint in'):
        compare.run(types.SimpleNamespace(runs=runs))


@pytest.mark.parametrize(
    ('miou', 'limit', 'expected'),
    [
        (0.4, None, ''),
        (0.4, 0.2, ''),
        (0.4, 0.05, 'has a mean IoU of 0.4000, .*0.5000; '),
        (None, 0.2, 'is undefined, '),
    ],
)
def test_a_loss_of_miou_that_is_not_allowed(monkeypatch, tmp_path, miou, limit, expected):
    runs = tuple(ReportedRun(str(tmp_path / name)) for name in ('one', 'better', 'two'))
    made = report.ReportResult('page.html', 0, 0.0, (0.5, 0.6, miou), 'the page')
    monkeypatch.setattr(report, 'run', lambda options: made)
    result = compare.run(ReportOptions(runs, 'page.html', max_miou_loss=limit))
    assert result.status == bool(expected)
    assert re.fullmatch(f"the page\n.*two' {expected}.*max_miou_loss.*" if expected else 'the page', result.report)


@pytest.fixture
def a_pass(request):
    """Makes a pass over images with the given names and labels."""

    def make(checkpoint, names, labels, has_classes=True):
        images = ImageResults(4, 255)
        request.addfinalizer(images.__exit__)
        for name, ids in zip(names, labels, strict=True):
            images.add(name, ids, np.zeros_like(ids))
        evaluated = types.SimpleNamespace(checkpoint=checkpoint)
        return types.SimpleNamespace(round=evaluated, images=images, has_classes=has_classes)

    return make


def test_runs_on_other_labels_are_not_compared(a_pass):
    labels = np.zeros((2, 3, 4), int)
    corrected = labels.copy()
    corrected[1, 2] = 3
    one, two = (a_pass(name, 'ab', labels) for name in ('one', 'two'))
    assert inference.require_same_labels([one, two]) == [[], []]
    with pytest.raises(DataError, match=r"'one' and 'three'.*1 image, such as 'b'.*same labels"):
        inference.require_same_labels([one, two, a_pass('three', 'ab', corrected)])
    without_classes = a_pass('four', 'ab', np.full_like(labels, 255), has_classes=False)
    assert inference.require_same_labels([one, without_classes]) == [[], []]
    assert inference.require_same_labels([without_classes, one]) == [[], []]
    resized = a_pass('two', 'ab', [labels[0], np.zeros((6, 8), int)])
    first, (note,) = inference.require_same_labels([one, resized])
    assert first == [] and note.startswith('1 of 2 images had another size')


class FakeRecords(list):
    def facts(self):
        return {'digest': hash(tuple(self))}

    def read(self, record):
        return self[record]


def test_records_of_other_images_or_masks_are_refused_before_the_first_prediction():
    def task(path, names, masks, classes=4):
        found = FakeRecords(
            dataset_files.example.encode(b'image', 'png', name, *mask.shape, 3, dataset_files.png(mask))
            for name, mask in zip(names, masks, strict=True)
        )
        reader, descriptor = types.SimpleNamespace(index=found), types.SimpleNamespace(num_classes=classes)
        facts = {'records': np.arange(len(found)), 'num_images': len(found), 'descriptor': descriptor}
        evaluation = types.SimpleNamespace(split=types.SimpleNamespace(reader=reader, **facts))
        return types.SimpleNamespace(source=network_source.at(path), evaluation=evaluation)

    masks = np.zeros((2, 3, 4), np.uint8)
    corrected = masks.copy()
    corrected[1, 2] = 3
    one = task('one', 'ab', masks)
    inference.require_same_records([one, task('two', 'ab', masks), task('two', 'ab', [masks[0], corrected[1, :2]])])
    with pytest.raises(DataError, match=r"'one' and 'three'.*'b' and 'c'.*same images"):
        inference.require_same_records([one, task('three', 'ac', masks)])
    with pytest.raises(DataError, match=r"'one' and 'four'.*1 image, such as 'b'.*same labels"):
        inference.require_same_records([one, task('four', 'ab', corrected)])
    with pytest.raises(DataError, match=r"'one' and 'five'.* on 2 images of 4 classes and 3 of 4"):
        inference.require_same_records([one, one, task('five', 'abc', [*masks, masks[0]])])
    with pytest.raises(DataError, match=r"'one' and 'six'.* and 2 of 5"):
        inference.require_same_records([one, task('six', 'ab', masks, classes=5)])


def test_runs_are_checked_before_the_first_prediction(options, monkeypatch, tmp_path):
    monkeypatch.setattr(report.inference, 'run', lambda task: pytest.fail('a run was predicted'))
    setup.write_checkpoint(tmp_path / 'two', step=30, name='other')
    with pytest.raises(CheckpointError, match='model.ckpt-30.*does not match'):
        report.run(options)
    evaluation = options.runs[1].evaluation
    missing = dataclasses.replace(evaluation, dataset=dataclasses.replace(evaluation.dataset, split='missing'))
    with pytest.raises(DataError, match='missing'):
        report.run(dataclasses.replace(options, runs=(options.runs[0], ReportedRun(options.runs[1].path, missing))))
    bare = dataclasses.replace(evaluation, dataset=setup.write_data(tmp_path / 'bare', with_labels=False))
    with pytest.raises(DataError, match='no mask'):
        report.run(dataclasses.replace(options, runs=(options.runs[0], ReportedRun(options.runs[0].path, bare))))


def test_only_its_own_pages_are_overwritten(options, tmp_path):
    one = dataclasses.replace(options, runs=(dataclasses.replace(options.runs[0], evaluation=None),))
    for _ in range(2):
        report.run(one)
    (tmp_path / 'mine.html').write_text('<!doctype html>')
    (tmp_path / 'other.json').write_text('{"mine": 1}')
    for path, taken in (('mine.html', r'mine\.html'), ('other.html', r'other\.json')):
        with pytest.raises(OptionError, match=f'{taken}.*not overwritten'):
            report.run(dataclasses.replace(one, path=str(tmp_path / path)))


def test_the_output_is_checked_before_the_work(options, tmp_path):
    (tmp_path / 'file').write_text('')
    with pytest.raises(OptionError, match='cannot be created'):
        report.run(dataclasses.replace(options, runs=(), path=str(tmp_path / 'file' / 'report.html')))


@pytest.mark.skipif(not os.path.exists('/dev/full'), reason='no /dev/full')
def test_a_full_disk_is_reported(monkeypatch, tmp_path):
    monkeypatch.setattr(writing, 'write', lambda path, text: pathlib.Path('/dev/full').write_text(text))
    with pytest.raises(OptionError, match='path: .*report.html.* cannot be written: No space left'):
        output_files.write(str(tmp_path / 'report.html'), 'ReportOptions.path', 'a')


def test_checkpoint_and_folder_of_a_run(tmp_path):
    newest = setup.write_checkpoint(tmp_path, step=30)
    assert network_source.at(str(tmp_path)).best() == newest
    (tmp_path / 'best').mkdir()
    best = setup.write_checkpoint(tmp_path / 'best', step=20)
    assert network_source.at(str(tmp_path)).best() == best
    assert network_source.at(newest).best() == newest
    for path in (tmp_path, tmp_path / 'best', newest, best):
        assert run_manifests.training_folder(str(path)) == str(tmp_path)


@pytest.mark.parametrize(
    ('paths', 'expected'),
    [
        (['logs/a', 'logs/b/'], ['a', 'b']),
        (['a/best', 'b/best'], ['a/best', 'b/best']),
        (['a', 'a'], ['1: a', '2: a']),
    ],
)
def test_short_names(paths, expected):
    assert content.short_names(paths) == expected


def test_the_current_folder_has_a_name(tmp_path, monkeypatch):
    (tmp_path / 'run').mkdir()
    monkeypatch.chdir(tmp_path / 'run')
    assert content.short_names(['.']) == ['run']
    files = run_files.Run('run', '.', [], evaluation_files.Curve(), {'command': ['a']})
    assert run_files.repeat_line(files).endswith(f'--train_logdir={tmp_path}/run_again')


# --- The command line ------------------------------------------------------------------------------------------------


def write_manifest(folder, **options):
    trained = {'dataset': {'name': 'camvid', 'directory': 'records'}, 'validation': {'split': 'test'}, **options}
    command = ['--train_logdir=log', '--dataset_dir=records', '--dataset=camvid', '--depth_multiplier=0.5']
    run = {'command': command, 'folder': str(folder)}
    (folder / 'log').mkdir()
    (folder / 'log' / 'run.json').write_text(json.dumps({'runs': [run | {'options': trained}]}))
    return str(folder / 'log')


def test_records_and_network_of_the_run_are_taken(tmp_path):
    (tmp_path / 'records').mkdir()
    path = write_manifest(tmp_path, moving_average_decay=0.99, resize={'min_value': 100, 'max_value': 200})
    made = cli.options_of('report', [path, '--images=7', '--output=x.html'])
    (run,) = made.runs
    evaluation = run.evaluation
    assert (made.path, made.images, made.command[:2]) == ('x.html', 7, ('deeplab', 'report'))
    assert (evaluation.dataset.name, evaluation.dataset.split) == ('camvid', 'test')
    assert evaluation.dataset.directory == str(tmp_path / 'records')
    assert (evaluation.model.depth_multiplier, evaluation.model.num_classes, evaluation.model.crop_size) == (
        0.5,
        11,
        None,
    )
    assert evaluation.use_moving_average is None and evaluation.resize.min_value == 100


def test_the_crop_of_the_validations_is_taken(tmp_path):
    def crops(*words):
        return [run.evaluation.model.crop_size for run in cli.options_of('report', words).runs]

    paths = []
    for name, size in (('one', [33, 65]), ('two', [33, 65]), ('three', None)):
        (tmp_path / name / 'records').mkdir(parents=True)
        paths.append(write_manifest(tmp_path / name, validation={'split': 'test', 'crop_size': size}))
    assert crops(paths[0]) == [(33, 65)]
    assert crops(*paths[:2]) == [(33, 65)] * 2
    assert crops(*paths) == [None] * 3  # runs are compared at the same size
    assert crops(paths[0], '--eval_crop_size=65,65') == [(65, 65)]
    for words in (['--eval_split=train'], ['--min_resize_value=9', '--max_resize_value=9'], ['--window=33,33']):
        assert crops(paths[0], *words) == [None]


def test_the_command_line_takes_precedence_over_the_run(tmp_path):
    path = write_manifest(tmp_path)
    words = [path, '--dataset_dir=other', '--eval_split=val', '--depth_multiplier=1.0', '--eval_crop_size=33,65']
    words += ['--engine=onnxruntime', '--inference_threads=3']
    (run,) = cli.options_of('report', words).runs
    evaluation = run.evaluation
    assert (evaluation.dataset.directory, evaluation.dataset.split, evaluation.dataset.name) == (
        'other',
        'val',
        'camvid',
    )
    assert (evaluation.model.depth_multiplier, evaluation.model.crop_size) == (1.0, (33, 65))
    assert (evaluation.engine.engine, evaluation.engine.threads) == ('onnxruntime', 3)


def test_a_checkpoint_without_manifest_is_identified(tmp_path, monkeypatch):
    line = [str(tmp_path), '--dataset_dir=records', '--dataset=camvid', '--output_stride=8']
    (run,) = cli.options_of('report', line).runs
    assert run.network == {'ModelOptions.output_stride': 8}
    setup.write_checkpoint(tmp_path)
    asked = []

    def find(path, changes):
        asked.append((path, changes))
        return types.SimpleNamespace(options=dataclasses.replace(setup.MODEL, model_variant='xception_65'))

    monkeypatch.setattr(network_source.model_source, 'find', find)
    prepared = []
    monkeypatch.setattr(
        report.inference,
        'prepare',
        lambda path, evaluation, *_: prepared.append(evaluation.model) or types.SimpleNamespace(notes=()),
    )
    report._prepared(run, str(tmp_path), False)
    (model,) = prepared
    assert asked == [(str(tmp_path / 'model.ckpt-10'), run.network)]
    assert (model.model_variant, model.crop_size) == ('xception_65', None)
    path = write_manifest(tmp_path)
    assert cli.options_of('report', [path, '--dataset_dir=records']).runs[0].network is None


def test_a_run_whose_records_are_elsewhere_has_no_evaluation(tmp_path):
    path = write_manifest(tmp_path)
    (run,) = cli.options_of('report', [path]).runs
    assert run.evaluation is None and 'records' in run.no_records and '--dataset_dir' in run.no_records


@pytest.mark.parametrize(
    ('program', 'words', 'parts'),
    [
        ('report', [], ['--run']),
        ('report', ['.', '--images=501'], ['--images=501', '500']),
        ('report', ['.', '--metrics_dir=a', '--metrics_dir=b'], ['--metrics_dir', '1 runs']),
        ('compare', ['.', '--dataset_dir=records'], ['two checkpoints']),
        ('compare', ['.', '.'], ['--dataset_dir']),
    ],
)
def test_mistakes(program, words, parts, capsys):
    assert cli.main([program, *words]) == 2
    message = capsys.readouterr().err
    assert all(part in message for part in parts), message


def test_options_of_python():
    with pytest.raises(OptionError, match='images=0'):
        ReportOptions((), 'report.html', images=0)
    with pytest.raises(OptionError, match=r'page\.JSON.*\.html'):
        ReportOptions((), 'page.JSON')
