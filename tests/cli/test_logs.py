"""Destinations of the log and the report of a program: files, standard error, terminals."""

import io
import logging as standard_logging
import re
import sys
import types

import pytest
from absl import logging

from deeplab import cli
from deeplab.cli import logs
from deeplab.errors import DataError


@pytest.fixture
def program(monkeypatch):
    """A demo that logs two lines and returns, or raises, `result`."""
    module = types.ModuleType('deeplab.programs.demo.demo')
    module.result = types.SimpleNamespace(report='mIoU 0.7')

    def run(given, run_program):
        logging.info('global step 10')
        logging.warning('the disk is almost full')
        if isinstance(module.result, BaseException):
            raise module.result
        return module.result

    module.run = run
    handler = logging.get_absl_handler()
    monkeypatch.setitem(sys.modules, 'deeplab.programs.demo.demo', module)
    monkeypatch.setattr(handler.python_handler, 'stream', sys.stderr)
    monkeypatch.setenv('TF_CPP_MIN_LOG_LEVEL', '2')
    tensorflow = standard_logging.getLogger('tensorflow')
    verbosity, level = logging.get_verbosity(), tensorflow.level
    yield module
    logs.stop_files()
    handler.setLevel(standard_logging.NOTSET)
    logging.set_verbosity(verbosity)
    tensorflow.setLevel(level)


def test_log_dir_gets_a_file_as_absl_names_it(program, tmp_path, capsys):
    folder = tmp_path / 'new' / 'logs'
    assert cli.main(['demo', f'--log_dir={folder}', '--stderrthreshold=error']) == 0
    assert capsys.readouterr() == ('mIoU 0.7\n', '')
    link = folder / 'demo.INFO'
    (file,) = (path for path in folder.iterdir() if path != link)
    assert '.log.INFO.' in file.name and link.resolve() == file.resolve()
    lines = link.read_text().splitlines()
    assert [line[0] for line in lines] == ['I', 'W']
    assert lines[0].endswith('] global step 10')

    assert cli.main(['demo']) == 0  # the next run in this process has its own flags
    assert 'global step 10' in capsys.readouterr().err
    assert len(link.read_text().splitlines()) == 2


def test_a_terminal_gets_short_prefixes_and_files_those_of_the_original(program, tmp_path, monkeypatch):
    terminal = io.StringIO()
    monkeypatch.setattr(terminal, 'isatty', lambda: True, raising=False)
    monkeypatch.setattr(sys, 'stderr', terminal)
    assert cli.main(['demo', f'--log_dir={tmp_path}']) == 0
    info, warning = terminal.getvalue().splitlines()
    assert re.fullmatch(r'\d\d:\d\d:\d\d global step 10', info)
    assert re.fullmatch(r'\d\d:\d\d:\d\d WARNING: the disk is almost full', warning)
    assert re.match(r'I\d{4} [\d:.]{15} +\d+ test_logs.py:\d+\] global', (tmp_path / 'demo.INFO').read_text())

    assert cli.main(['demo', '--noshowprefixforinfo']) == 0
    assert 'global step 10' in terminal.getvalue().splitlines()

    pipe = io.StringIO()
    monkeypatch.setattr(sys, 'stderr', pipe)  # the next run in this process
    assert cli.main(['demo', '--showprefixforinfo']) == 0
    assert re.match(r'I\d{4} ', pipe.getvalue())


def test_long_notes_have_several_lines(caplog):
    words = ' '.join(f'--flag_{number}=value' for number in range(40))
    with caplog.at_level('INFO'):
        logs.log_notes([f'Flags of --recipe=small_data: {words}', 'short'], ['a warning'])
    recipe, short, warning = (record.getMessage() for record in caplog.records)
    assert (short, warning) == ('short', 'a warning')
    assert max(map(len, recipe.splitlines())) <= 112
    assert ' '.join(recipe.split()).endswith(words)


@pytest.mark.parametrize(
    ('threshold', 'lines'), [('0', 2), ('INFO', 2), ('1', 1), ('warn', 1), ('2', 0), ('fatal', 0), ('3', 0)]
)
def test_stderrthreshold(program, threshold, lines, capsys):
    assert cli.main(['demo', '--stderrthreshold', threshold, '--alsologtostderr']) == 0
    assert capsys.readouterr().err.count('\n') == lines


def test_values_that_are_refused(program, tmp_path, capsys):
    assert cli.main(['demo', '--stderrthreshold=loud']) == cli.USAGE_STATUS
    assert '--stderrthreshold=loud is not allowed' in capsys.readouterr().err
    (tmp_path / 'file').write_text('')
    assert cli.main(['demo', f'--log_dir={tmp_path / "file"}']) != 0
    assert f'--log_dir={tmp_path / "file"} cannot be written' in capsys.readouterr().err


@pytest.mark.parametrize(
    'words',
    [
        ['--undefok=xla_dump_to,oldflag', '--xla_dump_to=x', '--nooldflag'],
        ['--oldflag', '--undefok', 'oldflag'],
        ['-undefok=--oldflag', '-oldflag=3', '--steps=7'],
    ],
)
def test_undefok_names_flags_that_may_be_unknown(words):
    assert cli.options_of('demo', [*words, '--steps=7']).steps == 7


def test_undefok_of_a_flag_that_is_known_and_of_another(capsys):
    assert cli.options_of('demo', ['--undefok=steps', '--steps=7']).steps == 7
    for words in (['--undefok=oldflag', '--newflag'], ['--undefok']):
        assert cli.main(['demo', *words]) == cli.USAGE_STATUS
    error = capsys.readouterr().err
    assert 'Unknown flag --newflag' in error and '--undefok has no value' in error


@pytest.mark.parametrize('is_error', [False, True])
def test_an_output_of_ascii_alone_gets_escapes(program, monkeypatch, is_error):
    out, error = (io.TextIOWrapper(io.BytesIO(), encoding='ascii', write_through=True) for _ in range(2))
    monkeypatch.setattr(sys, 'stdout', out)
    monkeypatch.setattr(sys, 'stderr', error)
    text = 'Straße → 0.7'
    program.result = DataError(text) if is_error else types.SimpleNamespace(report=text)
    assert cli.main(['demo']) == int(is_error)
    written = (error if is_error else out).buffer.getvalue()
    assert rb'Stra\xdfe \u2192 0.7' in written


def test_control_characters_do_not_reach_the_terminal(program, capsys):
    program.result = DataError("No such file: 'a\x1b[2Jb\x00'\nGive another.")
    assert cli.main(['demo']) == cli.ERROR_STATUS
    assert r"'a\x1b[2Jb\x00'" + '\nGive another.' in capsys.readouterr().err
