"""Parts of training under the original's names: losses, gradient multipliers, initial checkpoint, learning rate."""

from __future__ import annotations

import collections
import functools
from collections.abc import Callable, Iterable, Mapping, Sequence

import tensorflow as tf
import tf_slim as slim
from absl import logging

from deeplab import common
from deeplab.checks import checkpoint_network
from deeplab.core import (
    checkpoints,
    loss_scaling,
    moving_average,
    quantization,
    run_checkpoints,
    scale_losses,
    schedules,
    scopes,
    weight_decays,
)
from deeplab.deployment.model_deploy import Gradient
from deeplab.errors import CheckpointError, NetworkMismatchError
from deeplab.names import agreeing, counted, listed
from deeplab.options import LearningRateOptions, LossOptions, ModelOptions, OptimizerOptions, crop_sizes
from deeplab.registry import OPTIMIZERS
from deeplab.wording import option

_MOST_LINES = 20  # log lines about variables with other shapes; a network of another width has hundreds


def warn_of_crop_size(crop_size: Sequence[int], output_stride: int, field: str = 'ModelOptions.crop_size') -> None:
    """Warns of a crop with sides other than `output_stride * k + 1`, with the nearest sizes that are.

    Such a crop works, but the corners of the network's feature map are not aligned with the corners of the image.

    Args:
      crop_size: height and width, in pixels.
      output_stride: input pixels for each step of the features.
      field: option that sets the crop size, as 'Class.field'.
    """
    if crop_sizes.are_aligned(crop_size, output_stride):
        return
    below, above = crop_sizes.below(crop_size, output_stride), crop_sizes.above(crop_size, output_stride)
    nearest = f'sizes are {below[0]},{below[1]} and {above[0]},{above[1]}'
    if below == above:  # there is none below
        nearest = f'size is {above[0]},{above[1]}'
    logging.warning(
        '%s is not a multiple of %s plus 1, so features and pixels do not align exactly. The nearest aligned %s.',
        option(field, tuple(crop_size)),
        option('ModelOptions.output_stride', output_stride),
        nearest,
    )


def add_softmax_cross_entropy_loss_for_each_scale(
    scales_to_logits: Mapping[str, tf.Tensor],
    labels: tf.Tensor,
    ignore_label: int,
    options: LossOptions,
    global_step: tf.Tensor | None = None,
    scope: str = common.OUTPUT_TYPE,
) -> dict[str, tf.Tensor]:
    """Returns the values of `scale_losses.losses_of_scales`; kept for users, under the original's name."""
    losses = scale_losses.losses_of_scales(scales_to_logits, labels, ignore_label, options, global_step, scope)
    return {key: loss.value for key, loss in losses.items()}


def get_model_gradient_multipliers(
    last_layers: Sequence[str],
    last_layer_gradient_multiplier: float,
    variables: Iterable[tf.Variable] | None = None,
    bias_multiplier: float = 2.0,
) -> dict[str, float]:
    """Returns the factors of gradients that are not 1, by variable name.

    The factor of biases is `bias_multiplier`, the factor of variables in the last layers
    `last_layer_gradient_multiplier`; biases in the last layers have the product of both.

    Args:
      last_layers: scopes of the last layers; a variable whose name contains one is in them.
      last_layer_gradient_multiplier: factor of the last layers.
      variables: the variables; None for all model variables of the graph.
      bias_multiplier: factor of biases.
    """
    multipliers = {}
    for variable in slim.get_model_variables() if variables is None else variables:
        name = variable.op.name
        factor = bias_multiplier if 'biases' in name else 1.0
        if any(layer in name for layer in last_layers):
            factor *= last_layer_gradient_multiplier
        if factor != 1.0:
            multipliers[name] = factor
    return multipliers


def multiply_gradients(gradients: Sequence[Gradient], multipliers: Mapping[str, float]) -> list[Gradient]:
    """Multiplies each gradient by its variable's factor in `multipliers`."""
    return [
        (gradient * multipliers[variable.op.name], variable)
        if variable.op.name in multipliers
        else (gradient, variable)
        for gradient, variable in gradients
    ]


def trained_variables(trainable_scopes: Sequence[str]) -> list[tf.Variable]:
    """Returns the graph's trainable variables; with `trainable_scopes`, only variables with such a prefix.

    Raises:
      OptionError: a scope matches none of them.
    """
    variables: list[tf.Variable] = tf.compat.v1.trainable_variables()
    if not trainable_scopes:
        return variables
    scopes.require_all_known(trainable_scopes, [v.op.name for v in variables], 'OptimizerOptions.trainable_scopes')
    return [v for v in variables if v.op.name.startswith(tuple(trainable_scopes))]


def decay_in_loss(options: OptimizerOptions) -> list[tf.Tensor]:
    """Returns the terms of weight decay of all trained variables, scalars; none if the optimizer decays weights."""
    if options.decouples_weight_decay:
        return []
    terms: list[tf.Tensor] = tf.compat.v1.get_collection(tf.compat.v1.GraphKeys.REGULARIZATION_LOSSES)
    if not options.trainable_scopes:
        return terms
    # A term is named VARIABLE/Regularizer/..., independent of the scope of its clone.
    return [term for term in terms if term.op.name.startswith(tuple(options.trainable_scopes))]


def variables_to_restore(
    variables: Iterable[tf.Variable],
    initialize_last_layer: bool,
    last_layers: Sequence[str],
    exclude_scopes: Sequence[str] = (),
) -> list[tf.Variable]:
    """Returns the variables that are restored from an initial checkpoint.

    The step is never restored, nor are moving averages of the weights, which start from the weights.

    Args:
      variables: all variables, optimizer slots too.
      initialize_last_layer: whether the last layers are restored too.
      last_layers: scopes of the last layers; a name that begins with one belongs to them.
      exclude_scopes: other scopes to exclude.
    """
    left_out = (*exclude_scopes, *(() if initialize_last_layer else last_layers))
    own = moving_average.without_averages(variables)
    return [v for v in own if v.op.name != checkpoints.GLOBAL_STEP and not v.op.name.startswith(left_out)]


def checkpoint_names(path: str, rename_map: str | None) -> dict[str, str] | None:
    """Returns the checkpoint's names of its variables, by the names that a rename map gives them; None without a map.

    Raises:
      UserError: the map cannot be read, or does not fit the checkpoint.
    """
    if not rename_map:
        return None
    return scopes.rename(checkpoints.entries(path), scopes.read_rename_map(rename_map), path)


def resume(
    session: tf.compat.v1.Session,
    path: str,
    network: ModelOptions,
    averages: moving_average.MovingAverages | None,
) -> None:
    """Restores all variables from a checkpoint of the same training.

    Args:
      session: session to restore into.
      path: path of the checkpoint.
      network: the network that is trained.
      averages: moving averages of its weights; None for none.

    Raises:
      CheckpointError: it does not fit.
    """
    variables = session.graph.get_collection(tf.compat.v1.GraphKeys.GLOBAL_VARIABLES)
    try:
        with checkpoint_network.explained(path, network):
            moving_average.resume(session, path, restorable(variables, path), averages)
    except NetworkMismatchError as error:
        logdir = option('TrainOptions.train_logdir')
        there, here = _optimizer_of(list(checkpoints.entries(path))), _optimizer_of([v.op.name for v in variables])
        optimizer = ''
        if there is not None and there != here:
            optimizer = f' The checkpoint was trained with {option("OptimizerOptions.name", there)}.'
        raise NetworkMismatchError(
            f'{error.summary}.{optimizer} Training resumes from it because it is in {logdir}; for a new training, set '
            f'another {logdir}',
            error.details,
        ) from error
    logging.info('Resuming from %s.', path)


def restorable(variables: Sequence[tf.Variable], path: str) -> list[tf.Variable]:
    """Returns `variables` without the loss scale, and without ranges of 8-bit training, if the checkpoint has none.

    Raises:
      CheckpointError: the checkpoint at `path` cannot be read.
    """
    held = checkpoints.entries(path)
    names = [variable.op.name for variable in variables]
    kept = set(quantization.without_ranges_to_measure(names, held))
    if len(kept) < len(names):
        logging.info('%s contains no ranges of 8-bit training: they are measured from here on.', path)
    kept -= set(loss_scaling.NAMES).difference(held)
    return [variable for variable in variables if variable.op.name in kept]


def _optimizer_of(names: Sequence[str]) -> str | None:
    """Returns the name of the optimizer to which slots among `names` belong; None if that is unclear."""
    slots = {name.rpartition('/')[2].removesuffix('_1').lower() for name in checkpoint_network.slots(names)}
    return next((name for name in OPTIMIZERS.names() if name in slots), None)


def get_model_init_fn(
    train_logdir: str,
    tf_initial_checkpoint: str | None,
    initialize_last_layer: bool,
    last_layers: Sequence[str],
    ignore_missing_vars: bool = False,
    exclude_scopes: Sequence[str] = (),
    rename_map: str | None = None,
    input_channels: int = 3,
    is_resumed: bool = True,
) -> Callable[[tf.compat.v1.Session], None] | None:
    """Returns a function that restores a new run's variables from an initial checkpoint.

    Args:
      train_logdir: the run's folder.
      tf_initial_checkpoint: path of the checkpoint; None for none.
      initialize_last_layer: whether to restore the last layers too.
      last_layers: scopes of the last layers.
      ignore_missing_vars: whether variables that the checkpoint lacks, or has in another shape, keep their initial
        values (and are logged) instead of raising an error.
      exclude_scopes: scopes that keep their initial values.
      rename_map: map from the checkpoint's names to this network's, as for `scopes.read_rename_map`; None if they
        are the same.
      input_channels: channels of the network's images; a first convolution for three is converted to others.
      is_resumed: whether the run continues from a checkpoint in `train_logdir`; False for a run that only measures.

    Returns:
      the function, of a session; None if there is nothing to restore: without a checkpoint, or if `train_logdir`
      already has one, from which training resumes.

    Raises:
      CheckpointError: (also by the function) checkpoint or map cannot be read, or do not match the network.
      OptionError: (by the function) a scope to exclude matches nothing.
    """
    if not tf_initial_checkpoint:
        return None
    if is_resumed and run_checkpoints.of_run(train_logdir, tf_initial_checkpoint):
        logging.info('%s has a checkpoint, so %s is not read again.', train_logdir, tf_initial_checkpoint)
        return None
    path = checkpoints.check_path(tf_initial_checkpoint)
    renamed = checkpoint_names(path, rename_map)

    def restore(session: tf.compat.v1.Session) -> None:
        everything = session.graph.get_collection(tf.compat.v1.GraphKeys.GLOBAL_VARIABLES)
        all_names = [v.op.name for v in everything]
        # A float checkpoint has no ranges of 8-bit training, which are then measured.
        slots = checkpoint_network.slots(all_names) | set(filter(quantization.is_range, all_names))
        networks_own = [v.op.name for v in everything if v.op.name not in slots]
        scopes.require_all_known(exclude_scopes, networks_own, 'RestoreOptions.exclude_scopes')
        variables = variables_to_restore(everything, initialize_last_layer, last_layers, exclude_scopes)
        # The checkpoint no longer has a name that the map has replaced by another.
        names = None if renamed is None else {v.op.name: renamed.get(v.op.name, '') for v in variables}
        own = [v for v in variables if v.op.name not in slots]
        check = functools.partial(_check_restore, path, ignore_missing_vars, bool(rename_map))
        report = checkpoints.restore_matching(session, path, own, names, check, input_channels)
        state = checkpoints.restore_matching(session, path, [v for v in variables if v.op.name in slots], names)
        logging.info('Restored %d variables from %s.', len(report.restored) + len(state.restored), path)
        _log_changed(report, input_channels)

    return restore


def _check_restore(path: str, ignore_missing_vars: bool, is_renamed: bool, report: checkpoints.RestoreReport) -> None:
    """Raises `CheckpointError` if no variable, or not every one that is needed, is about to be restored."""
    if report.restored:
        if not ignore_missing_vars:
            _require_everything(path, report, is_renamed)
        return
    if not report.missing and not report.mismatched:
        raise CheckpointError(
            f"Nothing is left to restore from the initial checkpoint '{path}': "
            f'{option("RestoreOptions.exclude_scopes")} and {option("TrainOptions.initialize_last_layer", False)} '
            f'exclude every variable. Omit {option("TrainOptions.initial_checkpoint")} instead'
        )
    raise CheckpointError(
        f"The initial checkpoint '{path}' has no variable of this network, which has variables such as "
        f'{listed(report.missing or report.mismatched, 3)}. Set {option("ModelOptions.model_variant")} to the '
        f'backbone of the checkpoint, map its names with {option("RestoreOptions.rename_map")}, or omit '
        f'{option("TrainOptions.initial_checkpoint")}'
    )


def _require_everything(path: str, report: checkpoints.RestoreReport, is_renamed: bool) -> None:
    """Raises `CheckpointError`, with the fixes first, if model variables would not be restored."""
    restored, missing, mismatched, _ = report
    if not missing and not mismatched:
        return
    rename_map = option('RestoreOptions.rename_map')
    names = f', renamed by {rename_map},' if is_renamed else ''
    fixes = [f'add entries to {rename_map}'] if is_renamed else []
    fixes += [
        f'add the scopes that keep their initial values to {option("RestoreOptions.exclude_scopes")}',
        f'set {option("RestoreOptions.ignore_missing_vars", True)} to allow all of them to',
    ]
    parts = []
    if missing:
        wanted = [*missing, *(line.split(':')[0] for line in mismatched), *restored]
        parts.append(
            f'It lacks {len(missing)} of {len(wanted)} variables ({_counts_by_scope(missing, wanted)}): '
            f'{listed(missing, 3)}'
        )
    if mismatched:
        differ = f'{counted(len(mismatched), "variable")} {agreeing(len(mismatched), "differ")}'
        parts.append(f'{differ}: {listed(mismatched, 3)}')
    fix = ', or '.join([', '.join(fixes[:-1]), fixes[-1]])
    raise CheckpointError(
        f"The initial checkpoint '{path}'{names} does not have every variable of the network. "
        f'{fix[0].upper()}{fix[1:]}. {". ".join(parts)}'
    )


def _counts_by_scope(names: Sequence[str], of: Sequence[str]) -> str:
    """Counts `names` by outermost scope, as in 'MobilenetV2: 255 of 255, logits: 1 of 2'."""
    counts, totals = (collections.Counter(name.partition('/')[0] for name in group) for group in (names, of))
    return listed([f'{scope}: {count} of {totals[scope]}' for scope, count in counts.items()])


def _log_changed(report: checkpoints.RestoreReport, input_channels: int) -> None:
    missing, mismatched = report.missing, report.mismatched
    for name in report.converted:
        logging.info(
            'The first convolution (%s) has 3 channels in the checkpoint; its weights were distributed over %d, with '
            'the same sum.',
            name,
            input_channels,
        )
    if len(mismatched) > _MOST_LINES:
        logging.warning(
            'Not restored because shapes differ: %d variables (%s). They keep their initial values.',
            len(mismatched),
            listed(mismatched, 3),
        )
    else:
        for line in mismatched:
            logging.warning('Not restored because shapes differ: %s. It keeps its initial value.', line)
    if missing:
        logging.warning(
            'Variables that are not in the checkpoint keep their initial values: %d (%s).',
            len(missing),
            listed(missing),
        )


def get_model_learning_rate(
    learning_policy: str,
    base_learning_rate: float,
    learning_rate_decay_step: int,
    learning_rate_decay_factor: float,
    training_number_of_steps: int,
    learning_power: float,
    slow_start_step: int,
    slow_start_learning_rate: float,
    slow_start_burnin_type: str = 'none',
    decay_steps: float | None = None,
    end_learning_rate: float = 0.0,
    global_step: tf.Tensor | None = None,
) -> tf.Tensor:
    """Returns `schedules.learning_rate`; kept for users, under the original's name and with its arguments.

    Args:
      learning_policy: name of a registered learning policy.
      base_learning_rate: rate at the start.
      learning_rate_decay_step: steps in which the policies step and exponential multiply the rate by a factor.
      learning_rate_decay_factor: that factor.
      training_number_of_steps: length of the training.
      learning_power: exponent of the poly policy.
      slow_start_step: steps of the slow start.
      slow_start_learning_rate: its rate.
      slow_start_burnin_type: 'none' for a constant slow start, 'linear' for one that rises to the base rate.
      decay_steps: steps of poly and cosine; None (or 0) for all after the slow start.
      end_learning_rate: rate at the end of poly and cosine.
      global_step: scalar integer; None for the graph's.

    Raises:
      OptionError: if a value is not allowed.
    """
    options = LearningRateOptions(
        policy=learning_policy,
        base=base_learning_rate,
        settings={
            'decay_steps': decay_steps or 0.0,
            'end': end_learning_rate,
            'power': learning_power,
            'decay_factor': learning_rate_decay_factor,
            'decay_step': learning_rate_decay_step,
        },
        slow_start_steps=slow_start_step,
        slow_start_rate=slow_start_learning_rate,
        slow_start_burnin_type=slow_start_burnin_type,
    )
    if global_step is None:
        global_step = tf.compat.v1.train.get_or_create_global_step()
    return schedules.learning_rate(global_step, options, training_number_of_steps)


def make_optimizer(
    options: OptimizerOptions, learning_rate: tf.Tensor, decays: Mapping[str, float] | None = None
) -> tf.compat.v1.train.Optimizer:
    """Creates the optimizer, with slots `VAR/SLOT` such as `VAR/Momentum`, `VAR/Adam` and `VAR/Adam_1`.

    Args:
      options: name and parameters.
      learning_rate: scalar float32.
      decays: factor of the weight decay of each variable that decays, by name; None for the factors that the graph's
        layers have registered.
    """
    record = OPTIMIZERS.get(options.name)
    parameters = options.settings_of(record)
    parameters.pop(record.learning_rate_parameter, None)
    return record.function(learning_rate, weight_decays.factors() if decays is None else decays, **parameters)
