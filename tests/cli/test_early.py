import ctypes
import os
import subprocess
import sys

import pytest

from deeplab.checks import record_check
from deeplab.cli import early, main
from deeplab.cli.parse import options_of, parse_flags
from deeplab.cli.program import find_program
from deeplab.cli.words import UsageError
from deeplab.datasets import planes
from deeplab.errors import OptionError
from deeplab.system import processors

# Allocates in four threads at the same time, and prints the number of arenas of malloc.
ARENAS = """
import ctypes, sys, threading
from deeplab.cli import early
from deeplab.system import processors
processors.available_cores = lambda: 4
if sys.argv[1] == 'limited':
    early.limit_arenas()
libc = ctypes.CDLL(None)
libc.fopen.restype = ctypes.c_void_p
together = threading.Barrier(4)
def allocate():
    together.wait()
    libc.malloc(1000)
    together.wait()
threads = [threading.Thread(target=allocate) for _ in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
file = ctypes.c_void_p(libc.fopen(b'/dev/stdout', b'w'))
libc.malloc_info(0, file)
libc.fclose(file)
"""

NETWORK = ['--dataset=camvid', '--dataset_dir=records', '--checkpoint_dir=logs']


def test_each_program_begins_the_check_that_it_needs(monkeypatch):
    begun = []
    monkeypatch.setattr(record_check, 'begin', lambda *arguments: begun.append(arguments))
    for name, words in {
        'train': ['--train_logdir=t', '--train_split=val', *NETWORK[:2]],
        'eval': ['--eval_logdir=e', *NETWORK],
        'vis': ['--vis_logdir=v', *NETWORK],
        'networks': [],
    }.items():
        find_program(name).begin(options_of(name, words))
    find_program('vis').begin(options_of('vis', ['--vis_logdir=v', '--save=errors', *NETWORK]))
    assert [(split.split, split.directory) for split, *_ in begun] == [('val', 'records')] * 4
    assert [rest for _, *rest in begun] == [
        [11, True, 't', ()],
        [11, True, 'e', ()],
        [11, False, 'v', ()],
        [11, True, 'v', ()],
    ]


def test_the_check_before_tensorflow_is_the_check_of_the_tasks(monkeypatch):
    """It has the same arguments, so that it is taken."""
    begun = []
    monkeypatch.setattr(record_check, 'begin', lambda *arguments: begun.append(arguments[1:]))
    panoptic = ['--task=panoptic', *NETWORK]
    find_program('eval').begin(options_of('eval', ['--eval_logdir=e', *panoptic]))
    find_program('vis').begin(options_of('vis', ['--vis_logdir=v', *panoptic]))
    assert begun == [(11, True, 'e', (planes.INSTANCE,)), (11, False, 'v', ())]


def test_one_dnn_is_chosen_before_tensorflow_is_imported_unless_the_user_chooses(monkeypatch):
    monkeypatch.setattr(os, 'environ', {})
    begin = find_program('export_model').begin
    assert {find_program(name).beginning for name in ('export_model', 'predict', 'verify', 'benchmark')} == {
        (early.use_one_dnn,)
    }
    monkeypatch.setitem(sys.modules, 'tensorflow', None)
    begin(None)
    assert not os.environ  # it is imported already
    monkeypatch.delitem(sys.modules, 'tensorflow')
    begin(None)
    assert os.environ == {'TF_ENABLE_ONEDNN_OPTS': '1'}
    os.environ['TF_ENABLE_ONEDNN_OPTS'] = '0'
    begin(None)
    assert os.environ == {'TF_ENABLE_ONEDNN_OPTS': '0'}


@pytest.mark.parametrize(('chosen', 'expected'), [({}, 'true'), ({'TF_FORCE_GPU_ALLOW_GROWTH': 'false'}, 'false')])
def test_each_program_takes_the_memory_of_gpus_as_needed(monkeypatch, chosen, expected):
    monkeypatch.setattr(os, 'environ', dict(chosen))
    assert main(['presets']) == 0
    assert os.environ['TF_FORCE_GPU_ALLOW_GROWTH'] == expected


@pytest.mark.skipif(sys.platform != 'linux' or not hasattr(ctypes.CDLL(None), 'malloc_info'), reason='needs glibc')
@pytest.mark.parametrize(
    ('word', 'environment', 'expected'),
    [
        ('free', {}, 5),
        ('limited', {}, 2),  # one for two processors
        ('limited', {'MALLOC_ARENA_MAX': '3'}, 3),
        ('limited', {'GLIBC_TUNABLES': 'glibc.malloc.arena_max=4'}, 4),
    ],
)
def test_arenas_of_malloc(word, environment, expected):
    words = [sys.executable, '-c', ARENAS, word]
    clean = {name: value for name, value in os.environ.items() if name not in ('MALLOC_ARENA_MAX', 'GLIBC_TUNABLES')}
    printed = subprocess.run(words, env={**clean, **environment}, capture_output=True, text=True, check=True).stdout
    assert printed.count('<heap nr=') == expected


def test_threads_of_tensorflow_and_of_other_engines(monkeypatch):
    monkeypatch.setattr(os, 'environ', {})
    line = ['--eval_logdir=e', '--num_threads=3', *NETWORK]
    early.limit_threads(parse_flags(find_program('eval'), line[:1] + line[2:]))
    assert not os.environ
    early.limit_threads(parse_flags(find_program('eval'), line))
    assert os.environ == processors.thread_limit(3) and set(os.environ.values()) == {'3'}
    assert {'TF_NUM_INTRAOP_THREADS', 'TF_NUM_INTEROP_THREADS', 'OMP_NUM_THREADS'} == set(os.environ)
    with pytest.raises(UsageError, match='--num_threads=0 .* 1 or more'):
        early.limit_threads(parse_flags(find_program('eval'), [*line, '--num_threads=0']))
    threads = [
        options_of('eval', [*line, *more]).engine.threads
        for more in ([], ['--engine=tflite'], ['--engine=auto', '--inference_threads=2'])
    ]
    assert threads == [None, 3, 2]


def test_a_report_needs_its_runs_and_charts_before_tensorflow_is_imported(monkeypatch, tmp_path):
    monkeypatch.setattr(os, 'environ', {})
    begin = find_program('report').begin
    assert find_program('compare').beginning == find_program('report').beginning
    monkeypatch.setitem(sys.modules, 'vl_convert', None)
    for path, part in ((tmp_path / 'nowhere', "nowhere' does not exist"), (tmp_path, r'deeplab-toolkit\[report\]')):
        with pytest.raises(OptionError, match=part):
            begin(options_of('report', [str(path)]))
