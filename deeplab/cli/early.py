"""Work before the import of TensorFlow: its kernels, threads and memory, and the start of the check of records."""

from __future__ import annotations

import ctypes
import os
import sys
from typing import Any

from absl import logging

from deeplab.cli.values import Values
from deeplab.cli.words import UsageError
from deeplab.files import run_manifests, storage
from deeplab.options import EvalOptions, ReportOptions, TrainOptions, VisOptions
from deeplab.system import processors

_M_ARENA_MAX = -8  # of mallopt(3)


def check_records(options: TrainOptions | EvalOptions | VisOptions) -> None:
    """Begins to check the records of a training, an evaluation or a visualization."""
    from deeplab.checks import record_check
    from deeplab.datasets import task_data

    cache_dir: str | None
    if isinstance(options, TrainOptions):
        cache_dir = options.train_logdir if options.clones.is_chief else None
    else:
        cache_dir = options.eval_logdir if isinstance(options, EvalOptions) else options.vis_logdir
    needs_truth = not isinstance(options, VisOptions) or options.needs_labels
    needs_labels = needs_truth and task_data.needs_labels(options.model)
    planes = task_data.needed_planes(options.model) if needs_truth else ()
    record_check.begin(options.dataset, options.model.num_classes, needs_labels, cache_dir, planes)


def use_one_dnn(options: Any = None) -> None:
    """Makes TensorFlow use the CPU kernels of oneDNN, unless the environment says otherwise.

    TensorFlow leaves them off on processors without AVX-512, where they are faster, too: eval's network takes two
    thirds of the processor time with them, and a training step 0.7 to 1.0 of it.
    """
    del options
    if 'tensorflow' not in sys.modules:  # it reads the variable once
        os.environ.setdefault('TF_ENABLE_ONEDNN_OPTS', '1')


def share_gpus() -> None:
    """Makes TensorFlow allocate the memory of GPUs as needed, unless the environment says otherwise.

    `sessions.config` asks for it, too, but the first allocator of a process decides: TensorFlow makes it before the
    session when a graph gets its first function, such as a `map` of tf.data.
    """
    os.environ.setdefault('TF_FORCE_GPU_ALLOW_GROWTH', 'true')


def limit_arenas(options: Any = None) -> None:
    """Limits the arenas of glibc's malloc to one for two processors, unless the environment says otherwise.

    By default, there are up to eight for each processor, and each keeps what its threads free: a training that passes
    its feature maps from thread to thread holds up to 5 % more memory, and is not faster.
    """
    del options
    if 'MALLOC_ARENA_MAX' in os.environ or 'arena_max' in os.environ.get('GLIBC_TUNABLES', ''):
        return
    if sys.platform == 'linux' and hasattr(libc := ctypes.CDLL(None), 'mallopt'):  # other C libraries have no arenas
        libc.mallopt(_M_ARENA_MAX, max(1, processors.available_cores() // 2))


def limit_threads(values: Values) -> None:
    """Limits the threads of TensorFlow to --num_threads, by the environment, which it reads when it starts.

    Raises:
      UsageError: the number is less than 1.
    """
    number = values['num_threads'] if 'num_threads' in values else None
    if number is None:
        return
    if number < 1:
        raise UsageError(f'--num_threads={number} is not allowed: it must be 1 or more.')
    os.environ.update(processors.thread_limit(number))


def announce_wait(options: EvalOptions | VisOptions) -> None:
    """Warns if eval or vis is to wait for a folder, before TensorFlow is imported and the records are opened."""
    folder = options.checkpoint_dir
    if isinstance(options, EvalOptions) and options.ensemble:
        return
    is_missing = not (storage.is_remote(folder) or os.path.exists(folder) or os.path.exists(f'{folder}.index'))
    if is_missing and not run_manifests.is_own_name(folder):
        logging.warning(
            "'%s' does not exist yet. Waiting for a training run to write its first checkpoint there; press Ctrl-C to "
            'stop.',
            folder,
        )


def check_report(options: ReportOptions) -> None:
    """Checks what report and compare need.

    Raises:
      OptionError: a run does not exist, or the package of the charts is missing.
    """
    from deeplab.reporting import page

    page.require_paths([run.path for run in options.runs])
    page.require_library()
