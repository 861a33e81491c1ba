"""The examples of docs/predict.md and docs/api.md: each command and each piece of Python runs."""

import contextlib
import os
import pathlib
import re
import shutil

import pytest
from absl import logging
from PIL import Image

from deeplab import cli, train
from deeplab.datasets.descriptor import DatasetDescriptor
from deeplab.inference import videos
from deeplab.options import USUAL_SAVED, DatasetOptions
from deeplab.programs import predict
from deeplab.training.train_loop import TrainResult
from tests.helpers import panoptic_setup, predictor_setup, video_setup
from tests.inference.test_predictor import write_export

DOCS = pathlib.Path(__file__).parents[2] / 'docs'
PAGE = (DOCS / 'predict.md').read_text(encoding='utf-8')
PYTHON = re.findall(r'```python\n(.*?)```', PAGE, re.DOTALL)
COMMANDS = re.findall(
    r'^deeplab predict (.*)$', '\n'.join(re.findall(r'```sh\n(.*?)```', PAGE, re.DOTALL)), re.MULTILINE
)

pytestmark = pytest.mark.usefixtures('tiny_network')


@pytest.fixture(scope='module')
def prepared(tmp_path_factory, tiny_network):
    """A folder with all that the examples use."""
    folder = tmp_path_factory.mktemp('examples')
    predictor_setup.write_training(folder / 'logs' / 'train')
    shutil.copytree(folder / 'logs' / 'train', folder / 'logs' / 'train' / 'best')
    classes = DatasetDescriptor('', 3, class_names=('road', 'car', 'person'), things=panoptic_setup.THINGS)
    panoptic_setup.write_training(folder / 'logs' / 'panoptic', DatasetOptions('val', '', 'gone.py'), classes)
    write_export(folder / 'frozen_inference_graph.pb')
    (folder / 'photos').mkdir()
    for i, name in enumerate(('photo.jpg', 'photos/a.jpg', 'photos/b.png', 'panorama.png')):
        size = (300, 500) if name == 'panorama.png' else (20, 30)
        Image.fromarray(predictor_setup.pixels(*size, i)).save(folder / name)
    (folder / 'clip.mp4').write_bytes(b'')
    return folder


# Several scales and flips take long to build.
@pytest.mark.parametrize(
    'number', [pytest.param(i, marks=[pytest.mark.slow] * ('scales' in PYTHON[i])) for i in range(len(PYTHON))]
)
def test_python(prepared, monkeypatch, capsys, number):
    monkeypatch.chdir(prepared)
    if 'panoptic' in PYTHON[number]:
        panoptic_setup.use_small_network(monkeypatch)
    exec(compile(PYTHON[number], 'docs/predict.md', 'exec'), {})
    written = re.findall(r"save\('(.*?)'", PYTHON[number])
    assert all(os.path.getsize(name) for name in written) and (written or capsys.readouterr().out)


def test_a_program_is_run_from_python(monkeypatch, capsys):
    (example,) = re.findall(r'```python\n(.*?)```', (DOCS / 'api.md').read_text(encoding='utf-8'), re.DOTALL)
    monkeypatch.setattr(logging, 'set_verbosity', lambda level: print('verbosity', level))
    monkeypatch.setattr(train, 'run', lambda options: TrainResult(options.number_of_steps, 0.5, 1.0, None))
    exec(compile(example, 'docs/api.md', 'exec'), {})
    assert capsys.readouterr().out == f'verbosity {logging.INFO}\n1000 0.5\n'


@pytest.mark.slow
@pytest.mark.parametrize('command', COMMANDS)
def test_command(prepared, monkeypatch, command):
    monkeypatch.chdir(prepared)
    monkeypatch.setattr(videos, 'require', lambda: None)
    video_setup.replace_ffmpeg(monkeypatch)
    for reader in ('frames', 'live_frames'):
        monkeypatch.setattr(videos, reader, lambda *given: (frame for frame in [predictor_setup.pixels(20, 30)]))
    options = cli.options_of('predict', [word.strip("'") for word in command.split()])
    if options.preset is not None:  # a download, and a network that takes long to build
        shared = predict.Predictor.from_checkpoint('logs/train')
        monkeypatch.setattr(predict, '_predictor', lambda _: contextlib.nullcontext(shared))
    result = predict.run(options)
    assert result.status == 0 and result.images > 0
    usual = ('video',) if videos.is_live(options.inputs[0]) else USUAL_SAVED
    for kind in options.save or usual:
        paths = [path for path in pathlib.Path(options.output_dir, kind).rglob('*') if path.is_file()]
        assert len(paths) == result.images
    assert os.path.exists(os.path.join(options.output_dir, 'predictions.json'))
