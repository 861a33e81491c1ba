"""Eval and vis of a checkpoint of the original, compared with the mIoU and predictions of the original.

Checkpoint and images are too large to lie beside the tests; where they are absent, these tests are skipped.
"""

import json
import pathlib

import numpy as np
import pytest
from PIL import Image

from deeplab import cli, common, vis
from deeplab import eval as eval_program
from deeplab.datasets import build_voc2012_data
from deeplab.options import (
    BuildVocOptions,
    DatasetOptions,
    EvalOptions,
    ModelOptions,
    PredictionOptions,
    VisOptions,
    WaitOptions,
)
from deeplab.programs import verify
from tests.parity import goldens

pytestmark = pytest.mark.rewritten

SHARED = pathlib.Path(__file__).parents[3] / 'shared'
CAMVID = SHARED / 'data' / 'camvid'
NAME = pathlib.Path('checkpoints', 'mobilenet_v2_camvid')
MODEL = ModelOptions({common.OUTPUT_TYPE: 11}, crop_size=(361, 481), depth_multiplier=0.5)
ONCE = WaitOptions(max_rounds=1, timeout_secs=0)


@pytest.fixture(scope='module')
def golden(pytestconfig):
    """Folder of the checkpoint with what the original made of it."""
    for folder in (goldens.directory(pytestconfig), SHARED / 'goldens'):
        if (folder / NAME / 'run.json').is_file():
            return folder / NAME
    pytest.skip(f'there is no {NAME} among the goldens')


@pytest.fixture(scope='module')
def dataset(tmp_path_factory, golden):
    """The records of CamVid's val split, built as VOC's are."""
    if not CAMVID.is_dir():
        pytest.skip('the images of CamVid (shared/data/camvid beside the checkout) are not there')
    folder = tmp_path_factory.mktemp('camvid')
    (folder / 'lists').mkdir()
    (folder / 'lists' / 'val.txt').write_text((CAMVID / 'ImageSets' / 'Segmentation' / 'val.txt').read_text())
    build_voc2012_data.run(
        BuildVocOptions(
            image_folder=str(CAMVID / 'JPEGImages'),
            semantic_segmentation_folder=str(CAMVID / 'SegmentationClass'),
            list_folder=str(folder / 'lists'),
            output_dir=str(folder / 'records'),
            image_format='jpg',
        )
    )
    return DatasetOptions('val', str(folder / 'records'), 'camvid')


def check_eval(golden, dataset, logdir, prediction, key):
    expected = json.loads((golden / 'run.json').read_text())[key]
    options = EvalOptions(MODEL, dataset, str(golden), str(logdir), prediction=prediction, wait=ONCE)
    metrics = eval_program.run(options).rounds[0].metrics
    assert metrics.miou == pytest.approx(expected['miou'], abs=0.0005)
    np.testing.assert_allclose(metrics.class_iou, expected['class_iou'], atol=0.0005)


def test_miou_of_a_single_scale(golden, dataset, tmp_path):
    check_eval(golden, dataset, tmp_path, PredictionOptions(), 'eval_val_single_scale')


@pytest.mark.long  # test_networks.py has labels over scales and flips
def test_miou_of_several_scales_and_flips(golden, dataset, tmp_path):
    prediction = PredictionOptions((0.5, 1.0, 1.75), True)
    check_eval(golden, dataset, tmp_path, prediction, 'eval_val_scales_0.5_1.0_1.75_flipped')


@pytest.mark.slow
def test_verify_says_that_it_is_reproduced(golden, dataset, tmp_path):
    published = 100 * json.loads((golden / 'run.json').read_text())['eval_val_single_scale']['miou']
    (tmp_path / 'camvid.json').write_text(
        json.dumps([{'output_stride': 16, 'scales': [1.0], 'flips': False, 'split': 'val', 'miou': published}])
    )
    words = [f'--published={tmp_path}/camvid.json', f'--checkpoint_dir={golden}', f'--dataset_dir={dataset.directory}']
    words += ['--dataset=camvid', '--depth_multiplier=0.5', '--eval_crop_size=361,481', '--tolerance=0.05']
    result = verify.run(cli.options_of('verify', [*words, f'--verify_logdir={tmp_path}']))
    assert result.status == 0
    assert result.report.splitlines()[-1].startswith('Reproduced')


@pytest.mark.slow
def test_raw_predictions(golden, dataset, tmp_path):
    options = VisOptions(
        MODEL, dataset, str(golden), str(tmp_path), wait=ONCE, batch_size=4, also_save_raw_predictions=True
    )
    result = vis.run(options)
    expected = sorted((golden / 'val_raw_predictions').glob('*.png'))
    assert len(expected) == result.rounds[0].images == 101
    pixels = wrong = 0
    for path in expected:
        theirs, ours = (np.asarray(Image.open(file)) for file in (path, pathlib.Path(result.raw_dir, path.name)))
        pixels += theirs.size
        wrong += np.count_nonzero(theirs != ours)
    assert wrong <= 0.001 * pixels
