"""`deeplab verify`: figures that are reproduced, and what is found if they are not.

Covers evaluation/verification.py, and of cli/to_options.py the options of verify.
"""

import dataclasses
import json
import types

import numpy as np
import pytest

from deeplab import cli, common, options
from deeplab.errors import OptionError
from deeplab.evaluation import verification
from deeplab.evaluation.verification import Finding
from deeplab.options import PredictionOptions, VerifyCase, VerifyOptions
from deeplab.programs import verify
from deeplab.zoo import catalog
from tests.helpers import checkpoint_files, evaluation_setup
from tests.helpers.evaluation_setup import MODEL

NAME = 'mobilenetv2_coco_voc_trainaug'


@pytest.fixture
def network(monkeypatch):
    """Makes the network right at output stride 8 alone."""
    evaluation_setup.use_small_network(monkeypatch)
    from deeplab import model

    def only_at_stride_8(predict):
        def changed(images, network_options, *arguments, **keywords):
            found = predict(images, network_options, *arguments, **keywords)
            labels = found[common.OUTPUT_TYPE]
            return found | {common.OUTPUT_TYPE: labels if network_options.output_stride == 8 else labels // 2}

        return changed

    for name in ('predict_labels', 'predict_labels_multi_scale'):
        monkeypatch.setattr(f'deeplab.model.{name}', only_at_stride_8(getattr(model, name)))


def _options(tmp_path, miou, stride=8, **more):
    model = dataclasses.replace(MODEL, output_stride=stride)
    return VerifyOptions(
        (VerifyCase(miou, model),),
        evaluation_setup.write_data(tmp_path),
        checkpoint_dir=evaluation_setup.write_checkpoint(tmp_path),
        fits_crop_size=True,
        verify_logdir=str(tmp_path / 'verify'),
        **more,
    )


def test_a_figure_that_is_reproduced(network, tmp_path):
    made = _options(tmp_path, 99.95)
    small = dataclasses.replace(made.cases[0].model, crop_size=(5, 5))  # grows to what the images need
    result = verify.run(dataclasses.replace(made, cases=(dataclasses.replace(made.cases[0], model=small),)))
    assert result.verified[0].case.model.crop_size == (9, 9)
    assert result.status == 0
    table, images, file, conclusion = result.report.splitlines()[-4:]
    assert table.split()[-4:] == ['99.95', '100.00', '+0.050', 'reproduced']
    assert images.startswith('5 images of val')
    assert conclusion.startswith('Reproduced: ') and '0.1 percentage points' in conclusion
    content = json.loads((tmp_path / 'verify' / 'verify-checkpoint.json').read_text())
    assert content['reproduced'] and file.endswith('verify-checkpoint.json')
    assert content['evaluations'][0]['class_iou'] == [1, 1, 1, 1]


def test_the_setting_that_differs_is_found(network, tmp_path):
    """The figure was published for output stride 8; the evaluation takes 16."""
    result = verify.run(_options(tmp_path, 100.0, stride=16, diagnosis_images=2))
    assert result.status == 1
    assert 'NOT reproduced' in result.report
    assert 'Most probable reason: about ' in result.report.splitlines()[-1]
    assert result.report.endswith('output_stride=8.')
    found = {finding.setting: finding for finding in result.verified[0].findings}
    assert found['output_stride=8'].is_estimate
    same = found['scales 0.5, 0.75, 1, 1.25, 1.5, 1.75, flips']  # as good on these images, so as good on all
    assert same.miou == pytest.approx(result.verified[0].miou)


def test_a_training_with_averages_is_verified_with_them_and_the_weights_are_tried(network, tmp_path):
    made = _options(tmp_path, 50.0, diagnosis_images=2)
    values = {'weight': np.zeros(1, np.float32), 'weight/ExponentialMovingAverage': np.ones(1, np.float32)}
    checkpoint_files.write(tmp_path / 'log' / 'model.ckpt-10', values)
    checkpoint_files.write_run(tmp_path / 'log', 0.99)
    (verified,) = verify.run(dataclasses.replace(made, checkpoint_dir=str(tmp_path / 'log'))).verified
    assert verified.miou == 100
    (other,) = [each for each in verified.findings if 'use_moving_average=False' in each.setting]
    assert other.setting.startswith('the weights themselves') and other.miou < 50


@pytest.mark.parametrize(
    ('findings', 'words'),
    [((), 'greater than 0 tries other settings'), ((Finding('far', 1.0),), 'None of the settings')],
)
def test_no_setting_explains_it(monkeypatch, findings, words):
    metrics = dataclasses.make_dataclass('Round', ['images', 'checkpoint'])(5, 'logs/model.ckpt-1')
    made = VerifyOptions((VerifyCase(50.0, MODEL),), options.DatasetOptions('val', 'x'), checkpoint_dir='logs')
    conclusion = verify._conclusion((verification.Verified(made.cases[0], metrics, 40.0, False, findings),), made)
    assert conclusion.startswith('Not reproduced: ') and words in conclusion


def test_a_checkpoint_is_needed():
    with pytest.raises(OptionError, match='are not set'):
        VerifyOptions((VerifyCase(1.0, MODEL),), options.DatasetOptions('val', 'x'))


def test_the_checkpoint_of_a_preset_is_downloaded(monkeypatch, tmp_path):
    monkeypatch.setattr('deeplab.zoo.fetching.fetch', lambda name, fetch: f'{name} in {fetch.cache_dir}')
    fetch = options.FetchOptions(cache_dir='here')
    made = VerifyOptions((VerifyCase(1.0, MODEL),), options.DatasetOptions('val', 'x'), preset=NAME, fetch=fetch)
    assert verify._checkpoint(made) == f'{NAME} in here'
    with pytest.raises(ValueError, match='There is no checkpoint in'):
        verify._checkpoint(dataclasses.replace(made, checkpoint_dir=str(tmp_path)))


# --- Reasons ---------------------------------------------------------------------------------------------------------


def _descriptor(tmp_path):
    from deeplab.datasets import descriptor

    return descriptor.load(evaluation_setup.write_data(tmp_path).name)


def test_reasons_in_a_confusion_matrix(tmp_path):
    order = [2, 0, 3, 1]  # of the classes of the network in the masks
    counts = np.zeros((4, 4), int)
    counts[order, range(4)] = [50, 20, 20, 10]
    findings = {finding.setting: finding.miou for finding in verification.from_matrix(counts, _descriptor(tmp_path))}
    (permuted,) = [miou for text, miou in findings.items() if str(order) in text]
    assert permuted == pytest.approx(100)
    counts = np.diag([40, 20, 0, 0])
    counts[0, 1] = 10
    findings = {finding.setting: finding.miou for finding in verification.from_matrix(counts, _descriptor(tmp_path))}
    assert findings['classes that do not occur count as 0 in the mean'] == pytest.approx(100 * (0.8 + 2 / 3) / 4)
    assert findings["class 0 ('sky') is not part of the mean"] == pytest.approx(100 * 2 / 3)


def test_records_that_are_not_the_published_ones(tmp_path):
    described = dataclasses.replace(_descriptor(tmp_path), splits={'val': 1449})
    split = types.SimpleNamespace(
        descriptor=described, num_images=5, check_result=types.SimpleNamespace(ignored_pixels=0)
    )
    made = VerifyOptions((VerifyCase(1.0, MODEL),), options.DatasetOptions('val', 'x'), preset=NAME)
    texts = [finding.setting for finding in verification._from_records(split, made)]
    assert texts[0] == 'the records have 5 images, but val has 1449'
    assert 'no pixel of the masks has the ignore label 255' in texts[1]


def test_the_order_of_the_findings():
    findings = [Finding('far', 20.0), Finding('near', 49.0), Finding('nearest', 50.5), Finding('records')]
    ranked = verification.ranked(findings, 50.0)
    assert [finding.setting for finding in ranked] == ['records', 'nearest', 'near', 'far']
    assert [verification.explains(finding, 50.0, 40.0) for finding in ranked] == [True, True, True, False]


# --- Command line ----------------------------------------------------------------------------------------------------


def _parsed(*words):
    return cli.options_of('verify', ['--dataset_dir=records', *words])


def test_the_evaluations_of_a_preset():
    made = _parsed('--preset=xception65_cityscapes_trainfine')
    assert made.dataset.split == 'val_fine'
    assert [(case.miou, case.model.output_stride, case.model.aspp.rates) for case in made.cases] == [
        (78.79, 16, (6, 12, 18)),
        (80.42, 8, (12, 24, 36)),
    ]
    assert made.cases[1].prediction == PredictionOptions((0.75, 1.0, 1.25), True)
    assert made.cases[0].model.crop_size == (1025, 2049)
    assert made.cases[0].as_published is None
    (only,) = _parsed('--preset=xception65_cityscapes_trainfine', '--output_stride=8').cases
    assert only == made.cases[1]


def test_a_flag_that_overrides_the_preset_is_kept_in_mind():
    plain = _parsed(f'--preset={NAME}').cases[0]
    case = _parsed(f'--preset={NAME}', '--eval_crop_size=769,769').cases[0]
    assert case.model.crop_size == (769, 769)
    assert (case.as_published, case.overrides) == (plain, ('--eval_crop_size=769,769',))
    assert _parsed(f'--preset={NAME}', '--eval_crop_size=513,513').cases[0] == plain


def test_figures_of_a_file(tmp_path):
    path = tmp_path / 'figures.json'
    rows = [{'output_stride': 16, 'scales': [0.5, 1], 'flips': True, 'split': 'val', 'miou': 12.5}]
    path.write_text(json.dumps(rows))
    (case,) = _parsed(f'--published={path}', '--checkpoint_dir=logs', '--dataset=camvid').cases
    assert _parsed(f'--published={path}', '--checkpoint_dir=logs').fits_crop_size
    assert not _parsed(f'--preset={NAME}').fits_crop_size
    assert (case.miou, case.prediction, case.model.num_classes) == (12.5, PredictionOptions((0.5, 1), True), 11)


@pytest.mark.parametrize('content', ['{}', '[]', '[{"miou": 1}]', '[', '[{"scales": 1}]', '["text"]'])
def test_a_file_without_figures(tmp_path, content):
    (tmp_path / 'figures.json').write_text(content)
    with pytest.raises(ValueError, match=r'figures.json (does not hold published figures|is not JSON)'):
        catalog.read_published(str(tmp_path / 'figures.json'))


@pytest.mark.parametrize(
    ('words', 'parts'),
    [
        ([], ['requires --preset', '--published']),
        (['--preset=mobilenetv2_coco_voc_trainval'], ['--eval_split=val', 'Known: test at output stride 8']),
        ([f'--preset={NAME}', '--output_stride=32'], ['--output_stride=32', 'val at output stride 16']),
        (['--preset=xception_65_imagenet'], ['is a backbone']),
        (['--published=nowhere.json', '--checkpoint_dir=x'], ['There is no file nowhere.json']),
        ([f'--preset={NAME}', '--tolerance=-1'], ['--tolerance=-1']),
    ],
)
def test_lines_that_are_refused(words, parts, capsys):
    assert cli.main(['verify', '--dataset_dir=records', *words]) == 2
    error = capsys.readouterr().err
    for part in parts:
        assert part in error
