"""benchmarks/recipes.py and fine_tune.py: their flags, the sequences they leave out, and trainings that are stopped."""

import importlib
import json
import pathlib
import sys

import numpy as np
import pytest

from benchmarks import _data
from deeplab import cli

FOLDER = pathlib.Path(_data.__file__).parent


@pytest.fixture
def script(monkeypatch):
    """Imports a script as it is run, with its folder in front."""
    monkeypatch.syspath_prepend(FOLDER)
    before = set(sys.modules)
    yield importlib.import_module
    for name in set(sys.modules) - before:
        if pathlib.Path(getattr(sys.modules[name], '__file__', None) or '/').parent == FOLDER:
            del sys.modules[name]


def test_each_lever_is_a_command_line_of_train(script):
    recipes = script('recipes')
    words = ['--train_logdir=log', '--dataset_dir=records', *recipes.SHARED]
    plain = cli.options_of('train', [*words, *recipes.LEVERS['small_data']])
    for lever, flags in recipes.LEVERS.items():
        options = cli.options_of('train', [*words, *flags])
        assert options.model.num_classes == 11
        assert (options == plain) == (lever == 'small_data'), lever


def test_the_folds_are_the_sequences(script, tmp_path):
    recipes = script('recipes')
    data = _data.generate(tmp_path / 'data', {'train': 4, 'val': 1}, (32, 40))
    folders, names = _data.layout(data), ['0001TP_1', '0006R0_1', '0016E5_1', '0016E5_2']
    for i, name in enumerate(names):
        (folders['image_folder'] / f'train_{i:04d}.jpg').rename(folders['image_folder'] / f'{name}.jpg')
        masks = folders['semantic_segmentation_folder']
        (masks / f'train_{i:04d}.png').rename(masks / f'{name}.png')
    train = folders['list_folder'] / 'train.txt'
    train.write_text('\n'.join(names) + '\n')
    records = recipes.build(data, tmp_path)
    assert (tmp_path / 'lists' / 'fold3.txt').read_text().split() == ['0016E5_1', '0016E5_2']
    assert {path.name.split('-')[0] for path in records.glob('*.tfrecord')} == {
        'train', 'val', 'fold1', 'fold2', 'fold3'
    }  # fmt: skip
    train.write_text('\n'.join([*names, 'another_1']) + '\n')
    with pytest.raises(SystemExit, match='1 images of train are of other sequences'):
        recipes.build(data, tmp_path)


def test_means_over_seeds(script):
    runs = [
        {'lever': 'a', 'steps': 5, 'left_out': 'none', 'seed': 0, 'val': {'miou': 0.25}},
        {'lever': 'a', 'steps': 5, 'left_out': 'none', 'seed': 1, 'val': {'miou': 0.75}},
        {
            'lever': 'a',
            'steps': 5,
            'left_out': 'x',
            'seed': 1,
            'val': {'miou': 0.5},
            'left_out_sequence': {'miou': 0.1},
        },
    ]
    assert script('recipes').means(runs) == {
        'a, 5 steps': {
            'without none: val': {'miou': 0.5, 'seeds': 2},
            'without x: val': {'miou': 0.5, 'seeds': 1},
            'without x: left_out_sequence': {'miou': 0.1, 'seeds': 1},
        }
    }


STAND_IN = """
import pathlib, signal, sys, time
folder = pathlib.Path(sys.argv[1])
folder.mkdir(exist_ok=True)
def stop(*_):
    (folder / 'model.ckpt-1.index').touch()
    sys.exit(0)
signal.signal(signal.SIGTERM, stop)
(folder / 'begun').touch()
if not (folder / 'model.ckpt-1.index').exists():
    time.sleep(60)
(folder / 'model.ckpt-2.index').touch()
"""


def test_a_stopped_training_continues(script, tmp_path, monkeypatch):
    resumable = script('_resumable')
    logdir = tmp_path / 'log'
    words = [sys.executable, '-c', STAND_IN, str(logdir)]
    monkeypatch.setattr(resumable.camvid, 'program', lambda *_: words)
    with pytest.raises(resumable.StoppedError, match='Run the same command again'):
        resumable.train(logdir, 2, resumable.Clock(2.0))
    assert not (logdir / 'model.ckpt-2.index').exists()
    resumable.train(logdir, 2, resumable.Clock(None))
    resumable.train(logdir, 2, resumable.Clock(0.0))  # nothing is left to do
    assert len(json.loads((logdir / resumable.PIECES).read_text())) == 2
    with pytest.raises(SystemExit, match='failed with status 0'):
        resumable.train(logdir, 3, resumable.Clock(None))
    with pytest.raises(SystemExit, match='other flags'):
        resumable.train(logdir, 2, resumable.Clock(None), '--seed=1')


def test_figures_of_other_flags_are_not_shown(script, tmp_path, monkeypatch):
    recipes = script('recipes')
    run = {'lever': 'mine', 'left_out': 'none', 'seed': 0, 'steps': 5, 'flags': ['--a=1'], 'minutes': 1}
    monkeypatch.setattr(recipes, 'measured', lambda: [run | {'val': {'miou': 0.5, 'class_iou': {}}}])
    monkeypatch.setattr(recipes, 'build', lambda *_: tmp_path)
    words = [f'--camvid={tmp_path}', f'--workdir={tmp_path}', '--levers=mine', '--left_out=none', '--steps=5']
    monkeypatch.setattr(sys, 'argv', ['recipes.py', *words, '--flags=--a=2'])
    with pytest.raises(SystemExit, match='measured with other flags: --a=1'):
        recipes.main()


def test_renamed_classes_change_places(script):
    table = script('fine_tune').renamed_ids()
    assert sorted(table) == list(range(256))
    changed = np.flatnonzero(table != np.arange(256))
    assert changed.tolist() == [0, 2, 4, 6, 8, 10]
    assert (table[8], table[10]) == (10, 0)
