"""The training loop: runs steps and hooks, writes checkpoints, and ends at the last step, a signal or an error.

One training step is one `session.run`, or one for each of its micro-batches: forward pass, backward pass, and an update
that is applied as a whole, or not at all if the loss or a gradient is not finite (`training_step.gated_update`). Log
lines, summaries, validation and profiles are hooks (`Hook`); checkpoints and signals belong to the loop.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import tensorflow as tf
from absl import logging

from deeplab import names
from deeplab.core import checkpoints, sessions
from deeplab.errors import CheckpointError, MachineError, NonFiniteError, reason_of
from deeplab.system.interrupts import Interrupts, deferred
from deeplab.training import training_step
from deeplab.training.workers import Workers
from deeplab.wording import option

POLL_SECS = 1.0
Writer = checkpoints.CheckpointWriter | checkpoints.NoCheckpoints


@dataclasses.dataclass(frozen=True)
class StepResult:
    """Result of one step; `step` includes it, `seconds` is its duration.

    `gradient_norm` is the L2 norm of all gradients together, `waiting_seconds` the time that the step waited for its
    batch; None if not measured. `terms` are the terms of the loss by name (`TrainStep.terms`).
    """

    step: int
    loss: float
    learning_rate: float
    seconds: float
    gradient_norm: float | None = None
    waiting_seconds: float | None = None
    terms: Mapping[str, float] = dataclasses.field(default_factory=dict)


class Hook:
    """Callbacks of the training loop; each method is optional."""

    def begin(self, session: tf.compat.v1.Session, step: int) -> None:
        """Called once before the first step; `step` steps are done."""

    def fetches(self, step: int) -> dict[str, tf.Tensor]:
        """Returns tensors to evaluate with step number `step`; they must be in the graph already."""
        return {}

    def feeds(self, step: int) -> dict[tf.Tensor, Any]:
        """Returns values of placeholders for step number `step`."""
        return {}

    def after_step(self, result: StepResult, fetched: dict[str, Any]) -> None:
        """Called after every step with what `fetches` asked for."""

    def needs_checkpoint(self, step: int) -> bool:
        """Returns whether `after_checkpoint` is to be called with a checkpoint of `step`, the current step."""
        return False

    def after_checkpoint(self, path: str, step: int, interrupts: Interrupts) -> None:
        """Called with the checkpoint that `needs_checkpoint` requested; must stop early if `interrupts.received`."""

    def stop_reason(self) -> str | None:
        """Returns why training should end before its last step; None to continue."""
        return None

    def end(self, step: int) -> None:
        """Called once at the end, also after an error."""


@dataclasses.dataclass(frozen=True)
class TrainResult:
    """How training ended.

    Attributes:
      step: steps done, also by earlier runs.
      loss: total loss of the last step; None if no step was run.
      seconds: time spent in the loop.
      checkpoint: path of the last checkpoint.
      signal: number of the signal that ended it; None for none.
      stop_reason: why a hook ended it before its last step; None if none did.
      report: one sentence for the user; empty until the run has ended.
    """

    step: int
    loss: float | None
    seconds: float
    checkpoint: str | None
    signal: int | None = None
    stop_reason: str | None = None
    report: str = ''

    @property
    def status(self) -> int:
        """Exit status of the process: 0, or 128 plus the signal's number."""
        return 0 if self.signal is None else 128 + self.signal


class LoopOptions(NamedTuple):
    """Options of the loop.

    Attributes:
      save_interval_secs: time between two checkpoints, in seconds; None for only the first and the last.
      cpu_devices: see `sessions.config`.
      server: what runs the steps.
      is_ready: polled every second, after `initialize`, until it returns True: then training begins.
      most_skips: how many batches in a row may be skipped because the loss or a gradient is not finite. If that is not
        0, the training step must count them as steps.
      steps_done: steps before the first one, if they are known; None to read the step counter, so that the session
        prepares the graph twice.
      workers: this process among synchronous workers; None without them.
    """

    save_interval_secs: float | None = 1200
    cpu_devices: int = 1
    server: sessions.Server = sessions.THIS_PROCESS
    is_ready: Callable[[tf.compat.v1.Session], bool] = lambda session: True
    most_skips: int = 0
    steps_done: int | None = None
    workers: Workers | None = None


DEFAULTS = LoopOptions()


def train(
    step: training_step.TrainStep,
    number_of_steps: int,
    writer: Writer,
    initialize: Callable[[tf.compat.v1.Session], None],
    hooks: Sequence[Hook] = (),
    options: LoopOptions = DEFAULTS,
) -> TrainResult:
    """Runs `step` in the current graph until `number_of_steps` are done.

    The graph is finalised first. A checkpoint is written before the first step, every
    `options.save_interval_secs`, at the end, and if the input fails; SIGINT, SIGTERM and SIGHUP end training after the
    current step.

    Args:
      step: the training step.
      number_of_steps: steps in the end, including steps of earlier runs.
      writer: writes the checkpoints.
      initialize: gives every variable its value, in the new session.
      hooks: hooks, called in this order.
      options: when checkpoints are written, what computes, and how often an update may be skipped.

    Returns:
      how training ended.

    Raises:
      NonFiniteError: a loss or gradient is not finite, unless `step.loss_scale` may be the cause or the step may be
        skipped; weights and checkpoints are unchanged.
      MachineError: a server has stopped, or a synchronous worker is lost.
    """
    graph, workers = tf.compat.v1.get_default_graph(), options.workers
    with (
        _lost_servers_explained('' if workers else options.server.address, writer),
        contextlib.nullcontext() if workers is None else workers.saved(writer, _open(graph, options)),
        _open(graph, options) as session,
        contextlib.nullcontext() if workers is None else workers.session_open(session),
        deferred() as interrupts,
    ):
        initialize(session)
        graph.finalize()
        while not options.is_ready(session):
            time.sleep(POLL_SECS)
            if interrupts.received is not None:
                return TrainResult(0, None, 0.0, None, interrupts.received)
        done = int(session.run(step.global_step)) if options.steps_done is None else options.steps_done
        writer.save(session, done)
        with _input_running(session):
            return _Loop(session, step, writer, hooks, options).run(done, number_of_steps, interrupts)


def _open(graph: tf.Graph, options: LoopOptions) -> contextlib.AbstractContextManager[tf.compat.v1.Session]:
    """Opens the session of a training."""
    return sessions.open_session(graph, options.cpu_devices, options.server, keeps_sums=True)


@contextlib.contextmanager
def _lost_servers_explained(master: str, writer: Writer) -> Iterator[None]:
    """Turns what TensorFlow raises when a server stops or restarts into a `MachineError`."""
    try:
        yield
    except (tf.errors.UnavailableError, tf.errors.AbortedError, tf.errors.FailedPreconditionError) as error:
        if not master:
            raise
        last = f' The last checkpoint is {writer.last_path}.' if writer.last_path else ''
        raise MachineError(
            f'{option("CloneOptions.master", master)}: a server of the cluster has stopped or lost its variables '
            f'({reason_of(error)}).{last} Restart it, then task 0 with the same command, then the other tasks'
        ) from error


class _Loop:
    """The loop of `train`, in an open session with everything initialized."""

    def __init__(
        self,
        session: tf.compat.v1.Session,
        step: training_step.TrainStep,
        writer: Writer,
        hooks: Sequence[Hook],
        options: LoopOptions,
    ):
        self._session = session
        self._step = step
        self._writer = writer
        self._hooks = hooks
        self._most_skips = options.most_skips
        self._workers = options.workers
        self._skipped = self._skipped_in_a_row = 0
        self._save_interval_secs = math.inf if options.save_interval_secs is None else options.save_interval_secs
        self._fetches: dict[str, Any] = {
            name: value for name, value in vars(step).items() if isinstance(value, tf.Tensor)
        }
        self._fetches |= {'terms': dict(step.terms)} if step.terms else {}

    def run(self, done: int, number_of_steps: int, interrupts: Interrupts) -> TrainResult:
        started = last_save = time.monotonic()
        loss = None
        try:
            for hook in self._hooks:
                hook.begin(self._session, done)
            self._show_checkpoint(done, interrupts)  # a run that was stopped at this step may not have done it
            while done < number_of_steps and not self._is_stopped(interrupts) and self._stop_reason() is None:
                result = self._one_step(done, interrupts)
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
        is_complete = done >= number_of_steps and not any(hook.needs_checkpoint(done) for hook in self._hooks)
        stopped_by = None if is_complete else interrupts.received
        if stopped_by is not None:
            name = signal.Signals(stopped_by).name
            saved = f', saved {path}' if path else ''
            logging.warning('Stopped by %s at step %d%s. The same command resumes from there.', name, done, saved)
        stop_reason = self._stop_reason() if done < number_of_steps and stopped_by is None else None
        return TrainResult(done, loss, time.monotonic() - started, path, stopped_by, stop_reason)

    def _show_checkpoint(self, done: int, interrupts: Interrupts) -> bool:
        """Writes a checkpoint for the hooks that need one and passes it to them; returns whether there were any."""
        asking = [hook for hook in self._hooks if hook.needs_checkpoint(done)]
        for hook in asking:
            path = self._writer.save_for_hooks(self._session, done)
            hook.after_checkpoint(path, done, interrupts)
        return bool(asking)

    def _stop_reason(self) -> str | None:
        return next((reason for hook in self._hooks if (reason := hook.stop_reason()) is not None), None)

    def _is_stopped(self, interrupts: Interrupts) -> bool:
        """Returns whether a signal ends training; of synchronous workers, after the step in which all learn of it."""
        return interrupts.received is not None if self._workers is None else self._workers.must_stop

    def _one_step(self, done: int, interrupts: Interrupts) -> StepResult:
        extra = [hook.fetches(done + 1) for hook in self._hooks]
        start = time.monotonic()
        with self._saved_before(lambda error: isinstance(error, tf.errors.OpError), done):
            feeds = {tensor: value for hook in self._hooks for tensor, value in hook.feeds(done + 1).items()}
            feeds |= {} if self._workers is None else self._workers.feeds(done + 1, interrupts)
        with self._saved_before(sessions.is_of_input, done):
            values, fetched = self._run_step(extra, feeds)
        seconds = time.monotonic() - start
        if self._workers is not None:
            self._workers.count_votes(values['votes'], interrupts)
        if values['is_applied']:
            self._skipped_in_a_row = 0
        else:
            self._handle_skip(done + 1, values)
        result = StepResult(
            int(values.get('steps_done', done + 1)),
            float(values['loss']),
            float(values['learning_rate']),
            seconds,
            float(values['gradient_norm']),
            float(values['waiting_seconds']) if 'waiting_seconds' in values else None,
            {name: float(value) for name, value in values.get('terms', {}).items()},
        )
        for hook, tensors in zip(self._hooks, fetched, strict=True):
            hook.after_step(result, tensors)
        return result

    @contextlib.contextmanager
    def _saved_before(self, leaves_weights: Callable[[BaseException], bool], done: int) -> Iterator[None]:
        """Saves a checkpoint if an error that leaves the weights unchanged ends training after `done` steps."""
        try:
            yield
        except Exception as error:
            if not leaves_weights(error):
                raise
            try:
                path = self._writer.save(self._session, done)
            except (CheckpointError, tf.errors.OpError) as failure:
                logging.error('%s', failure)
            else:
                logging.info('The input failed after step %d. Saved %s.', done, path)
            raise

    def _run_step(
        self, extra: list[dict[str, tf.Tensor]], feeds: dict[tf.Tensor, Any]
    ) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        """Runs a step; returns its own values and the values of `extra`.

        `feeds` are for the run that applies the update: of several micro-batches, the last one. The values are from
        that run, but image names, waiting time and terms of the loss from all micro-batches.
        """
        batches = self._step.micro_batches
        if batches is None:
            values, fetched = self._run([self._fetches, extra], feeds or None)
            return values, fetched
        of_all = ('image_names', 'waiting_seconds', 'terms')
        wanted = {key: self._fetches[key] for key in of_all if key in self._fetches}
        parts = []
        for number, operation in enumerate(batches.runs):
            parts.append(self._run([operation, wanted], {batches.number: number})[1])
        values, fetched = self._run([self._fetches, extra], {**feeds, batches.number: len(parts)})
        parts.append(values)
        if 'image_names' in wanted:
            values['image_names'] = [name for part in parts for name in part['image_names']]
        if 'waiting_seconds' in wanted:
            values['waiting_seconds'] = sum(part['waiting_seconds'] for part in parts)
        for name in wanted.get('terms', {}):
            values['terms'][name] = sum(part['terms'][name] for part in parts) / len(parts)
        return values, fetched

    def _run(self, fetches: Any, feeds: dict[tf.Tensor, Any] | None) -> Any:
        if self._workers is None:
            return self._session.run(fetches, feeds)
        with self._workers.explained():
            return self._session.run(fetches, feeds)

    def _handle_skip(self, step: int, values: dict[str, Any]) -> None:
        """Logs why the batch of `step` was skipped; raises `NonFiniteError` if it may not be."""
        scale = values.get('loss_scale', 1.0)
        if scale > 1.0 and math.isfinite(values['loss']):  # LossScale.has_overflowed
            logging.info('Skipped step %d: float16 overflowed at loss scale %g, which is halved.', step, scale)
            return
        self._skipped += 1
        self._skipped_in_a_row += 1
        if self._skipped_in_a_row > self._most_skips:
            raise NonFiniteError(self._describe(step, values))
        logging.warning(
            '%s Its batch is skipped (%s): %d so far, %d in a row.',
            self._facts(step, values),
            option('TrainOptions.on_nan', 'skip'),
            self._skipped,
            self._skipped_in_a_row,
        )

    def _facts(self, step: int, values: dict[str, Any]) -> str:
        shown = [names.shown(name) for name in values.get('image_names', ())]
        images = f'images {names.listed(shown, 16)}' if shown else 'images fed by the caller'
        layers = _norms_by_layer(self._step.variable_names, values.get('variable_norms', ()))
        return (
            f'Step {step}: the loss is {values["loss"]} and the gradient norm {values["gradient_norm"]}, at learning '
            f'rate {values["learning_rate"]:.6g}, for the {images}. The update was not applied.{layers}'
        )

    def _describe(self, step: int, values: dict[str, Any]) -> str:
        row = f' This is skip number {self._skipped_in_a_row} in a row.' if self._most_skips else ''
        shorter = f', set {option("TrainOptions.precision", "bfloat16")}' if 'loss_scale' in values else ''
        # With skipped steps, the checkpoint may have been written after some of them.
        good = '' if self._most_skips or 'loss_scale' in values else 'good '
        path = self._writer.last_path  # None if another process writes the checkpoints
        last = f' The last {good}checkpoint is kept: {path}' if path else ''
        return (
            f'{self._facts(step, values)}{row} Lower the learning rate ({option(self._step.rate_field)}){shorter}, or '
            f'check these images and their labels.{last}'
        )


def _norms_by_layer(variables: Sequence[str], norms: Sequence[float]) -> str:
    """Describes which layers have gradients that are not finite, and the largest of the others; empty if unknown.

    Args:
      variables: names of the variables, in the network's order.
      norms: L2 norms of their gradients.
    """
    squares: dict[str, float] = {}
    for name, norm in zip(variables, norms, strict=False):
        layer = name.rpartition('/')[0] or name
        squares[layer] = squares.get(layer, 0.0) + float(norm) ** 2
    bad = [layer for layer, square in squares.items() if not math.isfinite(square)]
    good = sorted((square, layer) for layer, square in squares.items() if math.isfinite(square))
    largest = ', '.join(f'{layer} {math.sqrt(square):.3g}' for square, layer in good[:-4:-1])
    parts = []
    if bad:  # the layer nearest to the loss comes last, and is where it began
        parts.append(f'not finite in {len(bad)} of {len(squares)}, nearest to the loss {", ".join(bad[:-4:-1])}')
    if largest:
        parts.append(f'largest {"of the others " if bad else ""}{largest}')
    return f' Gradients by layer: {"; ".join(parts)}.' if parts else ''


@contextlib.contextmanager
def _input_running(session: tf.compat.v1.Session) -> Iterator[None]:
    """Runs the graph's queue runners; raises their error instead of the empty queue that follows from it."""
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
        with contextlib.suppress(Exception):  # errors of threads that are being stopped are of no interest
            coordinator.join(threads, stop_grace_period_secs=10)
