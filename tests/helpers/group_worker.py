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
    group.on_end = lambda: say('on_end')
    group.start()
    say(f'started {group.generation}')
    has_left = threading.Event()
    threading.Thread(target=obey, args=[group, has_left], daemon=True).start()
    while group.ended is None and not has_left.wait(0.1):
        group.step += 1
    if group.ended is not None:
        error = group.explain(RuntimeError('lost'))
        say(f'{type(error).__name__}: {error}')
    started = time.monotonic()
    group.leave()
    say(f'left after {time.monotonic() - started:.1f} s')
