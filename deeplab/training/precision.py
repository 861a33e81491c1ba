"""The data type in which a training computes where `precision` is 'auto'."""

from __future__ import annotations

import dataclasses
import os
from typing import Any, NamedTuple

import tensorflow as tf
from absl import logging

from deeplab.errors import OptionError
from deeplab.files import run_manifests
from deeplab.options import TrainOptions
from deeplab.registry import AUTO_PRECISION, BACKBONES, PRECISIONS
from deeplab.system import processors
from deeplab.training import run_manifest
from deeplab.wording import option

REASON = 'precision_reason'  # in run.json, of a training whose precision was chosen

_INSTRUCTIONS = ('amx_bf16', 'avx512_bf16')  # with which oneDNN computes in bfloat16
_ISA_WITH_BFLOAT16 = ('BF16', 'FP16', 'AMX', 'AVX10', 'ALL', 'DEFAULT')  # in values of ONEDNN_MAX_CPU_ISA
_ISA_WITH_AVX512 = ('AVX512', 'AVX10', 'ALL', 'DEFAULT')  # the same, without which there is no bfloat16 at all
_LEAST_CAPABILITY = (8, 0)  # compute capability of Ampere, the first GPUs with bfloat16


class _Choice(NamedTuple):
    """A data type, and why it was chosen."""

    precision: str
    reason: str


def resolved(options: TrainOptions, first_step: int = 0) -> tuple[TrainOptions, str | None]:
    """Replaces the precision 'auto' by a data type; logs which one, and why.

    A run that is resumed or repeated keeps its type: another machine must not change the numbers of a training. A new
    run takes bfloat16 where this machine has instructions for it, else float32.

    Args:
      options: options of the training.
      first_step: steps done by earlier runs; 0 for a new run.

    Returns:
      The options with the data type, and why it was chosen; None if the options name it.

    Raises:
      OptionError: The environment does not allow it.
    """
    if options.precision != AUTO_PRECISION:
        _require_allowed(options)
        return options, None
    choice = _chosen(options, first_step)
    logging.info('%s takes %s: %s.', option('TrainOptions.precision', AUTO_PRECISION), *choice)
    options = dataclasses.replace(options, precision=choice.precision)
    _require_allowed(options)
    return options, choice.reason


def _require_allowed(options: TrainOptions) -> None:
    """Raises `OptionError` if the environment keeps oneDNN from computing in bfloat16, where TensorFlow asks it to.

    TensorFlow looks at the processor alone: with AVX-512 it uses oneDNN's operations, which then do not exist. On other
    processors it has operations of its own, which are slow.
    """
    limit = os.environ.get('ONEDNN_MAX_CPU_ISA', '')
    if options.precision != 'bfloat16' or options.clones.master or not limit or _gpus(options):
        return
    if 'avx512f' in processors.instructions() and not any(part in limit.upper() for part in _ISA_WITH_AVX512):
        raise OptionError(
            f'{option("TrainOptions.precision", options.precision)} is not possible with ONEDNN_MAX_CPU_ISA={limit} in '
            f'the environment. Remove the variable, or set {option("TrainOptions.precision", "float32")}'
        )


def _chosen(options: TrainOptions, first_step: int) -> _Choice:
    if options.model.quantize_delay_step is not None:
        return _Choice('float32', 'fake quantization needs float32')
    if options.clones.master or options.clones.worker_hosts:
        return _Choice('float32', 'several machines could choose differently')
    of_machine = _of_machine(options)
    earlier = _of_earlier_run(options, first_step)
    if earlier is None:
        return of_machine
    if earlier.precision == of_machine.precision:
        return earlier
    there = f'{earlier.reason}; a new run would take {of_machine.precision} here, since {of_machine.reason}'
    return earlier._replace(reason=there)


def _of_earlier_run(options: TrainOptions, first_step: int) -> _Choice | None:
    """Returns the type of the run that this one resumes or repeats; None for a new run."""
    if first_step:
        runs = [run for run in run_manifests.runs_in(options.train_logdir) if run.get('first_step', 0) < first_step]
        precision = run_manifests.option_of(runs[-1], 'precision') if runs else None
        if precision in PRECISIONS:
            return _Choice(precision, 'the run that wrote the checkpoint computed in it')
        return _Choice('float32', f'no {run_manifests.FILE} names the type of the steps before')
    if options.repeats:
        run = run_manifest.load(options.repeats)
        precision = run_manifests.option_of(run, 'precision')
        if REASON in run and precision in PRECISIONS:
            return _Choice(precision, 'the run that is repeated computed in it')
    return None


def _gpus(options: TrainOptions) -> list[Any]:
    """Returns the GPUs that compute the training."""
    return [] if options.clones.clone_on_cpu else tf.config.list_physical_devices('GPU')


def _of_machine(options: TrainOptions) -> _Choice:
    """Returns bfloat16 if the GPUs, or else the processor, compute in it faster than in float32; or float32."""
    if gpus := _gpus(options):
        details = [tf.config.experimental.get_device_details(gpu) for gpu in gpus]
        of_all = [tuple(each.get('compute_capability', ())) for each in details]
        shown = ', '.join('.'.join(map(str, each)) or 'unknown' for each in of_all)
        is_enough = all(each >= _LEAST_CAPABILITY for each in of_all)
        reason = f'GPUs have compute capability {shown}, and bfloat16 needs 8.0'
        return _Choice('bfloat16' if is_enough else 'float32', reason)
    name = next(iter(sorted(processors.instructions().intersection(_INSTRUCTIONS))), None)
    if name is None:
        return _Choice('float32', 'the processor has neither AVX512_BF16 nor AMX')
    if os.environ.get('TF_ENABLE_ONEDNN_OPTS') == '0':
        return _Choice('float32', 'TF_ENABLE_ONEDNN_OPTS=0 switches oneDNN off')
    limit = os.environ.get('ONEDNN_MAX_CPU_ISA', 'ALL')
    if not any(part in limit.upper() for part in _ISA_WITH_BFLOAT16):
        return _Choice('float32', f'ONEDNN_MAX_CPU_ISA={limit} excludes instructions for bfloat16')
    variant = options.model.model_variant
    if not BACKBONES.get(variant).gains_from_bfloat16:
        return _Choice('float32', f'a step of {variant} takes longer in bfloat16 on a processor')
    return _Choice('bfloat16', f'the processor has {name.upper()}')
