"""docs/notebook.ipynb: its cells run one after the other, on a tiny network in place of the demo's."""

import json
import pathlib
import shlex

import numpy as np
import pytest
from PIL import Image

from deeplab import cli
from tests.helpers import dataset_files, predictor_setup, report_setup

NOTEBOOK = json.loads((pathlib.Path(__file__).parents[1] / 'docs' / 'notebook.ipynb').read_text(encoding='utf-8'))


def test_the_notebook_has_no_outputs():
    codes = [cell for cell in NOTEBOOK['cells'] if cell['cell_type'] == 'code']
    assert len(codes) > 4
    assert not any(cell['outputs'] or cell['execution_count'] for cell in codes)


def _write_demo(folder):
    """Writes what the notebook reads of a demo: three scenes, their records and a training."""
    for name in ('JPEGImages', 'SegmentationClass', 'ImageSets'):
        (folder / 'voc' / name).mkdir(parents=True)
    for number in range(3):
        Image.fromarray(predictor_setup.pixels(20, 30, number)).save(
            folder / 'voc' / 'JPEGImages' / f'val_{number}.jpg'
        )
        ids = np.random.default_rng(number).integers(0, 4, (20, 30), dtype=np.uint8)
        (folder / 'voc' / 'SegmentationClass' / f'val_{number}.png').write_bytes(dataset_files.png(ids))
    (folder / 'voc' / 'ImageSets' / 'val.txt').write_text('val_0\nval_1\nval_2\n')
    flags = ['--image_folder=JPEGImages', '--semantic_segmentation_folder=SegmentationClass', '--list_folder=ImageSets']
    words = [flag.replace('=', f'={folder}/voc/') for flag in flags]
    cli.run_program('build_voc2012_data', [*words, '--image_format=jpg', f'--output_dir={folder}/tfrecord'])
    predictor_setup.write_training(folder / 'train')
    manifest = json.loads((folder / 'train' / 'run.json').read_text())
    data = ['--train_logdir=.', '--dataset_dir=../tfrecord', '--dataset=tiny.json']
    network = ['--model_variant=tiny', '--add_image_level_feature=false', '--aspp_convs_filters=8']
    manifest['runs'][0]['command'] = [*data, *network]
    (folder / 'train' / 'run.json').write_text(json.dumps(manifest))


@pytest.mark.usefixtures('tiny_network')
def test_the_notebook_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    report_setup.without_charts(monkeypatch)
    _write_demo(tmp_path / 'deeplab_demo')
    names = {}
    for cell in NOTEBOOK['cells']:
        source = ''.join(cell['source'])
        if source.startswith('!deeplab '):
            program, *words = shlex.split(source.removeprefix('!deeplab ').format(**names))
            cli.run_program(program, words)
        elif cell['cell_type'] == 'code':
            exec(compile(source, 'notebook', 'exec'), names)
    assert names['prediction'].labels.shape == (20, 30)
    assert names['prediction']._repr_png_().startswith(b'\x89PNG')
    with Image.open('mask.png') as mask:
        np.testing.assert_array_equal(np.asarray(mask), names['prediction'].labels)
    assert 'mean confidence' in capsys.readouterr().out
    assert 'Confusion matrix' in (tmp_path / 'report.html').read_text()
