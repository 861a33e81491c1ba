"""How much memory is free for this process, what a run needs of it, and what to do where it is too little.

Without `/proc` nothing is known, and nothing is said.
"""

from __future__ import annotations

import contextlib
import errno
import math
import pathlib
import re
from collections.abc import Iterator
from typing import NamedTuple

from absl import logging

from deeplab.errors import OutOfMemoryError, UserError

# What to do where the memory is too little, by program. Those without an entry need hardly any.
_CLOSE_OTHERS = 'close other programs, or take a machine with more memory'
ADVICE = {
    'train': 'Reduce --train_batch_size (--accumulation_steps keeps the batch of a step) or --train_crop_size. The '
    'last checkpoint is kept: the same command goes on from it',
    'eval': 'Reduce --eval_batch_size, --eval_crop_size or the largest of --eval_scales',
    'vis': 'Reduce --vis_batch_size, --vis_crop_size or the largest of --eval_scales',
    'export_model': 'Reduce --crop_size or the largest of --inference_scales',
    'preview': f'Reduce --train_crop_size, {_CLOSE_OTHERS}',
    'demo': f'To go on, {_CLOSE_OTHERS}',
    'server': f'Reduce --train_batch_size or --train_crop_size of the training, {_CLOSE_OTHERS}',
}

_PROC, _CGROUPS = pathlib.Path('/proc'), pathlib.Path('/sys/fs/cgroup')
_SHORTAGE = re.compile('OOM when allocating|bad_alloc|failed to allocate|out of memory|cannot allocate memory', re.I)
_MIB, _GIB = 1 << 20, 1 << 30
_NO_LIMIT = 1 << 60  # version 1 of control groups writes a number beyond this


class Need(NamedTuple):
    """What a run needs beside what the process holds already, in bytes.

    Attributes:
      activations: of all tensors that live at once (`graph_memory.peak`) and of the batches that wait in queues. They
        grow with the batch and with the area of the crop.
      held: of the variables: weights, moving averages, slots; of all copies of weights that become constants.
    """

    activations: int
    held: int

    @property
    def certain(self) -> int:
        """What the run takes at least: every measured one took at least 1.3 times as much."""
        return self.activations + self.held

    @property
    def likely(self) -> int:
        """What the run will take, about: with kernels, copies of weights for them, and what allocators keep back.

        Fitted to the peak resident memory (VmHWM) of short trainings on a CPU: mobilenet_v2 at 129 x 129, batch 4, and
        513 x 513, batch 4; resnet_v1_50 at 257 x 257, batch 2; xception_65 with and without ASPP and decoder at
        129 x 129 and 257 x 257, batch 2. It was between 6 % less and 15 % more than measured; in evaluations of
        mobilenet_v2 (769 x 769, batch 2; two scales and flips of 257 x 257, batch 4) and of resnet_v1_50 (513 x 513,
        batch 2) between 14 % less and 10 % more.
        """
        return int(1.15 * self.activations + self._rest)

    @property
    def _rest(self) -> float:
        return 3.2 * self.held + 250 * _MIB

    def share_within(self, available: int) -> float:
        """The factor on the activations with which the run would likely take `available` bytes; 0 for none."""
        return max(available - self._rest, 0.0) / max(1.15 * self.activations, 1.0)


class Size(NamedTuple):
    """What rules the memory of a run, and the flags that set it.

    Attributes:
      prefix: of the flags --PREFIX_batch_size and --PREFIX_crop_size: train, eval or vis.
      batch: images of a step.
      parts: a batch that fits is a multiple of this: clones times micro-batches.
      crop: height and width of the images.
      output_stride: of the network.
    """

    prefix: str
    batch: int
    crop: tuple[int, int]
    output_stride: int
    parts: int = 1

    def within(self, share: float) -> str:
        """Says which batch and which crop take `share` of the memory, at most."""
        found = []
        batch = int(self.batch * share) // self.parts * self.parts
        if batch:
            found.append(f'--{self.prefix}_batch_size={batch}')
        sides = [int((side - 1) * math.sqrt(share)) // self.output_stride for side in self.crop]
        if min(sides) >= 1:
            height, width = (side * self.output_stride + 1 for side in sides)
            found.append(f'--{self.prefix}_crop_size={height},{width}')
        return f'The largest that fit: {", or ".join(found)}' if found else 'No batch and no crop size would fit'


def check(need: Need, size: Size) -> None:
    """Compares what a run needs with what is free, before its first step.

    It warns where the run will likely take more, and refuses where it will with certainty. Says nothing where nothing
    is known of the memory.

    Raises:
      OutOfMemoryError: the run cannot fit; the message says which batch or crop would.
    """
    available = free()
    if available is None or need.likely <= available:
        return
    height, width = size.crop
    given = f'--{size.prefix}_batch_size={size.batch} with --{size.prefix}_crop_size={height},{width}'
    text = (
        f'{given} needs about {need.likely / _GIB:.1f} GiB of memory, and {available / _GIB:.1f} GiB are free. '
        f'{size.within(need.share_within(available))}.'
    )
    if need.certain > available:
        raise OutOfMemoryError(f'{text} {ADVICE[size.prefix].partition(". ")[0]}')
    logging.warning('%s The system may end the process.', text)


def is_shortage(error: BaseException) -> bool:
    """Whether an error says that memory could not be allocated."""
    if isinstance(error, UserError):
        return False
    if isinstance(error, MemoryError) or (isinstance(error, OSError) and error.errno == errno.ENOMEM):
        return True
    return bool(_SHORTAGE.search(str(error)))


@contextlib.contextmanager
def explained(program: str, need: Need | None = None, size: Size | None = None) -> Iterator[None]:
    """Turns a failed allocation into an error of one line with the advice of `ADVICE`.

    Args:
      program: name of the program.
      need: what the run was thought to need; None where nothing is known.
      size: what may be smaller; None where nothing is known.

    Raises:
      OutOfMemoryError: in the place of what Python and TensorFlow raise.
    """
    try:
        yield
    except Exception as error:
        if not is_shortage(error):
            raise
        # What fails although it seemed to fit shall not be advised again.
        share = 0.5 if need is None else min(need.share_within(free() or need.likely), 0.5)
        fits = '' if size is None else f' {size.within(share).replace("The largest that fit", "Try")}.'
        first = next((line.strip() for line in str(error).splitlines() if _SHORTAGE.search(line)), 'no memory left')
        raise OutOfMemoryError(f'The memory is used up ({first[:200]}).{fits} {ADVICE[program]}') from error


def free() -> int | None:
    """Bytes that this process may still take: of the machine, of its control groups, of its own address space.

    What the system can take back at once, such as cached files, is free, and so is swap space. None where nobody says.
    """
    limits = [_available(), *_in_groups(), _in_address_space()]
    known = [limit for limit in limits if limit is not None]
    return max(min(known), 0) if known else None


def _available() -> int | None:
    """Bytes that the machine has left."""
    info = _numbers(_PROC / 'meminfo')
    return info['MemAvailable'] + info.get('SwapFree', 0) if 'MemAvailable' in info else None


def _in_groups() -> list[int]:
    """Bytes left below the limit of each control group that this process is in, the outer ones included.

    A container sees its own group as the root; a path that it cannot see counts for the root.
    """
    left = []
    for line in _lines(_PROC / 'self' / 'cgroup'):
        _, controllers, path = line.split(':', 2)
        if not controllers:
            left += _below(_CGROUPS, path, 'memory.max', 'memory.current', 'inactive_file')
        elif 'memory' in controllers.split(','):
            names = ('memory.limit_in_bytes', 'memory.usage_in_bytes', 'total_inactive_file')
            left += _below(_CGROUPS / 'memory', path, *names)
    return left


def _below(root: pathlib.Path, path: str, limit_file: str, usage_file: str, cache: str) -> list[int]:
    """Bytes left below the limits of the group `path` and those above it; `cache` is what it can give back."""
    left = []
    swap = _numbers(_PROC / 'meminfo').get('SwapFree', 0)  # a group may be allowed less of it: then too much counts
    folder = root / path.lstrip('/')
    for group in (folder, *folder.parents):
        limit, usage = _number(group / limit_file), _number(group / usage_file)
        if limit is not None and usage is not None and limit < _NO_LIMIT:
            left.append(limit - usage + _numbers(group / 'memory.stat').get(cache, 0) + swap)
        if group == root:
            break
    return left


def _in_address_space() -> int | None:
    """Bytes left below RLIMIT_AS (`ulimit -v`); None for no limit."""
    try:
        import resource  # not on every system
    except ImportError:
        return None
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    used = _numbers(_PROC / 'self' / 'status').get('VmSize')
    return None if limit == resource.RLIM_INFINITY or used is None else limit - used


def _lines(path: pathlib.Path) -> list[str]:
    try:
        return path.read_text('utf-8', errors='replace').splitlines()
    except OSError:
        return []


def _number(path: pathlib.Path) -> int | None:
    """The number in a file; None where there is no file, or a word such as `max` in it."""
    lines = _lines(path)
    return int(lines[0]) if lines and lines[0].strip().isdigit() else None


def _numbers(path: pathlib.Path) -> dict[str, int]:
    """The bytes in lines such as `MemAvailable:  123 kB` and `inactive_file 123`."""
    found = {}
    for line in _lines(path):
        name, _, rest = line.replace(':', ' ', 1).partition(' ')
        value, *unit = rest.split() or ['']
        if value.isdigit():
            found[name] = int(value) * (1024 if unit == ['kB'] else 1)
    return found
