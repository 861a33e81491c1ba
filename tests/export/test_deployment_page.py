"""docs/deployment.md: its examples run as they stand, those in Python on exports of a tiny network."""

import pathlib
import re
import shutil
import subprocess

import numpy as np
import pytest
from PIL import Image

from deeplab import Predictor, export_model
from deeplab.options import ExportOptions
from deeplab.registry import EXPORT_FORMATS
from deeplab.system import packages
from tests.export import test_exporting
from tests.helpers import predictor_setup

PAGE = (pathlib.Path(__file__).parents[2] / 'docs' / 'deployment.md').read_text(encoding='utf-8')
FIT, *_ = re.findall(r'```python\n# fit.py\n(.*?)```', PAGE, re.DOTALL)
EXAMPLES = dict(re.findall(r'```python\n# run_(\w+)\.py\n(.*?)```', PAGE, re.DOTALL))
LONGEST = 20  # lines
FAKES = pathlib.Path(__file__).parent / 'fake_runtimes'


@pytest.fixture(autouse=True)
def page_s_files(tmp_path, monkeypatch):
    """A working folder with the functions that the examples import."""
    (tmp_path / 'fit.py').write_text(FIT)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))


def _fitted(photo, facts, kind):
    """Runs the page's function on a photo, [height, width, 3]; returns what the page's functions return."""
    Image.fromarray(photo).save('photo.png')
    names = {}
    exec(FIT, names)
    return names['fitted']('photo.png', facts, kind)


def test_a_small_photo_is_padded_at_the_bottom_and_right():
    photo = predictor_setup.pixels(20, 30)
    image, restored = _fitted(photo, {'crop_size': [33, 41], 'mean_pixel': [1.5, 2.25, 127.5]}, np.float32)
    assert (image.shape, image.dtype) == ((1, 33, 41, 3), np.float32)
    np.testing.assert_array_equal(image[0, :20, :30], photo)
    assert (image[0, 20:] == (1.5, 2.25, 127.5)).all() and (image[0, :, 30:] == (1.5, 2.25, 127.5)).all()
    labels = np.arange(33 * 41).reshape(33, 41) % 200
    np.testing.assert_array_equal(restored(labels), labels[:20, :30])


@pytest.mark.parametrize('size, part', [((60, 80), (31, 41)), ((90, 60), (33, 22))])
def test_a_large_photo_keeps_its_aspect_ratio(size, part):
    photo = np.full([*size, 3], 200, np.uint8)
    image, restored = _fitted(photo, {'crop_size': [33, 41], 'mean_pixel': [127.5] * 3}, np.uint8)
    assert (image.shape, image.dtype) == ((1, 33, 41, 3), np.uint8)
    inside = np.zeros((33, 41), bool)
    inside[: part[0], : part[1]] = True
    np.testing.assert_array_equal(image[0, :, :, 0], np.where(inside, 200, 128))  # rounded as in predict
    labels = restored(np.where(inside, 3, 1))
    np.testing.assert_array_equal(labels, np.full(size, 3))


def test_a_photo_of_a_phone_is_upright():
    photo = Image.fromarray(predictor_setup.pixels(20, 30))
    exif = photo.getexif()
    exif[0x0112] = 6  # to be rotated by 90 degrees clockwise
    photo.save('phone.png', exif=exif)
    names = {}
    exec(FIT, names)
    image, restored = names['fitted']('phone.png', {'crop_size': [33, 33], 'mean_pixel': [127.5] * 3}, np.uint8)
    np.testing.assert_array_equal(image[0, :30, :20], np.asarray(photo.rotate(-90, expand=True)))
    assert restored(np.zeros((33, 33))).shape == (30, 20)


@pytest.mark.slow
@pytest.mark.usefixtures('tiny_network')
@pytest.mark.parametrize('name', EXAMPLES)
def test_an_example(name, tmp_path, monkeypatch, capsys):
    record = EXPORT_FORMATS.get(name)
    needed = (*record.requires, *(['ai_edge_litert'] if name == 'tflite' else []))
    if missing := packages.missing(needed):
        pytest.skip(f'{missing} are not installed')
    training = predictor_setup.write_training(tmp_path / 'log', test_exporting.MODEL)
    path = str(tmp_path / record.example_path)
    monkeypatch.setattr('deeplab.export.work.speed.measured', lambda path, format_name: test_exporting.FIGURES)
    export_model.run(ExportOptions(test_exporting.MODEL, str(training / 'model.ckpt-7'), path, formats=(name,)))
    photo = Image.fromarray(predictor_setup.pixels(50, 90))
    photo.save('photo.jpg', 'PNG')  # no decoder of JPEG differs from another here
    if name == 'openvino':  # without the reports on its use that it would load
        from deeplab.inference.runtimes import openvino

        openvino.package()
    names = {}
    exec(compile(EXAMPLES[name], f'run_{name}.py', 'exec'), names)
    reduced = photo.copy()
    reduced.thumbnail(test_exporting.MODEL.crop_size[::-1], Image.Resampling.BILINEAR, reducing_gap=None)
    assert reduced.size == (49, 27)
    with Predictor.from_export(path) as predictor:
        labels = predictor(np.asarray(reduced)).labels.astype(np.uint8)
    expected = np.asarray(Image.fromarray(labels).resize(photo.size, Image.Resampling.NEAREST))
    assert len(np.unique(expected)) > 1
    np.testing.assert_array_equal(names['labels'], expected)
    assert any(f"'{known}': " in capsys.readouterr().out for known in predictor_setup.CLASSES)
    assert len(EXAMPLES[name].splitlines()) <= LONGEST


def _block(language):
    (code,) = re.findall(rf'```{language}\n(.*?)```', PAGE, re.DOTALL)
    return code


def _run(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=120).stdout


@pytest.mark.slow
@pytest.mark.parametrize('size', [(20, 24), (60, 100), (90, 50)])
@pytest.mark.parametrize('language', ['cpp', 'java'])
def test_an_example_in_another_language(language, size, tmp_path):
    """The examples run with stand-ins for the runtime and Android, on a photo of four colors: see `FAKES`."""
    compiler = {'cpp': 'g++', 'java': 'javac'}[language]
    if shutil.which(compiler) is None:
        pytest.skip(f'{compiler} is not installed')
    shutil.copytree(FAKES / language, tmp_path, dirs_exist_ok=True)
    if language == 'cpp':
        (tmp_path / 'example.h').write_text(_block('cpp'))
        _run('g++', '-std=c++17', '-Wall', '-Werror', '-I.', 'main.cc', '-o', 'main')
        printed = _run('./main', *map(str, size))
    else:
        imports, _, method = _block('java').partition('\n\n')
        (tmp_path / 'Example.java').write_text(f'{imports}\n\nclass Example {{\nstatic {method}\n}}\n')
        _run('javac', *(str(path.relative_to(tmp_path)) for path in tmp_path.rglob('*.java')))
        printed = _run('java', '-cp', '.', 'Main', *map(str, size))
    labels = np.array([line.split() for line in printed.splitlines()], np.int64)
    assert labels.shape == size
    bottom, right = np.arange(size[0])[:, np.newaxis] >= size[0] // 2, np.arange(size[1]) >= size[1] // 2
    wrong = labels != np.where(bottom, np.where(right, 2, 3), np.where(right, 4, 1))
    for axis, length in enumerate(size):  # without those pixels whose reduced ones show two colors
        wrong = np.delete(wrong, range(length // 2 - 3, length // 2 + 3), axis)
    assert not wrong.any()
