"""Help of the command line and of each program.

Covers overview.py.
"""

import subprocess
import sys

import deeplab
from deeplab import cli, start
from deeplab.overview import GROUPS, SUMMARIES

TRAIN = ['--train_logdir=logs', '--dataset_dir=records']


def test_help_and_version(capsys):
    assert cli.main(['--help']) == 0
    overview = capsys.readouterr().out
    assert [title for title in GROUPS if f'\n\n{title}:\n' in overview] == list(GROUPS)
    assert list(SUMMARIES) == [program.name for program in cli.PROGRAMS]  # of all, in the order of the table
    for program in cli.PROGRAMS:
        assert f'  {program.name} ' in overview
        assert program.summary in overview
    assert cli.main([]) == cli.USAGE_STATUS
    assert capsys.readouterr().out == overview
    assert start.main(['--help']) == 0
    assert capsys.readouterr().out == overview
    assert cli.main(['train', *TRAIN, '--help']) == 0
    text = capsys.readouterr().out
    assert text == cli.program_help(cli.find_program('train')) + '\n'
    assert cli.main(['train', '--helpfull']) == 0
    full = capsys.readouterr().out
    assert full == cli.program_help(cli.find_program('train'), is_full=True) + '\n'
    assert text.count('\n') < 130 < full.count('\n')
    assert 'nas_stem_output' in full and 'nas_stem_output' not in text and '--helpfull lists all' in text
    assert text.partition('--[no]fine_tune_batch_norm\n')[2].partition('\n  --')[0].endswith('Default: true.')
    assert cli.main(['help', 'train']) == 0
    assert capsys.readouterr().out == text
    assert cli.main(['--version']) == 0
    assert capsys.readouterr().out == f'deeplab {deeplab.__version__}\n'


def test_usage_shows_positional_arguments_and_report_no_crop_size_that_it_does_not_use():
    usage = {name: cli.program_help(cli.find_program(name)) for name in ('train', 'report', 'checkpoint', 'presets')}
    assert 'deeplab train --flag=' in usage['train']
    assert 'deeplab report RUN ... --flag=' in usage['report']
    assert 'deeplab checkpoint FILE --flag=' in usage['checkpoint']
    assert 'deeplab presets [NAME] --flag=' in usage['presets']
    assert '513,513.' in usage['train'] and 'Default: 513,513.' not in usage['report']


def test_examples_in_the_help_are_lines_that_work():
    for program in cli.PROGRAMS:
        cli.options_of(program.name, program.example.split())


def test_help_and_mistakes_load_no_tensorflow():
    code = (
        'import sys; from deeplab import cli;'
        'cli.main(["train", "--help"]); cli.main(["train", "--train_logdir=a", "--dataset_dir=b", "--num_clones=3"]);'
        'loaded = {"tensorflow", "tf_slim"} & set(sys.modules); assert not loaded, loaded'
    )
    done = subprocess.run([sys.executable, '-c', code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert 'Usage: deeplab train' in done.stdout


def test_a_reader_of_the_help_may_leave_early():
    command = f'{sys.executable} -m deeplab train --help | head -1'
    done = subprocess.run(['bash', '-o', 'pipefail', '-c', command], capture_output=True, text=True, timeout=60)
    assert done.stderr == ''
    assert done.stdout.startswith('deeplab train:')
