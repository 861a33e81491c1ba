"""Names and spellings of programs.

Covers cli/builder_programs.py.
"""

import pathlib
import subprocess
import sys

import pytest

from deeplab import cli


@pytest.mark.parametrize(
    ('name', 'message'),
    [
        ('trian', "Unknown program 'trian'. Did you mean train? Known: "),
        ('xyz', "Unknown program 'xyz'. Known: demo, build_voc2012_data, "),
        ('--v=1', '--v=1 stands before the program: write deeplab PROGRAM --v=1. Known: demo, '),
    ],
)
def test_unknown_programs(name, message, capsys):
    assert cli.main([name, '--help']) == cli.USAGE_STATUS
    assert capsys.readouterr().err.startswith(f'deeplab: error: {message}')


@pytest.mark.parametrize('spelling', [['-m', 'deeplab.eval'], ['deeplab/eval.py'], ['-m', 'deeplab', 'eval']])
def test_three_spellings_of_a_call(spelling):
    done = subprocess.run(
        [sys.executable, *spelling, '--eval_logdir=e', '--dataset_dir=d'],
        cwd=pathlib.Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == cli.USAGE_STATUS
    assert done.stderr.splitlines()[-1].startswith('deeplab eval: error: eval requires --checkpoint_dir (')


@pytest.mark.parametrize('name', ['build-voc2012-data', 'datasets/build_voc2012_data', 'build_voc2012_data.py'])
def test_other_spellings_of_a_program(name):
    assert cli.find_program(name).name == 'build_voc2012_data'
    assert cli.find_program('visualize').name == 'vis'
