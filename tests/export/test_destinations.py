"""Exported files and folders are replaced as a whole, whatever stops the export.

What `destinations` and `export_graph` write is tested in tests/test_export_model.py.
"""

import os

import pytest

from deeplab.errors import OptionError
from deeplab.export import destinations
from deeplab.export.formats import tflite
from deeplab.inference.runtimes import tflite as engine
from deeplab.registry import EXPORT_FORMATS
from tests.helpers.damage import damaged

FORMAT = EXPORT_FORMATS.get('saved_model')
ENDED = 1 << 22 | 1  # no process has this number


def test_a_model_with_damaged_metadata_has_none(tmp_path):
    path = tmp_path / 'model.tflite'
    engine.write(b'\0\0\0\0TFL3' + bytes(90), {'metadata_version': 1, 'class_names': ['road', 'sky']}, str(path))
    assert tflite.is_own(str(path))
    found = set()
    for content in damaged(path.read_bytes(), 300):
        path.write_bytes(content)
        found.add(tflite.is_own(str(path)))
    assert found == {True, False}  # without an error; damage of the model itself leaves the metadata


def test_a_foreign_model_is_not_replaced(tmp_path):
    path = tmp_path / 'model.tflite'
    path.write_bytes(b'\0\0\0\0TFL3' + bytes(90))
    assert not tflite.is_own(str(path))
    with pytest.raises(OptionError, match=r'model\.tflite. exists and is not'):
        destinations.check_target(str(path), EXPORT_FORMATS.get('tflite'))


@pytest.mark.parametrize('is_there', [True, False])
def test_an_export_that_was_killed_while_it_replaced_another(tmp_path, is_there):
    """Between two renames the earlier export has another name; the next run must not lose it."""
    path = tmp_path / 'saved_model'
    left = tmp_path / f'saved_model.{ENDED}.partial'
    older, old = (tmp_path / f'saved_model.old.{number}.partial' for number in (ENDED + 1, ENDED))
    for folder in (left, older, old, *([path] if is_there else [])):
        folder.mkdir()
        (folder / 'saved_model.pb').write_text(folder.name)
    os.utime(older, (1, 1))
    with pytest.raises(ZeroDivisionError), destinations.beside(str(path), FORMAT):
        raise ZeroDivisionError
    assert os.listdir(tmp_path) == ['saved_model']
    assert (path / 'saved_model.pb').read_text() == (path.name if is_there else old.name)


def test_an_interrupted_replacement_leaves_the_earlier_export(tmp_path, monkeypatch):
    path = tmp_path / 'saved_model'
    path.mkdir()
    (path / 'saved_model.pb').write_text('old')
    rename, calls = os.rename, []

    def interrupted(source, target):
        calls.append(source)
        if len(calls) == 2:
            raise KeyboardInterrupt
        rename(source, target)

    monkeypatch.setattr(os, 'rename', interrupted)
    with pytest.raises(KeyboardInterrupt), destinations.beside(str(path), FORMAT) as temporary:
        os.mkdir(temporary)
    assert os.listdir(tmp_path) == ['saved_model']
    assert (path / 'saved_model.pb').read_text() == 'old'


def test_a_model_of_two_files_beside_each_other(tmp_path):
    """Where the path has the ending of a file of the folder."""
    record = EXPORT_FORMATS.get('openvino')
    path = str(tmp_path / 'M.xml')
    (tmp_path / 'M.bin').write_text('of something else')
    with pytest.raises(OptionError, match=r'M\.bin. exists and is not an OpenVINO model'):
        destinations.check_target(path, record)
    (tmp_path / 'M.bin').unlink()
    for content in ('metadata_version', 'metadata_version again'):
        destinations.check_target(path, record)
        with destinations.beside(path, record) as temporary:
            os.mkdir(temporary)
            for name in record.contents:
                with open(os.path.join(temporary, name), 'w') as file:
                    file.write(content)
        assert {each.name: each.read_text() for each in tmp_path.iterdir()} == {'M.xml': content, 'M.bin': content}
    (tmp_path / 'M.xml').write_text('<net/>')
    with pytest.raises(OptionError, match=r'M\.(xml|bin). exists and is not an OpenVINO model'):
        destinations.check_target(path, record)
