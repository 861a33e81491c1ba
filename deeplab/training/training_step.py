"""The training step: one gated update of weights, batch norm statistics, moving averages and the step counter."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import tensorflow as tf

from deeplab import common
from deeplab.core import conditional, loss_scaling, moving_average, moving_updates, schedules, summation
from deeplab.deployment import model_deploy
from deeplab.options import OptimizerOptions, TrainOptions
from deeplab.registry import OPTIMIZERS
from deeplab.training import accumulation
from deeplab.training.workers import StepSums, WorkerSums
from deeplab.utils import train_utils


@dataclasses.dataclass(frozen=True)
class TrainStep:
    """The tensors of one training step; running them performs it.

    Attributes:
      is_applied: scalar bool, whether the update happened.
      loss: scalar float32, total loss before the update.
      gradient_norm: scalar float32, L2 norm of all gradients together.
      learning_rate: scalar float32.
      image_names: [batch] string; None if unavailable.
      waiting_seconds: scalar, how long the step waited for its batch; None if not measured.
      variable_norms: L2 norm of the gradient of each variable, [n] float32; None for none.
      variable_names: names of the variables of these norms.
      global_step: the variable that counts updates, int64.
      terms: terms of the loss without their weights, scalars by TASK/TERM, the mean of the clones; for a network of the
        task `semantic`, only figures about images without labels.
      votes: scalar float32, number of synchronous workers that want to stop after the step; None without them.
      steps_done: scalar int64, the counter after the update; None if no other replica increments it.
      rate_field: 'Class.field' of the option that sets the learning rate.
      loss_scale: scalar float32, the factor of a loss that is differentiated in float16 (`loss_scaling`); None for
        none. Gradients that overflow while it is above 1 and the loss is finite are no error: the step is skipped.
      micro_batches: micro-batches of the step; None if one run of the graph is a whole step. Image names and waiting
        time are from one run.
    """

    is_applied: tf.Tensor
    loss: tf.Tensor
    gradient_norm: tf.Tensor
    learning_rate: tf.Tensor
    global_step: tf.Variable
    image_names: tf.Tensor | None = None
    loss_scale: tf.Tensor | None = None
    waiting_seconds: tf.Tensor | None = None
    variable_norms: tf.Tensor | None = None
    variable_names: tuple[str, ...] = ()
    micro_batches: accumulation.MicroBatches | None = None
    votes: tf.Tensor | None = None
    steps_done: tf.Tensor | None = None
    rate_field: str = 'LearningRateOptions.base'
    terms: Mapping[str, tf.Tensor] = dataclasses.field(default_factory=dict)


class MoreUpdates(NamedTuple):
    """Functions that return the operations of a gated update besides the optimizer's.

    Attributes:
      applied: called inside the gate; operations that update moving averages.
      skipped: called for the other case; operations to run if nothing is applied.
      afterwards: called inside the gate; operations that run after those, before the step counter is incremented.
      before: called inside the gate; operations that run before any update.
    """

    applied: Callable[[], Sequence[tf.Operation]] = tuple
    skipped: Callable[[], Sequence[tf.Operation]] = tuple
    afterwards: Callable[[], Sequence[tf.Operation]] = tuple
    before: Callable[[], Sequence[tf.Operation]] = tuple


NO_MORE = MoreUpdates()


def gated_update(
    loss: tf.Tensor,
    gradients: Sequence[tuple[tf.Tensor, tf.Variable]],
    optimizer: tf.compat.v1.train.Optimizer,
    global_step: tf.Variable,
    more: MoreUpdates = NO_MORE,
    clip_norm: float | None = None,
    norm: tf.Tensor | None = None,
) -> tuple[tf.Tensor, tf.Tensor]:
    """Updates everything, or nothing if the loss or a gradient is not finite.

    Weights, moving averages and the step counter change together. Nothing changes before the last gradient is
    computed, so that every part of the step uses the same weights.

    Args:
      loss: scalar, total loss.
      gradients: pairs of gradient and variable; the gradients are applied as they are, except for clipping.
      optimizer: applies the gradients.
      global_step: the counter of updates.
      more: further updates.
      clip_norm: if the L2 norm of all gradients is larger, they are scaled down to it; None for no clipping.
      norm: L2 norm of all gradients, the first result of `gradient_norms`; None to compute it here.

    Returns:
      is_applied (scalar bool) and the L2 norm of all gradients before they are clipped (scalar float32).

    Source: arXiv:1211.5063, algorithm 1 (clipping).
    """
    norm = gradient_norms(gradients)[0] if norm is None else norm
    is_finite = tf.math.is_finite(loss) & tf.math.is_finite(norm)

    def apply() -> tf.Tensor:
        pairs = gradients
        if clip_norm is not None:
            clipped, _ = tf.clip_by_global_norm([gradient for gradient, _ in gradients], clip_norm, use_norm=norm)
            pairs = [(gradient, variable) for gradient, (_, variable) in zip(clipped, gradients, strict=True)]
        with tf.control_dependencies(list(more.before())):
            updates = [optimizer.apply_gradients(pairs), *more.applied()]
        with tf.control_dependencies(updates):
            updates += more.afterwards()
        with tf.control_dependencies(updates):
            counted = global_step.assign_add(1, read_value=False)
        with tf.control_dependencies([counted]):
            return tf.constant(True)

    def skip() -> tf.Tensor:
        with tf.control_dependencies(list(more.skipped())):
            return tf.constant(False)

    return conditional.choose(is_finite, apply, skip), norm


def gradient_norms(gradients: Sequence[tuple[tf.Tensor, tf.Variable]]) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns the L2 norm of all gradients together, scalar float32, and the norm of each, [n] float32.

    Args:
      gradients: pairs of gradient and variable.
    """
    halves = []
    for gradient in (tf.convert_to_tensor(gradient) for gradient, _ in gradients):
        with gradient.graph.colocate_with(gradient.op):  # a gradient on a GPU stays there
            halves.append(tf.nn.l2_loss(gradient))
    squares = tf.stack(halves)
    return tf.sqrt(2.0 * tf.reduce_sum(squares)), tf.sqrt(2.0 * squares)


def learning_rate(options: OptimizerOptions, number_of_steps: int, global_step: tf.Variable) -> tf.Tensor:
    """Returns the optimizer's learning rate at the step, scalar float32."""
    if options.constant_learning_rate is not None:
        return tf.constant(options.constant_learning_rate, tf.float32)
    return schedules.learning_rate(global_step, options.learning_rate, number_of_steps)


def _multipliers(options: TrainOptions) -> dict[str, float]:
    """Returns the factors of gradients that are not 1, by variable name.

    Biases learn twice as fast in segmentation, as in the original, but not in image classification, as in TF-Slim.
    """
    return train_utils.get_model_gradient_multipliers(
        options.last_layer_scopes,
        options.optimizer.last_layer_gradient_multiplier,
        bias_multiplier=1.0 if options.model.is_per_image else 2.0,
    )


def build_train_step(
    clones: Sequence[model_deploy.Clone],
    options: TrainOptions,
    learning_rate: tf.Tensor,
    global_step: tf.Variable,
    averages: moving_average.MovingAverages | None = None,
    micro_batches: accumulation.MicroBatches | None = None,
    workers: WorkerSums | None = None,
) -> TrainStep:
    """Builds the training step of all clones: one gated update of weights, moving averages and step counter.

    Args:
      clones: the clones; their outputs are `CloneOutputs`.
      options: the training.
      learning_rate: scalar float32.
      global_step: the counter of updates.
      averages: moving averages of the weights, updated in each step; None for none.
      micro_batches: micro-batches of a step, over which everything is averaged; None if there is only one.
      workers: sums over the synchronous workers; None without them.
    """
    scale = loss_scaling.LossScale() if options.precision == 'float16' else None
    factor = scale.factor if scale else None
    sums, terms = _sums(clones, options, factor, micro_batches, workers)
    gradients = train_utils.multiply_gradients(sums.gradients, _multipliers(options))
    norm, variable_norms = gradient_norms(gradients)
    is_applied, _ = gated_update(
        sums.loss,
        gradients,
        train_utils.make_optimizer(options.optimizer, learning_rate),
        global_step,
        MoreUpdates(
            lambda: moving_updates.apply(sums.updates) + (scale.grow() if scale else []),
            functools.partial(_skipped_updates, options.on_nan, sums.loss, global_step, scale),
            averages.update if averages else tuple,
            workers.begin_update if workers else tuple,
        ),
        options.optimizer.clip_gradient_norm,
        norm,
    )
    names = [clone.outputs.batch[common.IMAGE_NAME] for clone in clones if common.IMAGE_NAME in clone.outputs.batch]
    return TrainStep(
        is_applied,
        sums.loss,
        norm,
        learning_rate,
        global_step,
        tf.concat(names, 0) if names else None,
        loss_scale=factor,
        variable_norms=variable_norms,
        variable_names=tuple(variable.op.name for _, variable in gradients),
        micro_batches=micro_batches,
        rate_field=OPTIMIZERS.get(options.optimizer.name).rate_field,
        terms=terms,
        votes=sums.votes,
    )


def _sums(
    clones: Sequence[model_deploy.Clone],
    options: TrainOptions,
    loss_scale: tf.Tensor | None,
    micro_batches: accumulation.MicroBatches | None,
    workers: WorkerSums | None,
) -> tuple[StepSums, dict[str, tf.Tensor]]:
    """Adds loss, gradients, updates and terms of the loss over all clones, micro-batches and workers."""
    losses = [summation.in_order(list(clone.outputs.losses.values())) for clone in clones]
    variables = train_utils.trained_variables(options.optimizer.trainable_scopes)
    adds_decay = workers is None or options.clones.is_chief
    decay = train_utils.decay_in_loss(options.optimizer) if adds_decay else []
    all_clones = len(clones) * options.clones.workers
    loss, gradients = model_deploy.optimize_clones(clones, losses, decay, variables, loss_scale, all_clones)
    updates = moving_updates.registered(clones[0].scope)
    if micro_batches is not None:
        loss, gradients, updates = micro_batches.mean(loss, gradients, updates)
    names = [
        name
        for name in clones[0].outputs.terms
        if not options.model.is_semantic or name.startswith(common.UNLABELED_TERMS)
    ]
    terms = _mean_terms(clones, names, all_clones)
    if workers is None:
        return StepSums(loss, gradients, updates), terms
    return workers.of_step(loss, gradients, updates), workers.of_terms(terms)


def _mean_terms(clones: Sequence[model_deploy.Clone], names: Sequence[str], all_clones: int) -> dict[str, tf.Tensor]:
    return {
        name: summation.in_order([clone.outputs.terms[name] for clone in clones]) / float(all_clones) for name in names
    }


def _skipped_updates(
    on_nan: str, loss: tf.Tensor, global_step: tf.Variable, scale: loss_scaling.LossScale | None
) -> list[tf.Operation]:
    """Returns the operations to run if a step is not applied.

    A skipped step is counted: its batch is not used again, neither in this run nor in one that resumes it. A step that
    ends training is not counted.
    """
    is_counted = tf.constant(on_nan == 'skip')
    if scale is None:
        return [global_step.assign_add(tf.cast(is_counted, tf.int64), read_value=False)]
    is_counted |= scale.has_overflowed(loss)
    return [global_step.assign_add(tf.cast(is_counted, tf.int64), read_value=False), *scale.shrink(loss)]
