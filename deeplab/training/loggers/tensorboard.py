"""TensorBoard's event files: summaries in the folder of the training, figures of validations in its folder eval/."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from deeplab.core.lazy import tf
from deeplab.errors import reason_of
from deeplab.files import output_files
from deeplab.files.run_manifests import EVAL_FOLDER
from deeplab.registry import LoggedRun, Logger, RunLogger, register


class EventFiles(RunLogger):
    """Writes event files, each of which is created when something is written to it for the first time."""

    def __init__(self, run: LoggedRun) -> None:
        """Creates the logger; writes nothing."""
        self._directory = run.directory
        self._writers: dict[str, Any] = {}  # by folder

    def summary(self, step: int, summary: Any) -> None:
        """Writes a summary beside the checkpoints."""
        self._write(self._directory, summary, step)

    def validation(self, step: int, figures: Mapping[str, float]) -> None:
        """Writes figures where `deeplab eval` of this training would."""
        values = [tf.compat.v1.Summary.Value(tag=tag, simple_value=value) for tag, value in figures.items()]
        self._write(os.path.join(self._directory, EVAL_FOLDER), tf.compat.v1.Summary(value=values), step)

    def end(self, status: str, reason: str) -> None:
        """Closes the files."""
        for writer in self._writers.values():
            writer.close()

    def _write(self, folder: str, summary: Any, step: int) -> None:
        try:
            if folder not in self._writers:
                with tf.Graph().as_default():  # the class refuses to work with eager execution
                    self._writers[folder] = tf.compat.v1.summary.FileWriter(folder)
            self._writers[folder].add_summary(summary, step)
            self._writers[folder].flush()
        except output_files.write_failures() as error:
            path = os.path.join(folder, 'events.out.tfevents.*')
            raise OSError(f"'{path}' cannot be written: {reason_of(error)}") from error


register(
    Logger(
        name='tensorboard',
        summary='TensorBoard event files, in the training folder.',
        create=EventFiles,
        takes_summaries=True,
    )
)
