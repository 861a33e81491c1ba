"""docs/deployment.md: its Python examples run as they stand, on exports of a tiny network."""

import pathlib
import re

import pytest
from PIL import Image

from deeplab import export_model
from deeplab.options import ExportOptions
from deeplab.registry import EXPORT_FORMATS
from deeplab.utils import packages
from tests.exporting import test_exporting
from tests.prediction import setup

PAGE = (pathlib.Path(__file__).parents[2] / 'docs' / 'deployment.md').read_text(encoding='utf-8')
EXAMPLES = dict(re.findall(r'```python\n# run_(\w+)\.py\n(.*?)```', PAGE, re.DOTALL))
LONGEST = 20  # lines

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures('tiny_network')]


@pytest.mark.parametrize('name', EXAMPLES)
def test_an_example(name, tmp_path, monkeypatch, capsys):
    record = EXPORT_FORMATS.get(name)
    needed = (*record.requires, *(['ai_edge_litert'] if name == 'tflite' else []))
    if missing := packages.missing(needed):
        pytest.skip(f'{missing} are not installed')
    training = setup.write_training(tmp_path / 'log', test_exporting.MODEL)
    path = str(tmp_path / record.example_path)
    monkeypatch.setattr('deeplab.exporting.work.exports.measured', lambda request: test_exporting.FIGURES)
    export_model.run(ExportOptions(test_exporting.MODEL, str(training / 'model.ckpt-7'), path, formats=(name,)))
    Image.fromarray(setup.pixels(60, 80)).save(tmp_path / 'photo.png')
    monkeypatch.chdir(tmp_path)
    if name == 'openvino':  # without the reports on its use that it would load
        from deeplab.engines import openvino

        openvino.package()
    exec(compile(EXAMPLES[name], f'run_{name}.py', 'exec'), {})
    printed = capsys.readouterr().out
    assert any(f"'{known}': " in printed for known in setup.CLASSES)
    assert len(EXAMPLES[name].splitlines()) <= LONGEST
