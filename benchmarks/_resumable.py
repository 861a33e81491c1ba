"""Trainings that stop after a time and go on when they are started again, and evaluations that run once."""

import json
import pathlib
import signal
import subprocess
import time

import camvid

# Files in the log folder of a training: the seconds of each of its pieces, and its flags.
PIECES, FLAGS = 'pieces.json', 'flags.json'


class StoppedError(SystemExit):
    """The time is up: what was measured is kept, and the same command goes on."""


class Clock:
    """The time that a benchmark may take: `Clock(300)` is up 300 s after it was made; None for no limit."""

    def __init__(self, seconds: float | None) -> None:
        self._end = None if seconds is None else time.monotonic() + seconds

    def left(self) -> float | None:
        return None if self._end is None else self._end - time.monotonic()

    def check(self) -> None:
        """Raises StoppedError if the time is up."""
        left = self.left()
        if left is not None and left <= 0:
            raise StoppedError('The time is up. Run the same command again to go on.')


def train(logdir: pathlib.Path, steps: int, clock: Clock, *flags: str) -> None:
    """Trains up to a step, unless that was done; a training that was stopped continues.

    Raises:
      StoppedError: the time is up; the training has been stopped by SIGTERM, and has written a checkpoint.
      SystemExit: the training failed, or the folder has a training with other flags.
    """
    written = logdir / FLAGS
    if written.exists() and json.loads(written.read_text()) != list(flags):
        raise SystemExit(f'{logdir} has a training with other flags ({written.name}). Give another folder.')
    if (logdir / f'model.ckpt-{steps}.index').exists():
        return
    clock.check()
    logdir.mkdir(parents=True, exist_ok=True)
    written.write_text(json.dumps(flags))
    words = (f'--train_logdir={logdir}', f'--training_number_of_steps={steps}', *flags)
    started = time.monotonic()
    process = subprocess.Popen(camvid.program('train', *words))
    try:
        status = process.wait(clock.left())
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGTERM)
        status = process.wait()
    pieces = logdir / PIECES
    seconds = json.loads(pieces.read_text()) if pieces.exists() else []
    pieces.write_text(json.dumps([*seconds, round(time.monotonic() - started, 1)]))
    if not (logdir / f'model.ckpt-{steps}.index').exists():
        clock.check()
        raise SystemExit(f'The training in {logdir} failed with status {status}.')


def minutes(logdir: pathlib.Path) -> float:
    """Returns the time that a training took, all pieces with their starts."""
    return round(sum(json.loads((logdir / PIECES).read_text())) / 60, 1)


def evaluate(logdir: pathlib.Path, steps: int, split: str, clock: Clock, *flags: str, name: str | None = None) -> dict:
    """Evaluates the checkpoint of a step on a split, unless that was done.

    Args:
      logdir: the folder of the training.
      steps: the step.
      split: the split.
      clock: the time that is left.
      flags: flags of eval.
      name: what the folder of the metrics is named after; the split if omitted.

    Returns:
      mIoU and IoU of each class, of the averaged weights if the training kept an average.
    """
    folder = logdir / f'eval_{name or split}'
    if not (measured := sorted(folder.glob(f'metrics-{steps}*.json'))):
        clock.check()
        words = (f'--checkpoint_dir={logdir}', f'--eval_split={split}', f'--eval_logdir={folder}', *flags)
        subprocess.run(camvid.program('eval', *words, '--max_number_of_evaluations=1'), check=True)
        measured = sorted(folder.glob(f'metrics-{steps}*.json'))
    metrics = json.loads(measured[0].read_text())
    return {'miou': metrics['miou'], 'class_iou': metrics['class_iou']}
