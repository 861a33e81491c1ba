"""Speed and memory of a training with the user's flags, by batch size."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from typing import Any

from deeplab.files import documents
from deeplab.programs.benchmark.figures import Training
from deeplab.system import children

_SECONDS = 4.0  # of later steps
_LOG_STEPS = 2  # steps between two lines of metrics.jsonl
_POLL_SECS = 0.1
# Flags of a training that its measurement does without.
_OF_VALIDATION = ('eval_split', 'eval_every', 'best_metric', 'early_stop_evals', 'eval_crop_size')
_OF_WORKERS = ('worker_hosts', 'task', 'restarts', 'reduce_precision', 'worker_timeout_secs')


def measure(flags: Sequence[str], dataset_dir: str, batch_size: int) -> Training:
    """Trains for a few seconds, in a process of its own that ends without a checkpoint.

    Args:
      flags: flags of `deeplab train`, --NAME=VALUE.
      dataset_dir: folder of the records.
      batch_size: images of a step.

    Raises:
      ChildError: the training failed, for instance because the batch does not fit into memory.
    """
    with tempfile.TemporaryDirectory() as logdir:
        own = {
            'dataset_dir': dataset_dir,
            'train_logdir': logdir,
            'train_batch_size': batch_size,
            'training_number_of_steps': 10**9,
            'log_steps': _LOG_STEPS,
            'save_interval_secs': 10**6,
            'save_summaries_secs': 10**6,
        }
        unused = (*own, 'profile_logdir', *_OF_VALIDATION, *_OF_WORKERS)
        kept = [flag for flag in flags if flag.lstrip('-').partition('=')[0] not in unused]
        # An empty list of workers: the machine alone, whatever scheduler is in the environment.
        words = [*kept, *(f'--{name}={value}' for name, value in own.items()), '--worker_hosts=']
        begun = time.monotonic()
        with children.started([sys.executable, '-m', 'deeplab', 'train', *words]) as (process, log):
            path = os.path.join(logdir, 'metrics.jsonl')
            start, enough = None, None
            while True:
                lines: list[dict[str, Any]] = []
                with contextlib.suppress(OSError):  # not yet
                    lines = documents.load_lines(path)
                now = time.monotonic()
                if lines and start is None:
                    start, enough = now - begun, now + _SECONDS
                if len(lines) > 1 and enough is not None and now > enough:
                    return _result(lines[1:], batch_size, start or 0.0, children.peak_bytes(process.pid))
                if process.poll() is not None:
                    raise children.failure(process.returncode, log.read_text(errors='replace'))
                time.sleep(_POLL_SECS)


def _result(lines: Sequence[dict[str, Any]], batch_size: int, start_seconds: float, peak_bytes: int | None) -> Training:
    """Returns the means of the lines."""
    seconds = sum(line['seconds_per_step'] for line in lines) / len(lines)
    shares = [line['waiting_share'] for line in lines if 'waiting_share' in line]
    share = sum(shares) / len(shares) if shares else None
    return Training(batch_size, start_seconds, seconds, share, peak_bytes)
