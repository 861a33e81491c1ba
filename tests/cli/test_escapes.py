"""Control characters in what programs print."""

import logging

import pytest

from deeplab import cli
from deeplab.cli import escapes
from tests.helpers import checkpoint_files

PATH = 'a\nb\x1b[31m\tc'
ESCAPED = r'a\nb\x1b[31m\tc'


@pytest.fixture(autouse=True)
def forgotten():
    yield
    escapes.expect([])


def test_a_path_stays_on_its_line():
    escapes.expect(['--output_dir=\n', f'--dataset_dir={PATH}', PATH[:3]])
    assert escapes.cleaned(f"1 image\n2 in '{PATH}/x':\t\x1b") == f"1 image\n2 in '{ESCAPED}/x':\t\\x1b"
    record = logging.LogRecord('absl', logging.INFO, 'x.py', 1, '%s in %s', (2, PATH), None)
    assert escapes.LogFilter().filter(record) and record.getMessage() == f'2 in {ESCAPED}'


@pytest.mark.parametrize('program', ['checkpoint', 'doctor', 'report'])
def test_errors_of_programs_have_one_line(program, tmp_path, capfd):
    assert cli.main([program, f'{tmp_path}/{PATH}', '--v=-1']) != 0
    error = capfd.readouterr().err.strip()
    assert ESCAPED in error and len(error.splitlines()) == 1, error


def test_reports_and_logs_have_no_line_of_a_path(tmp_path, capfd):
    checkpoint_files.write(tmp_path / PATH / 'model.ckpt-1', {'w': [1.0]})
    cli.main(['checkpoint', f'{tmp_path}/{PATH}'])
    shown = capfd.readouterr()
    assert f'{tmp_path}/{ESCAPED}/model.ckpt-1' in shown.out and '\x1b' not in shown.out + shown.err
