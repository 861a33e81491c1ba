"""Network flags of a training that begins after eval or vis, which wait for its first checkpoint.

Importing this module does not load TensorFlow.
"""

from __future__ import annotations

import os
from typing import Any

from absl import logging

from deeplab.cli.logs import log_notes
from deeplab.cli.parse import parse_flags
from deeplab.cli.program import Program
from deeplab.cli.values import Values
from deeplab.files import run_manifests, storage
from deeplab.options import EvalOptions, VisOptions


def announce(program_options: Any) -> None:
    """Warns if the folder of the checkpoints does not exist, before TensorFlow is imported and the records are opened.

    Args:
      program_options: options of a program.
    """
    if not isinstance(program_options, (EvalOptions, VisOptions)):
        return
    folder = program_options.checkpoint_dir
    is_missing = not (storage.is_remote(folder) or os.path.exists(folder) or os.path.exists(f'{folder}.index'))
    if is_missing and not run_manifests.is_own_name(folder):
        logging.warning(
            "'%s' does not exist yet. The first checkpoint of a training there is awaited; Ctrl-C ends this.", folder
        )


def awaited(program: Program, values: Values, program_options: Any) -> Any:
    """Waits for the first checkpoint if there is no run.json yet, and then takes network flags from run.json.

    Without it, eval and vis would run the network of the defaults if they were started before the training, and that
    of the training if they were started after it.

    Args:
      program: the program.
      values: the values of its flags, as they are without that run.json.
      program_options: its options, as they are without that run.json.

    Returns:
      The options with those flags.

    Raises:
      UserError: there are no records, or no checkpoint appears in time.
    """
    if not isinstance(program_options, (EvalOptions, VisOptions)):
        return program_options
    folder, dataset = program_options.checkpoint_dir, program_options.dataset
    if os.path.isfile(folder) or os.path.isfile(f'{folder}.index') or run_manifests.beside(folder):
        return program_options
    from deeplab.datasets.segmentation_dataset import DataSource
    from deeplab.evaluation import waiting
    from deeplab.inference import network_source

    if network_source.at(folder).exists():
        return program_options
    DataSource(dataset).split()  # a mistake is not to wait
    next(waiting.rounds(folder, program_options.wait))
    if run_manifests.beside(folder) is None:
        return program_options
    anew = parse_flags(program, values.words)
    log_notes(
        [note for note in anew.notes if note not in values.notes],
        [warning for warning in anew.warnings if warning not in values.warnings],
    )
    return program.to_options(anew)
