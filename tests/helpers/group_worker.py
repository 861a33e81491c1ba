"""One synchronous worker without a training, in a process of its own.

It counts ten steps a second, and prints what it does. Lines on standard input: `get KEY`, `put KEY VALUE`, `end REASON`
and `leave`.
"""

import sys
import threading
import time

from deeplab.deployment import worker_group
from deeplab.errors import MachineError


def say(text):
    print(text, flush=True)


def obey(group, has_left):
    for line in sys.stdin:
        word, _, rest = line.strip().partition(' ')
        try:
            if word == 'get':
                say(f'got {group.get(rest).decode()}')
            elif word == 'put':
                key, _, value = rest.partition(' ')
                group.put(key, value.encode())
            elif word == 'end':
                group.end(rest)
            else:
                has_left.set()
        except MachineError as error:
            say(f'{word} failed: {error}')


def main(hosts, task, timeout_secs):
    group = worker_group.WorkerGroup(hosts, task, timeout_secs)
    has_ended = threading.Event()

    def on_end():
        say('on_end')
        has_ended.set()

    group.on_end = on_end
    group.start()
    say(f'started {group.generation}')
    has_left = threading.Event()
    threading.Thread(target=obey, args=[group, has_left], daemon=True).start()
    while not has_ended.is_set() and not has_left.wait(0.1):  # the next line must not begin in the one of the thread
        group.step += 1
    if has_ended.is_set():
        error = group.explain(RuntimeError('lost'))
        say(f'{type(error).__name__}: {error}')
    started = time.monotonic()
    group.leave()
    say(f'left after {time.monotonic() - started:.1f} s')
