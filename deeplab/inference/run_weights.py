"""Whether a checkpoint is used with its weights or with their moving averages, where options do not say so."""

from __future__ import annotations

from absl import logging

from deeplab.core import moving_average
from deeplab.files import run_manifests
from deeplab.wording import option


class WeightsChoice:
    """Chooses between the weights of checkpoints and their moving averages (EMA), and logs each choice once.

    Where the options leave it open, the averages are used if the run.json of the checkpoint's training names a decay
    and the checkpoint has them: a training that was resumed with a decay has older checkpoints without averages.
    """

    def __init__(self, use_moving_average: bool | None, field: str) -> None:
        """Creates the object.

        Args:
          use_moving_average: what the options say; None to choose.
          field: 'Class.field' of that option, for messages.
        """
        self._asked = use_moving_average
        self._field = field
        self._said = ''
        self._choices: set[bool] = set()

    def takes_averages(self, checkpoint: str) -> bool:
        """Returns whether the averages in the checkpoint at a path are used instead of its weights.

        Raises:
          CheckpointError: it cannot be read.
        """
        taken = self._of(checkpoint) if self._asked is None else self._asked
        self._choices.add(taken)
        return taken

    @property
    def taken(self) -> bool | None:
        """What all choices so far were; None if they differ."""
        return next(iter(self._choices)) if len(self._choices) == 1 else None

    def _of(self, checkpoint: str) -> bool:
        beside = run_manifests.beside(checkpoint)
        decay = None if beside is None else run_manifests.option_of(beside[1], 'moving_average_decay')
        has_averages = bool(moving_average.held_by(checkpoint))
        keeps_averages = isinstance(decay, float)
        if beside is not None and keeps_averages:
            used = (
                f'the moving averages (EMA) of the weights are used. {option(self._field, False)} selects the weights'
            )
            unused = 'the weights are used, as the checkpoint has no moving averages (EMA) of them'
            decay_text = option('TrainOptions.moving_average_decay', decay)
            self._say(logging.INFO, f'{beside[0]} names {decay_text}: {used if has_averages else unused}.')
        elif has_averages:
            self._say(
                logging.WARNING,
                f"'{checkpoint}' also holds moving averages of the weights (EMA), which are not used: no run.json "
                f'beside it names their decay. Set {option(self._field, True)} to use them.',
            )
        return keeps_averages and has_averages

    def _say(self, level: int, text: str) -> None:
        """Logs a text, unless it was the last one: several checkpoints of a folder have the same text."""
        if text != self._said:
            logging.log(level, '%s', text)
        self._said = text
