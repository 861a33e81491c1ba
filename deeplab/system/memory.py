"""Memory: how much is free for this process, how much a run needs, and advice if that is not enough.

Without `/proc` the free memory is unknown, and nothing is reported.
"""

from __future__ import annotations

import contextlib
import errno
import math
import re
import resource
import traceback
from collections.abc import Callable, Iterator
from typing import NamedTuple

from absl import logging

from deeplab.errors import OutOfMemoryError, UserError
from deeplab.system import system_files
from deeplab.system.system_files import number, numbers
from deeplab.wording import option

# Programs that may need much memory.
PROGRAMS = (
    'train',
    'cross_validate',
    'eval',
    'verify',
    'vis',
    'predict',
    'report',
    'compare',
    'export_model',
    'preview',
    'demo',
    'server',
    'rank',
    'average_checkpoints',
    'train_image_classifier',
    'eval_image_classifier',
)
VALIDATION = 'validation'  # a part of train, for `advice` and `explained`

_CLOSE_OTHERS = 'close other programs, or use a machine with more memory'
_CROP_SIZE = 'ModelOptions.crop_size'
_BATCH_SIZES = {
    'train': 'TrainOptions.batch_size',
    'eval': 'EvalOptions.batch_size',
    'verify': 'VerifyOptions.batch_size',
    'report': 'EvalOptions.batch_size',
    'compare': 'EvalOptions.batch_size',
    'vis': 'VisOptions.batch_size',
    'eval_image_classifier': 'EvalOptions.batch_size',
}

# By version of control groups: files of limit and usage, and the key in memory.stat of memory that can be reclaimed.
_GROUP_FILES = {
    1: ('memory.limit_in_bytes', 'memory.usage_in_bytes', 'total_inactive_file'),
    2: ('memory.max', 'memory.current', 'inactive_file'),
}
_SHORTAGE = re.compile('OOM when allocating|bad_alloc|failed to allocate|out of memory|cannot allocate memory', re.I)
_MIB, _GIB = 1 << 20, 1 << 30
_RESERVE = 16 * _MIB  # address space only: nothing is written to it
_NO_LIMIT = 1 << 60  # version 1 writes a larger number if there is no limit


def advice(program: str) -> str:
    """Returns what to do if the memory is not enough for a program, one of `PROGRAMS`, or for `VALIDATION`."""
    crop_size, scales = option(_CROP_SIZE), option('PredictionOptions.scales')
    if program in ('train', 'cross_validate', 'train_image_classifier'):
        return (
            f'Reduce {option(_BATCH_SIZES["train"])} ({option("TrainOptions.accumulation_steps")} keeps the batch size '
            f'of a step) or {crop_size}. If a checkpoint has been saved, the same command resumes from it'
        )
    if program == 'verify':  # the other sizes are published
        return f'Reduce {option(_BATCH_SIZES[program])}, {_CLOSE_OTHERS}'
    if program in _BATCH_SIZES:
        return (
            f'Reduce {option(_BATCH_SIZES[program])}, {crop_size} or the largest of {scales}, or predict in windows: '
            f'{option("WindowOptions.window", (513, 513))} or smaller'
        )
    window = f'{option("WindowOptions.window")} and {option("WindowOptions.whole_pixels")}'
    resize = f'{option("ResizeOptions.min_value")} and {option("ResizeOptions.max_value")}'
    return {
        VALIDATION: f'Validation needs memory beside training: resize the images ({resize}), reduce '
        f'{option(_BATCH_SIZES["train"])}, or {option("ValidationOptions.crop_size")} if it exceeds the images, use a '
        f'split of smaller images ({option("ValidationOptions.split")}), or omit the split and run eval after the '
        'training',
        'predict': f'Predict in smaller windows: reduce {window}, or save no probabilities',
        'rank': f'Predict in smaller windows: reduce {window}, or the largest of {option("RankOptions.view_scales")}',
        'average_checkpoints': f'Reduce {option(_BATCH_SIZES["train"])} or {crop_size}, {_CLOSE_OTHERS}',
        'export_model': f'Reduce {crop_size} or the largest of {scales}',
        'preview': f'Reduce {crop_size}, {_CLOSE_OTHERS}',
        'demo': f'The same command resumes the demo. If it fails again, {_CLOSE_OTHERS}',
        'server': f'Reduce the batch size or crop size of the training, {_CLOSE_OTHERS}',
    }[program]


class Need(NamedTuple):
    """What a run needs besides what the process holds already, in bytes.

    Attributes:
      activations: bytes of all tensors that live at once (`graph_memory.peak`). They grow with the batch and with the
        area of the crop, as `waiting` does.
      held: bytes of the variables (weights, moving averages, slots) and of all copies of weights as constants.
      waiting: bytes of the batches in queues.
    """

    activations: int
    held: int
    waiting: int = 0

    @property
    def certain(self) -> int:
        """The least memory that the run takes: every measured one took at least 1.3 times as much."""
        return self._of_batches + self.held

    @property
    def likely(self) -> int:
        """The memory that the run probably takes, with kernels, their copies of weights, and allocator overhead.

        Fitted to the peak resident memory (VmHWM) of short trainings on a CPU: mobilenet_v2 at 129 x 129, batch 4, and
        513 x 513, batch 4; resnet_v1_50 at 257 x 257, batch 2; xception_65 with and without ASPP and decoder at
        129 x 129 and 257 x 257, batch 2. It was between 6 % less and 15 % more than measured; in evaluations of
        mobilenet_v2 (769 x 769, batch 2; two scales and flips of 257 x 257, batch 4) and of resnet_v1_50 (513 x 513,
        batch 2) between 14 % less and 10 % more.
        """
        return int(1.15 * self._of_batches + self._rest)

    def beside(self, training: Need) -> Need:
        """Returns what a validation and the training around it need together; `self` is for the validation alone.

        The training keeps its variables and queues meanwhile, and the validation reuses the memory of its
        activations. Measured beside mobilenet_v2 at 129 x 129, batch 4, at 321 x 321, batch 4 and 8, resnet_v1_50 at
        257 x 257, batch 2, and xception_65 at 129 x 129 and 257 x 257, batch 2, with validations of 369 x 481 to
        1025 x 1025: what is likely by this was between 14 % less and 22 % more.
        """
        return Need(
            max(self.activations, training.activations),
            self.held + training.held,
            self.waiting + training.waiting,
        )

    @property
    def _of_batches(self) -> int:
        return self.activations + self.waiting

    @property
    def _rest(self) -> float:
        return 3.2 * self.held + 250 * _MIB

    def share_within(self, available: int) -> float:
        """Returns the factor on the activations with which the run would probably take `available` bytes, or 0."""
        return max(available - self._rest, 0.0) / max(1.15 * self._of_batches, 1.0)


class Size(NamedTuple):
    """What determines the memory of a run.

    Attributes:
      program: train, eval or vis, whose options set batch and crop size.
      batch: images of a step.
      parts: a batch size must be a multiple of this: clones times micro-batches.
      crop: height and width of the images.
      output_stride: output stride of the network.
    """

    program: str
    batch: int
    crop: tuple[int, int]
    output_stride: int
    parts: int = 1

    def within(self, share: float) -> str:
        """Describes the batch size and the crop size that take at most `share` of the memory."""
        settings = []
        batch = int(self.batch * share) // self.parts * self.parts
        if batch:
            settings.append(option(_BATCH_SIZES[self.program], batch))
        sides = [int((side - 1) * math.sqrt(share)) // self.output_stride for side in self.crop]
        if min(sides) >= 1:
            height, width = (side * self.output_stride + 1 for side in sides)
            settings.append(option(_CROP_SIZE, (height, width)))
        return f'The largest that fit: {", or ".join(settings)}' if settings else 'No batch and no crop size would fit'


def check(need: Need, size: Size) -> None:
    """Compares the memory that a run needs with the free memory, before its first step.

    Warns if the run will probably take more. Does nothing if the free memory is unknown.

    Raises:
      OutOfMemoryError: the run will certainly take more; the message says which batch or crop size would fit.
    """
    given = f'{option(_BATCH_SIZES[size.program], size.batch)} with {option(_CROP_SIZE, tuple(size.crop))}'
    further = advice(size.program).partition('. ')[0]
    _compare(need, need.certain, f'{given} needs', lambda available: size.within(need.share_within(available)), further)


def check_validation(need: Need, training: Need, images: str) -> None:
    """Compares the memory that a training and its validations need with the free memory, as `check` does.

    Args:
      need: memory that the validation needs alone.
      training: memory that the training needs.
      images: description of the images of the validation, as the beginning of a sentence.

    Raises:
      OutOfMemoryError: the validation will certainly take more, as the training keeps its variables and queues.
    """
    kept = training._replace(activations=0)
    _compare(
        need.beside(training),
        need.beside(kept).certain,
        f'{images} need, together with the training,',
        lambda available: advice(VALIDATION),
    )


def _compare(need: Need, certain: int, subject: str, fix: Callable[[int], str], further: str = '') -> None:
    """Warns of a need that the free memory probably does not satisfy, and raises OutOfMemoryError if it cannot.

    The message begins with `subject`, which has a verb, and says what `fix` returns for so many free bytes; the error
    also has the text `further`.
    """
    available = free()
    if available is None or need.likely <= available:
        return
    text = (
        f'{subject} about {need.likely / _GIB:.1f} GiB of memory, and {available / _GIB:.1f} GiB are free. '
        f'{fix(available)}.'
    )
    if certain > available:
        raise OutOfMemoryError(f'{text} {further}'.rstrip())
    logging.warning('%s The system may kill the process.', text)


def _is_shortage(error: BaseException) -> bool:
    if isinstance(error, UserError):
        return False
    if isinstance(error, MemoryError) or (isinstance(error, OSError) and error.errno == errno.ENOMEM):
        return True
    return bool(_SHORTAGE.search(str(error)))


@contextlib.contextmanager
def explained(program: str, need: Need | None = None, size: Size | None = None) -> Iterator[None]:
    """Turns a failed allocation into an error of one line with `advice`.

    Args:
      program: name of the program, one of `PROGRAMS`, or `VALIDATION`.
      need: the estimated memory of the run; None if unknown.
      size: batch and crop size, which may be reduced; None if unknown.

    Raises:
      OutOfMemoryError: instead of what Python and TensorFlow raise.
    """
    reserve = bytes(_RESERVE)
    try:
        yield
    except Exception as error:
        del reserve  # there may be no memory left to report the error
        if not _is_shortage(error):
            raise
        traceback.clear_frames(error.__traceback__)  # frees the graph and the images
        # The estimate may have been too low: do not advise the size that has just failed.
        share = 0.5 if need is None else min(need.share_within(free() or need.likely), 0.5)
        fits = '' if size is None else f' {size.within(share).replace("The largest that fit", "Try")}.'
        first = next((line.strip() for line in str(error).splitlines() if _SHORTAGE.search(line)), 'no memory left')
        raise OutOfMemoryError(f'Out of memory ({first[:200]}).{fits} {advice(program)}') from error


def free() -> int | None:
    """Returns the bytes that this process may still allocate; None if unknown.

    That is the least of what is left on the machine, in its control groups and in its address space. Memory that the
    system can reclaim at once, such as cached files, is free, and so is swap space.
    """
    limits = [limit for limit in (_available(), *_in_groups(), _in_address_space()) if limit is not None]
    return max(min(limits), 0) if limits else None


def _available() -> int | None:
    """Returns the free bytes of the machine."""
    info = numbers(system_files.PROC / 'meminfo')
    return info['MemAvailable'] + info.get('SwapFree', 0) if 'MemAvailable' in info else None


def _in_groups() -> Iterator[int]:
    """Yields the free bytes of each control group with a limit that this process is in."""
    swap = numbers(system_files.PROC / 'meminfo').get('SwapFree', 0)  # too much for a group with a lower swap limit
    for folder, version in system_files.groups('memory'):
        limit_file, usage_file, cache = _GROUP_FILES[version]
        limit, usage = number(folder / limit_file), number(folder / usage_file)
        if limit is not None and usage is not None and limit < _NO_LIMIT:
            yield limit - usage + numbers(folder / 'memory.stat').get(cache, 0) + swap


def _in_address_space() -> int | None:
    """Returns the free bytes below RLIMIT_AS (`ulimit -v`); None for no limit."""
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    used = numbers(system_files.PROC / 'self' / 'status').get('VmSize')
    return None if limit == resource.RLIM_INFINITY or used is None else limit - used
