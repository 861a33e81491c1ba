"""eval and vis of images of any size in windows. Covers inference/any_size.py and inference/runners.py."""

import dataclasses
import json
import pathlib

import numpy as np
import pytest
from PIL import Image

from deeplab import cli, vis
from deeplab import eval as eval_program
from deeplab.errors import OptionError
from deeplab.inference.predictor import Predictor
from deeplab.options import DatasetOptions, EvalOptions, VisOptions, WaitOptions, WindowOptions
from tests.helpers import dataset_files, predictor_setup

pytestmark = pytest.mark.usefixtures('tiny_network')

SIZES = [(150, 230), (40, 60)]
# The network sees 12 pixels around each; a quarter of the overlap of 65 pixels is more.
WINDOWS = WindowOptions((97, 129), (32, 64))
ONCE = WaitOptions(interval_secs=0, max_rounds=1, timeout_secs=0)


@pytest.fixture(scope='module')
def options(tmp_path_factory, tiny_network):
    folder = predictor_setup.write_training(tmp_path_factory.mktemp('train'))
    records = [
        dataset_files.example.encode(
            dataset_files.png(predictor_setup.pixels(*size)), 'png', f'image_{number}', *size, 3,
            dataset_files.png(dataset_files.ids(*size, classes=4, seed=number)),
        )
        for number, size in enumerate(SIZES)
    ]  # fmt: skip
    dataset_files.write_split(folder, 'train', [records])
    data = DatasetOptions('train', str(folder), str(folder / 'tiny.json'))
    return EvalOptions(predictor_setup.MODEL, data, str(folder), str(folder / 'eval'), wait=ONCE, fits_crop_size=True)


def test_windows_give_the_figures_and_pictures_of_whole_images(options):
    asked = dataclasses.replace(options, metrics=('calibration',))
    whole = eval_program.run(asked).rounds[0]
    (tiled,) = eval_program.run(dataclasses.replace(asked, windows=WINDOWS, batch_size=2)).rounds
    counts, expected = (np.array(each.metrics.confusion_matrix) for each in (tiled, whole))
    assert counts.sum() == expected.sum() == sum(height * width for height, width in SIZES)
    assert np.abs(counts - expected).sum() < 1e-3 * counts.sum()
    assert tiled.further['calibration']['ece'] == pytest.approx(whole.further['calibration']['ece'], abs=1e-3)
    assert pathlib.Path(tiled.path).name == 'metrics-7-train-window_97_129-window_stride_32_64.json'
    assert json.loads(pathlib.Path(tiled.path).read_text())['flags']['window'] == [97, 129]

    folder = pathlib.Path(options.eval_logdir).with_name('vis')
    model = dataclasses.replace(options.model, crop_size=None)
    seen = vis.run(
        VisOptions(
            model, options.dataset, options.checkpoint_dir, str(folder), wait=ONCE, also_save_raw_predictions=True,
            save=('confidence', 'errors'), windows=WINDOWS,
        )
    )  # fmt: skip
    with Predictor.from_checkpoint(options.checkpoint_dir, **dataclasses.asdict(WINDOWS)) as predictor:
        for number, size in enumerate(SIZES):
            found = np.asarray(Image.open(pathlib.Path(seen.raw_dir, f'image_{number}.png')))
            assert np.array_equal(found, predictor(predictor_setup.pixels(*size)).labels) and len(np.unique(found)) > 1
            image = np.asarray(Image.open(pathlib.Path(seen.pictures_dir, f'{number:06d}_image.png')))
            assert np.array_equal(image, predictor_setup.pixels(*size))


def test_windows_of_a_command_line():
    line = ['--checkpoint_dir=logs', '--dataset_dir=records']
    plain = cli.options_of('vis', [*line, '--vis_logdir=vis'])
    assert plain.windows is None and plain.model.crop_size == (513, 513)
    given = cli.options_of('vis', [*line, '--vis_logdir=vis', '--window=97,97'])
    assert given.windows == WindowOptions((97, 97)) and given.model.crop_size is None
    given = cli.options_of('vis', [*line, '--vis_logdir=vis', '--window_stride=9,9', '--vis_crop_size=97,97'])
    assert given.windows == WindowOptions(None, (9, 9)) and given.model.crop_size == (97, 97)
    with pytest.raises(OptionError, match='--window=97,97 .*--master=here.*one size'):
        cli.options_of('eval', [*line, '--eval_logdir=eval', '--window=97,97', '--master=here'])
