"""The training loop: runs steps and hooks, writes checkpoints, and ends at the last step, a signal or an error.

One training step is one `session.run`: forward, backward, and an update that happens as a whole or, where the loss or
a gradient is not finite, not at all (`training_step.gated_update`). Log lines, summaries, validation and profiles are
hooks (`Hook`); checkpoints and signals are the loop's own.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import tensorflow as tf
from absl import logging

from deeplab.core import checkpoints, sessions
from deeplab.core.reasons import reason_of
from deeplab.core.signals import Interrupts
from deeplab.errors import CheckpointError, MachineError, NonFiniteError
from deeplab.training import training_step
from deeplab.utils import names

POLL_SECS = 1.0


@dataclasses.dataclass(frozen=True)
class StepResult:
    """What one step gave; `step` counts it already, `seconds` is how long it took.

    `gradient_norm` is the L2 norm of all gradients together, `waiting_seconds` the part of the step that went by before
    its batch was there; None where nobody measured.
    """

    step: int
    loss: float
    learning_rate: float
    seconds: float
    gradient_norm: float | None = None
    waiting_seconds: float | None = None


class Hook:
    """Something that happens between two steps; each method may be left away."""

    def begin(self, session: tf.compat.v1.Session, step: int) -> None:
        """Called once before the first step; `step` steps are done."""

    def fetches(self, step: int) -> dict[str, tf.Tensor]:
        """Tensors to run together with the step that makes `step` steps; they must be in the graph already."""
        return {}

    def feeds(self, step: int) -> dict[tf.Tensor, Any]:
        """Values of placeholders for the step that makes `step` steps."""
        return {}

    def after_step(self, result: StepResult, fetched: dict[str, Any]) -> None:
        """Called after every step with what `fetches` asked for."""

    def needs_checkpoint(self, step: int) -> bool:
        """Whether `after_checkpoint` is to be called with a checkpoint of `step`, the step where the loop stands."""
        return False

    def after_checkpoint(self, path: str, step: int, interrupts: Interrupts) -> None:
        """Called with the checkpoint that `needs_checkpoint` asked for; `interrupts` tells when to break off."""

    def stop_reason(self) -> str | None:
        """Why training should end here, before its last step; None where it should not."""
        return None

    def end(self, step: int) -> None:
        """Called once at the end, after an error too."""


@dataclasses.dataclass(frozen=True)
class Remote:
    """Servers that compute in the place of this process.

    Attributes:
      master: address of the one that runs the steps.
      device_filters: see `open_session`.
      is_ready: asked every second, after `initialise`, until it says that training may begin.
    """

    master: str
    device_filters: tuple[str, ...] = ()
    is_ready: Callable[[tf.compat.v1.Session], bool] = lambda session: True


@dataclasses.dataclass(frozen=True)
class LoopResult:
    """How training ended.

    Attributes:
      step: steps done, those of earlier runs included.
      loss: total loss of the last step; None where no step was needed.
      seconds: time spent in the loop.
      checkpoint: path of the last checkpoint.
      signal: number of the signal that ended it; None where it ended by itself.
      stop_reason: why a hook ended it before its last step; None where none did.
    """

    step: int
    loss: float | None
    seconds: float
    checkpoint: str | None
    signal: int | None = None
    stop_reason: str | None = None

    @property
    def status(self) -> int:
        """The process's exit status: 0, or 128 and the signal's number."""
        return 0 if self.signal is None else 128 + self.signal


class LoopOptions(NamedTuple):
    """What the loop does besides its steps.

    Attributes:
      save_interval_secs: time between two checkpoints, in seconds; None for the first and the last alone.
      cpu_devices: see `config`.
      remote: the servers that compute; None for this process.
      most_skips: how many batches in a row may be skipped because the loss or a gradient is not finite. The training
        step must count them as steps where that is not 0.
    """

    save_interval_secs: float | None = 1200
    cpu_devices: int = 1
    remote: Remote | None = None
    most_skips: int = 0


DEFAULTS = LoopOptions()


def train(
    step: training_step.TrainStep,
    number_of_steps: int,
    writer: checkpoints.CheckpointWriter | checkpoints.NoCheckpoints,
    initialise: Callable[[tf.compat.v1.Session], None],
    hooks: Sequence[Hook] = (),
    options: LoopOptions = DEFAULTS,
) -> LoopResult:
    """Runs `step` in the current graph until `number_of_steps` are done.

    The graph is finalised first. A checkpoint is written before the first step, every
    `options.save_interval_secs`, at the end, and where the input fails; SIGINT, SIGTERM and SIGHUP end training after
    the current step.

    Args:
      step: what to run.
      number_of_steps: steps in the end, those of earlier runs included.
      writer: writes the checkpoints.
      initialise: gives every variable its value, in the new session.
      hooks: what else happens.
      options: when checkpoints are written, what computes, and how often an update may be skipped.

    Returns:
      how it ended.

    Raises:
      NonFiniteError: at a loss or gradient that is not finite, unless `step.loss_scale` may be to blame or it may be
        skipped; weights and checkpoints stay as they were.
      MachineError: a server has gone.
    """
    graph, remote = tf.compat.v1.get_default_graph(), options.remote
    master, filters = (remote.master, remote.device_filters) if remote else ('', ())
    with (
        _lost_servers_explained(master, writer),
        sessions.open_session(graph, options.cpu_devices, master, filters, keeps_sums=True) as session,
        Interrupts() as interrupts,
    ):
        initialise(session)
        graph.finalize()
        while remote is not None and not remote.is_ready(session):
            time.sleep(POLL_SECS)
            if interrupts.received is not None:
                return LoopResult(0, None, 0.0, None, interrupts.received)
        done = int(session.run(step.global_step))
        writer.save(session, done)
        with _input_running(session):
            loop = _Loop(session, step, writer, hooks, options.save_interval_secs, options.most_skips)
            return loop.run(done, number_of_steps, interrupts)


@contextlib.contextmanager
def _lost_servers_explained(
    master: str, writer: checkpoints.CheckpointWriter | checkpoints.NoCheckpoints
) -> Iterator[None]:
    """Turns what TensorFlow raises when a server stops, or starts anew, into a `MachineError`."""
    try:
        yield
    except (tf.errors.UnavailableError, tf.errors.AbortedError, tf.errors.FailedPreconditionError) as error:
        if not master:
            raise
        last = f' The last checkpoint is {writer.last_path}.' if writer.last_path else ''
        raise MachineError(
            f'--master={master}: a server of the cluster has gone, or has lost its variables '
            f'({reason_of(error)}).{last} Start it again, then task 0 by the same command, then the other tasks'
        ) from error


class _Loop:
    """The loop of `train`, in an open session with everything initialised."""

    def __init__(
        self,
        session: tf.compat.v1.Session,
        step: training_step.TrainStep,
        writer: checkpoints.CheckpointWriter | checkpoints.NoCheckpoints,
        hooks: Sequence[Hook],
        save_interval_secs: float | None,
        most_skips: int = 0,
    ):
        self._session = session
        self._most_skips = most_skips
        self._skipped = self._skipped_in_a_row = 0
        self._variable_names = step.variable_names
        self._writer = writer
        self._hooks = hooks
        self._save_interval_secs = math.inf if save_interval_secs is None else save_interval_secs
        self._micro_batches = step.micro_batches
        self._fetches = {
            'is_applied': step.is_applied,
            'loss': step.loss,
            'gradient_norm': step.gradient_norm,
            'learning_rate': step.learning_rate,
        }
        if step.image_names is not None:
            self._fetches['image_names'] = step.image_names
        if step.loss_scale is not None:
            self._fetches['loss_scale'] = step.loss_scale
        if step.waiting_seconds is not None:
            self._fetches['waiting_seconds'] = step.waiting_seconds
        if step.variable_norms is not None:
            self._fetches['variable_norms'] = step.variable_norms
        if step.steps_done is not None:
            self._fetches['steps_done'] = step.steps_done

    def run(self, done: int, number_of_steps: int, interrupts: Interrupts) -> LoopResult:
        started = last_save = time.monotonic()
        loss = None
        try:
            for hook in self._hooks:
                hook.begin(self._session, done)
            self._show_checkpoint(done, interrupts)  # what a run that was stopped here has left undone
            while done < number_of_steps and interrupts.received is None and self._stop_reason() is None:
                result = self._one_step(done)
                done, loss = result.step, result.loss
                if time.monotonic() - last_save >= self._save_interval_secs:
                    self._writer.save(self._session, done)
                    last_save = time.monotonic()
                if self._show_checkpoint(done, interrupts):
                    last_save = time.monotonic()
            path = self._writer.save(self._session, done)
        finally:
            for hook in self._hooks:
                hook.end(done)
        stopped_by = interrupts.received if done < number_of_steps else None
        if stopped_by is not None:
            name = signal.Signals(stopped_by).name
            saved = f', saved {path}' if path else ''
            logging.warning('Stopped by %s at step %d%s. The same command goes on from there.', name, done, saved)
        stop_reason = self._stop_reason() if done < number_of_steps and stopped_by is None else None
        return LoopResult(done, loss, time.monotonic() - started, path, stopped_by, stop_reason)

    def _show_checkpoint(self, done: int, interrupts: Interrupts) -> bool:
        """Writes a checkpoint for the hooks that want one, and shows it to them; returns whether there were any."""
        asking = [hook for hook in self._hooks if hook.needs_checkpoint(done)]
        for hook in asking:
            hook.after_checkpoint(self._writer.save(self._session, done), done, interrupts)
        return bool(asking)

    def _stop_reason(self) -> str | None:
        """Why a hook wants the end; None where none does."""
        return next((reason for hook in self._hooks if (reason := hook.stop_reason()) is not None), None)

    def _one_step(self, done: int) -> StepResult:
        """Runs the step after `done` steps."""
        extra = [hook.fetches(done + 1) for hook in self._hooks]
        start = time.monotonic()
        with self._saved_before(tf.errors.OpError, done):
            feeds = {tensor: value for hook in self._hooks for tensor, value in hook.feeds(done + 1).items()}
        with self._saved_before(sessions.INPUT_ENDED, done):
            values, fetched = self._run_step(extra, feeds)
        seconds = time.monotonic() - start
        if not values['is_applied']:
            self._excuse(done + 1, values)
        else:
            self._skipped_in_a_row = 0
        result = StepResult(
            int(values.get('steps_done', done + 1)),
            float(values['loss']),
            float(values['learning_rate']),
            seconds,
            float(values['gradient_norm']),
            float(values['waiting_seconds']) if 'waiting_seconds' in values else None,
        )
        for hook, tensors in zip(self._hooks, fetched, strict=True):
            hook.after_step(result, tensors)
        return result

    @contextlib.contextmanager
    def _saved_before(self, errors: type[BaseException] | tuple[type[BaseException], ...], done: int) -> Iterator[None]:
        """Saves the `done` steps before one of `errors`, which leave the weights as they are, ends training."""
        try:
            yield
        except errors:
            try:
                path = self._writer.save(self._session, done)
            except (CheckpointError, tf.errors.OpError) as failure:
                logging.error('%s', failure)
            else:
                logging.info('The input failed behind step %d. Saved %s.', done, path)
            raise

    def _run_step(
        self, extra: list[dict[str, tf.Tensor]], feeds: dict[tf.Tensor, Any]
    ) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        """Performs a step; gives what is fetched of it and what `extra` asks for. `feeds` are for its only run.

        Of several micro-batches the last one performs it, and gives all but the image names and the waiting, which are
        those of all together.
        """
        batches = self._micro_batches
        if batches is None:
            values, fetched = self._session.run([self._fetches, extra], feeds or None)
            return values, fetched
        wanted = {key: self._fetches[key] for key in ('image_names', 'waiting_seconds') if key in self._fetches}
        parts = []
        for number, operation in enumerate(batches.runs):
            parts.append(self._session.run([operation, wanted], {batches.number: number})[1])
        values, fetched = self._session.run([self._fetches, extra], {batches.number: len(parts)})
        parts.append(values)
        if 'image_names' in wanted:
            values['image_names'] = [name for part in parts for name in part['image_names']]
        if 'waiting_seconds' in wanted:
            values['waiting_seconds'] = sum(part['waiting_seconds'] for part in parts)
        return values, fetched

    def _excuse(self, step: int, values: dict[str, Any]) -> None:
        """Says why the batch of `step` was left out; raises `NonFiniteError` where it may not be."""
        scale = values.get('loss_scale', 1.0)
        if scale > 1.0 and math.isfinite(values['loss']):  # LossScale.has_overflowed
            logging.info('Step %d left out: float16 overflowed at loss scale %g, which is halved.', step, scale)
            return
        self._skipped += 1
        self._skipped_in_a_row += 1
        if self._skipped_in_a_row > self._most_skips:
            raise NonFiniteError(self._describe(step, values))
        logging.warning(
            '%s Its batch is left out (--on_nan=skip): %d so far, %d in a row.',
            self._facts(step, values),
            self._skipped,
            self._skipped_in_a_row,
        )

    def _facts(self, step: int, values: dict[str, Any]) -> str:
        """What is known of a step whose update was not applied."""
        shown = [names.shown(name) for name in values.get('image_names', ())]
        images = checkpoints.shortened(shown, 16) or 'given'
        layers = _norms_by_layer(self._variable_names, values.get('variable_norms', ()))
        return (
            f'Step {step}: the loss is {values["loss"]} and the norm of the gradients {values["gradient_norm"]}, at '
            f'learning rate {values["learning_rate"]:.6g}, on the images {images}. The update was not applied.{layers}'
        )

    def _describe(self, step: int, values: dict[str, Any]) -> str:
        row = f' It is number {self._skipped_in_a_row} in a row.' if self._most_skips else ''
        shorter = ', set --precision=bfloat16' if 'loss_scale' in values else ''
        # Where steps may be left out, it may have been written after some of them.
        good = '' if self._most_skips or 'loss_scale' in values else 'good '
        return (
            f'{self._facts(step, values)}{row} Lower the learning rate (--base_learning_rate, --adam_learning_rate)'
            f'{shorter}, or look at these images and their labels. The last {good}checkpoint stays: '
            f'{self._writer.last_path}'
        )


def _norms_by_layer(variables: Sequence[str], norms: Sequence[float]) -> str:
    """Which layers have gradients that are not finite, and the largest of the others; empty where nothing is known.

    Args:
      variables: their names, in the network's order.
      norms: of their gradients.
    """
    squares: dict[str, float] = {}
    for name, norm in zip(variables, norms, strict=False):
        layer = name.rpartition('/')[0] or name
        squares[layer] = squares.get(layer, 0.0) + float(norm) ** 2
    bad = [layer for layer, square in squares.items() if not math.isfinite(square)]
    good = sorted((square, layer) for layer, square in squares.items() if math.isfinite(square))
    largest = ', '.join(f'{layer} {math.sqrt(square):.3g}' for square, layer in good[:-4:-1])
    parts = []
    if bad:  # what lies nearest to the loss comes last, and is where it began
        parts.append(f'not finite in {len(bad)} of {len(squares)}, nearest to the loss {", ".join(bad[:-4:-1])}')
    if largest:
        parts.append(f'largest {"of the others " if bad else ""}{largest}')
    return f' Gradients by layer: {"; ".join(parts)}.' if parts else ''


@contextlib.contextmanager
def _input_running(session: tf.compat.v1.Session) -> Iterator[None]:
    """Runs the graph's queue runners; raises what went wrong in them instead of the empty queue that follows."""
    coordinator = tf.compat.v1.train.Coordinator()
    runners = session.graph.get_collection(tf.compat.v1.GraphKeys.QUEUE_RUNNERS)
    threads = [thread for runner in runners for thread in runner.create_threads(session, coordinator, True, True)]
    try:
        yield
    except sessions.INPUT_ENDED as empty:
        coordinator.request_stop()
        coordinator.join(threads, stop_grace_period_secs=10)  # raises what ended the input
        raise empty
    finally:
        coordinator.request_stop()
        with contextlib.suppress(Exception):  # whatever ends while it is stopped has nothing more to say
            coordinator.join(threads, stop_grace_period_secs=10)
