"""docs/arrays.md: the commands of schedulers name each part once, and the pipelines of Apache Beam do what it says."""

import collections
import dataclasses
import importlib.util
import json
import os
import pathlib
import re
import subprocess
import sys

import pytest
from PIL import Image

from deeplab.datasets import build_folder_data, record_index, shard_names
from deeplab.options import BuildFolderOptions, PredictOptions
from deeplab.programs import predict
from tests.helpers import dataset_files, predictor_setup

ROOT = pathlib.Path(__file__).parent.parent
PAGE = (ROOT / 'docs' / 'arrays.md').read_text(encoding='utf-8')


def parts_of(command, variable, numbers):
    """The values of --part that a shell makes of a command."""
    (flag,) = re.findall(r'--part=(\$\(\(.*?\)\)/\d+|\S+/\d+)', command)
    return [
        subprocess.run(
            ['sh', '-c', f'echo {flag}'], env={variable: str(n)}, capture_output=True, text=True
        ).stdout.strip()
        for n in numbers
    ]


def test_schedulers_run_each_part_once():
    expected = [f'{number}/16' for number in range(1, 17)]
    slurm, kubernetes = (re.search(rf'```{kind}\n(.*?)```', PAGE, re.DOTALL)[1] for kind in ('bash', 'yaml'))
    assert '#SBATCH --array=1-16\n' in slurm
    assert parts_of(slurm, 'SLURM_ARRAY_TASK_ID', range(1, 17)) == expected
    (from_zero,) = re.findall(r'`(--part=\$\(\(SLURM.*?)`', PAGE)
    assert parts_of(from_zero, 'SLURM_ARRAY_TASK_ID', range(16)) == expected
    assert 'completions: 16' in kubernetes and 'completionMode: Indexed' in kubernetes
    assert parts_of(kubernetes, 'JOB_COMPLETION_INDEX', range(16)) == expected


@pytest.fixture
def run_pipeline(tmp_path):
    """Runs a pipeline of the page in a process of its own, with Beam's direct runner."""
    if importlib.util.find_spec('apache_beam') is None:
        pytest.skip("Apache Beam is not installed: pip install 'deeplab-toolkit[beam]'")
    paths = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get('PYTHONPATH')])])

    def run(name, *words):
        (text,) = (text for text in re.findall(r'```python\n(.*?)```', PAGE, re.DOTALL) if text.startswith(f'# {name}'))
        (tmp_path / name).write_text(text)
        done = subprocess.run(
            [sys.executable, tmp_path / name, *words, '--runner=DirectRunner'],
            env={**os.environ, 'PYTHONPATH': paths},
            capture_output=True, text=True, timeout=180, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr[-3000:]

    return run


@pytest.mark.slow
def test_predicting_with_beam(run_pipeline, tmp_path):
    model = dataclasses.replace(predictor_setup.MODEL, model_variant='mobilenet_v2', depth_multiplier=0.25)
    training = predictor_setup.write_training(tmp_path / 'train', model)
    (tmp_path / 'photos').mkdir()
    for i in range(5):
        Image.fromarray(predictor_setup.pixels(20, 30, i)).save(tmp_path / f'photos/{i}.png')
    run_pipeline(
        'predict_with_beam.py', f'{tmp_path}/photos/*.png', f'--checkpoint={training}', f'--output_dir={tmp_path}/beam'
    )
    predict.run(PredictOptions((str(tmp_path / 'photos'),), str(tmp_path / 'predict'), str(training), save=('mask',)))
    summary = json.loads((tmp_path / 'predict/predictions.json').read_text())
    lines = [line for path in (tmp_path / 'beam').glob('shares.txt*') for line in path.read_text().splitlines()]
    assert sorted(lines) == sorted(f'{each["path"]} {each["shares"]}' for each in summary['images']) and len(lines) == 5
    for i in range(5):
        assert (tmp_path / f'beam/{i}.png').read_bytes() == (tmp_path / f'predict/mask/{i}.png').read_bytes()


def records_in(folder):
    """How often each record is in the shards of a folder, by split."""
    shards = collections.defaultdict(list)
    for path in sorted(folder.glob('*.tfrecord')):
        shards[shard_names.SHARD_NAME.fullmatch(path.name)['split']].append(str(path))
    indices = {split: record_index.RecordIndex(paths) for split, paths in shards.items()}
    return {split: collections.Counter(map(index.read, range(len(index)))) for split, index in indices.items()}


@pytest.mark.slow
def test_building_with_beam(run_pipeline, tmp_path):
    for name in ('images', 'masks'):
        (tmp_path / name).mkdir()
    for seed in range(11):
        (tmp_path / f'images/{seed}.png').write_bytes(dataset_files.png(dataset_files.pixels(6 + seed, 8, seed)))
        mask = dataset_files.png(dataset_files.ids(6 + seed, 8, classes=4, seed=seed))
        (tmp_path / f'masks/{seed}.png').write_bytes(mask)
    folders = {'image_folder': f'{tmp_path}/images', 'mask_folder': f'{tmp_path}/masks'}
    words = [f'--{name}={value}' for name, value in folders.items()]
    run_pipeline('build_with_beam.py', *words, f'--output_dir={tmp_path}/beam', '--num_classes=4')
    build_folder_data.run(BuildFolderOptions(**folders, output_dir=f'{tmp_path}/one', num_classes=4))
    assert records_in(tmp_path / 'beam') == records_in(tmp_path / 'one')
    assert sum(sum(of_split.values()) for of_split in records_in(tmp_path / 'one').values()) == 11
