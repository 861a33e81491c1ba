"""docs/classification.md: the example with digits, as it stands."""

import json
import pathlib
import re

import pytest

from deeplab import cli

ROOT = pathlib.Path(__file__).parents[1]
PAGE = (ROOT / 'docs' / 'classification.md').read_text(encoding='utf-8').partition('## Train and use a classifier')[2]
(PYTHON,) = re.findall(r'```python\n(.*?)```', PAGE, re.DOTALL)
(SHELL,) = re.findall(r'```sh\n(deeplab build.*?)```', PAGE, re.DOTALL)
COMMANDS = [line.removeprefix('deeplab ').split() for line in SHELL.splitlines()]
# Half the steps of the page: 0.982 of the held-out digits are right after them.
SHORTER = ('--training_number_of_steps=300', '--eval_every=150')


@pytest.mark.slow
def test_digits_are_learned(tmp_path, monkeypatch):
    pytest.importorskip('sklearn', reason='the package scikit-learn is not installed')
    monkeypatch.chdir(tmp_path)
    exec(compile(PYTHON, 'docs/classification.md', 'exec'), {})
    for program, *words in COMMANDS:
        if program == 'export_model':
            pytest.importorskip('onnxruntime', reason='the package onnxruntime is not installed')
        shorter = SHORTER if program == 'train' else ()
        assert cli.main([program, *words, *shorter]) == 0, program
    figures = json.loads((tmp_path / 'lenet' / 'eval' / 'metrics-300.json').read_text())
    assert figures['metrics']['classification']['accuracy'] >= 0.97
    tops = json.loads((tmp_path / 'sevens' / 'top.json').read_text())
    right = [each['top'][0]['name'] == '7' for each in tops]
    assert sum(right) >= 0.97 * len(right) and len(right) > 150
    assert (tmp_path / 'lenet.onnx').stat().st_size > 1e6
