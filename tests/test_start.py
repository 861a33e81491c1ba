"""Start of every program in every form of its command line, and Ctrl-C before it runs."""

import pathlib
import runpy
import signal
import subprocess
import sys

import pytest

import deeplab
from deeplab import cli, start

ROOT = pathlib.Path(__file__).parent.parent
# The programs of the original, and the builders, run as files; others as `python -m deeplab.NAME` alone.
OWN = {program.name for program in cli.PROGRAMS if program.module.startswith('deeplab.programs.')}
MODULES = [
    (program.name, f'deeplab.{program.name}' if program.name in OWN else program.module) for program in cli.PROGRAMS
]
FILES = [(name, ROOT / f'{module.replace(".", "/")}.py') for name, module in MODULES if name not in OWN]
FILES.append(('datasets', ROOT / 'deeplab' / 'datasets'))


@pytest.fixture
def called(monkeypatch):
    """Runs a command for help as a new process without TensorFlow would."""

    def call(run, what):
        monkeypatch.setattr(sys, 'argv', [str(what), '--help'])
        monkeypatch.setattr(sys, 'path', ['the folder of the program', *sys.path])
        monkeypatch.setitem(sys.modules, 'tensorflow', None)  # cannot be imported
        monkeypatch.delitem(sys.modules, str(what), raising=False)
        with pytest.raises(SystemExit) as end:
            run(str(what), run_name='__main__')
        return end.value.code

    handler = signal.getsignal(signal.SIGINT)
    yield call
    signal.signal(signal.SIGINT, handler)


@pytest.mark.parametrize('name', [program.name for program in cli.PROGRAMS])
def test_a_program_by_its_name(name, capsys):
    assert cli.main([name, '--help']) == 0
    assert capsys.readouterr().out.startswith(f'deeplab {name}: ')


@pytest.mark.parametrize(('name', 'module'), MODULES)
def test_a_program_as_a_module(called, name, module, capsys):
    assert called(runpy.run_module, module) == 0
    assert capsys.readouterr().out == cli.program_help(cli.find_program(name)) + '\n'


@pytest.mark.parametrize(('name', 'path'), FILES)
def test_a_program_as_a_file(called, name, path, capsys):
    assert called(runpy.run_path, path) == 0
    assert capsys.readouterr().out == cli.program_help(cli.find_program(name)) + '\n'
    assert sys.path[0] == str(ROOT)  # this package is found, whatever else is installed


def test_this_module_takes_the_words_of_the_command(monkeypatch):
    monkeypatch.setattr(start, 'main', lambda: 7)
    with pytest.warns(RuntimeWarning, match='deeplab.start'), pytest.raises(SystemExit) as end:
        runpy.run_module('deeplab.start', run_name='__main__')
    assert end.value.code == 7


@pytest.mark.parametrize('module', ['', 'deeplab.system.watched_process', 'deeplab.cli', 'numpy', 'tensorflow'])
def test_ctrl_c_before_a_program_runs_is_one_line(module):
    """The signal comes while a module is imported, or as soon as there is a handler."""
    code = (
        'import os, signal, sys, time; from deeplab import start; set_handler = signal.signal\n'
        'set_handler(signal.SIGINT, signal.default_int_handler)\n'  # the tests may run in the background
        'def wait(name):\n'
        '    if name == sys.argv[1]: sys.argv[1] = None; os.write(1, b"now"); time.sleep(60)\n'
        'class Finder:\n'
        '    def find_spec(self, name, path, target=None): wait(name)\n'
        'def signalled(number, handler):\n'
        '    old = set_handler(number, handler); wait(""); return old\n'
        'sys.meta_path.insert(0, Finder())\n'
        'signal.signal = signalled; sys.exit(start.main(["preview", "--dataset_dir=nowhere"]))'
    )
    command = [sys.executable, '-c', code, module]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=ROOT) as process:
        assert process.stdout.read(3) == b'now'
        process.send_signal(signal.SIGINT)
        _, error = process.communicate(timeout=60)
    assert process.returncode == start.INTERRUPTED_STATUS
    assert error == b'deeplab: interrupted\n'


def test_ctrl_c_raises_once_a_program_runs():
    before = signal.signal(signal.SIGINT, start._QuitAtOnce())
    try:
        start.begin_to_run()
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # nohup: what somebody else has set stays
        start.begin_to_run()
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


def test_little_is_imported_before_ctrl_c_is_handled():
    code = """if True:
        import os, signal, sys
        before = set(sys.modules)
        import deeplab.start, deeplab.overview
        print(*sorted(set(sys.modules) - before))
    """
    done = subprocess.run([sys.executable, '-S', '-c', code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ['__future__', 'deeplab', 'deeplab.overview', 'deeplab.start']


def test_help_and_flags_import_neither_tensorflow_nor_pillow():
    code = """if True:
        import sys
        from deeplab import cli
        from deeplab.registry import REGISTRIES
        for registry in REGISTRIES.values():
            registry.parameters()
        cli.find_program('train').flags
        print(*sorted({name.partition('.')[0] for name in sys.modules} & {'tensorflow', 'PIL'}))
    """
    done = subprocess.run([sys.executable, '-c', code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def test_a_builder_imports_no_parts_of_networks():
    code = """if True:
        import sys
        from deeplab import cli, wording
        from deeplab.cli.program import names_in_messages
        with wording.flag_names(names_in_messages(cli.find_program('build_voc2012_data'))):
            cli.parse_flags(cli.find_program('build_voc2012_data'), ['--output_dir=x'])
            print('deeplab.core.backbones' in sys.modules, 'deeplab.inference.runtimes' in sys.modules)
            print(wording.option('ModelOptions.output_stride'))
    """
    done = subprocess.run([sys.executable, '-c', code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ['False', 'False', '--output_stride']


def test_the_installed_command_starts_there():
    assert "'deeplab = deeplab.start:main'" in (ROOT / 'setup.py').read_text()
    assert deeplab.start.main is start.main
