"""Work in a child process, from a process without threads."""

import os
import subprocess
import sys

from deeplab.system import child_process

CODE = """
import logging
import os
import tqdm
from deeplab.system import child_process
os.sched_getaffinity = lambda process: {0, 1}
parent = os.getpid()
tqdm.tqdm.get_lock()
child_process.begin('large', lambda: (os.getpid() != parent, b'x' * 200_000))
child_process.begin('raises', lambda: 1 / 0)
child_process.begin('logs', lambda: logging.warning('twice'))
child_process.begin('killed', lambda: tqdm.tqdm.get_lock().acquire() and os.abort())
child_process.begin('not needed', lambda: b'x' * 200_000)
child_process.begin('large', lambda: None)  # does nothing, because it has begun
is_other, content = child_process.result('large')
found = [child_process.result(name) for name in ('large', 'raises', 'killed', 'other')]
tqdm.tqdm(disable=True)  # takes the lock of progress bars
print(is_other, len(content), found)
"""


def test_results_are_given_once_and_failures_give_none():
    done = subprocess.run([sys.executable, '-c', CODE], capture_output=True, text=True, timeout=30, check=True)
    assert done.stdout == 'True 200000 [None, None, None, None]\n'
    assert done.stderr == ''  # the parent does the work itself, and reports what is wrong


def test_nothing_begins_where_a_fork_would_be_unsafe_or_useless(monkeypatch):
    monkeypatch.setitem(sys.modules, 'tensorflow', None)
    child_process.begin('work', int)
    assert child_process.result('work') is None
    monkeypatch.delitem(sys.modules, 'tensorflow')
    monkeypatch.setattr(os, 'sched_getaffinity', lambda process: {0})
    child_process.begin('work', int)
    assert child_process.result('work') is None
