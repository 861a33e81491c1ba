"""The initial checkpoint of a training: its check, its restore, and warnings about what it does not have."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

import tensorflow as tf
import tf_slim as slim
from absl import logging

from deeplab import common
from deeplab.checks import checkpoint_network
from deeplab.core import checkpoints, quantization
from deeplab.errors import CheckpointError
from deeplab.names import listed
from deeplab.options import ModelOptions, TrainOptions
from deeplab.registry import BACKBONES, HEADS, TASKS
from deeplab.utils import train_utils
from deeplab.wording import option

_LOGITS_WEIGHTS = f'{common.LOGITS_SCOPE}/{common.OUTPUT_TYPE}/weights'


def check(options: TrainOptions) -> None:
    """Checks the initial checkpoint of a new run, before the records are read.

    Raises:
      UserError: the checkpoint does not exist, or its rename map is invalid.
    """
    if options.initial_checkpoint:
        train_utils.checkpoint_names(checkpoints.check_path(options.initial_checkpoint), options.restore.rename_map)
    elif options.optimizer.trainable_scopes:
        logging.warning(
            '%s without %s: all other variables keep their random initial values.',
            option('OptimizerOptions.trainable_scopes', options.optimizer.trainable_scopes),
            option('TrainOptions.initial_checkpoint'),
        )


def init_fn(options: TrainOptions) -> Callable[[tf.compat.v1.Session], None] | None:
    """Returns the function that restores the initial checkpoint into the current graph, and logs warnings about it.

    None if there is nothing to restore.
    """
    restore = train_utils.get_model_init_fn(
        options.train_logdir,
        options.initial_checkpoint,
        options.initialize_last_layer,
        options.last_layer_scopes,
        options.restore.ignores_missing,
        options.restore.exclude_scopes,
        options.restore.rename_map,
        options.model.input_channels,
        is_resumed=not options.rate_test.is_on,
    )
    if restore is not None:
        warn(options, {variable.op.name: tuple(variable.shape.as_list()) for variable in slim.get_model_variables()})
    return restore


def warn(options: TrainOptions, variables: Mapping[str, Sequence[int]]) -> None:
    """Logs the findings of `backbone`, `backbone_shapes` and `last_layers`; `variables` are the network's shapes.

    Raises:
      CheckpointError: the checkpoint does not exist or cannot be read.
    """
    if not options.initial_checkpoint or options.restore.rename_map:  # with a map, missing variables are an error
        return
    held = checkpoints.entries(options.initial_checkpoint)
    names = quantization.without_ranges_to_measure(variables, held)
    findings = backbone(options, names, held) or backbone_shapes(options, variables, held)
    if options.initialize_last_layer and not options.restore.exclude_scopes:  # else the exclusion is deliberate
        if options.model.is_per_image:
            findings += classifier(options, held)
            if findings and not options.restore.ignores_missing:
                raise CheckpointError(findings[0].rstrip('.'))
        else:
            findings += last_layers(options, names, held)
    for line in findings:
        logging.warning('%s', line)


def backbone(options: TrainOptions, variables: Sequence[str], held: Collection[str]) -> list[str]:
    """Returns findings on an initial checkpoint with some of the network's variables, but none of its backbone.

    Networks share the variable names of head and decoder, so some variables of another network always match.
    """
    variant = options.model.model_variant
    scope = BACKBONES.get(variant).scope
    ours = {name for name in variables if name.startswith(f'{scope}/')}
    excluded = {name for name in ours if name.startswith(options.restore.exclude_scopes)}
    if ours == excluded or not ours.isdisjoint(held) or set(variables).isdisjoint(held):
        return []
    there = {name.partition('/')[0] for name in held}
    variants = [name for name in BACKBONES.names() if BACKBONES.get(name).scope in there]
    variant_name = option('ModelOptions.model_variant')
    fix = f'Set {variant_name} to the backbone of the checkpoint (`deeplab checkpoint FILE` shows it)'
    if variants:
        has = ' and '.join(sorted({BACKBONES.get(name).scope for name in variants}))
        fix = f'The checkpoint has {has}: set {" or ".join(option("ModelOptions.model_variant", v) for v in variants)}'
    return [
        f'The initial checkpoint has no variables of the backbone {variant}, so the whole backbone is trained from '
        f'random values. {fix}. If this is intended, add {scope} to {option("RestoreOptions.exclude_scopes")}.'
    ]


def backbone_shapes(
    options: TrainOptions, variables: Mapping[str, Sequence[int]], held: Mapping[str, checkpoints.Entry]
) -> list[str]:
    """Returns findings on an initial checkpoint with a backbone of other widths."""
    scope = BACKBONES.get(options.model.model_variant).scope
    excluded = options.restore.exclude_scopes
    ours = [name for name in variables if name.startswith(f'{scope}/') and not name.startswith(excluded)]
    different = [name for name in ours if name in held and held[name].shape != tuple(variables[name])]
    if 2 * len(different) <= len(ours):
        return []
    network = checkpoint_network.find_backbone({name: entry.shape for name, entry in held.items()})
    fix = f'Set the options of the checkpoint (`deeplab checkpoint {options.initial_checkpoint}` shows them)'
    if network is not None:
        fix = f'The checkpoint has the backbone {" ".join(checkpoint_network.settings_of(network.options))}'
    return [
        f'{len(different)} of {len(ours)} variables of the backbone have other shapes in the initial checkpoint, and '
        f'are trained from random values. {fix}. If this is intended, add {scope} to '
        f'{option("RestoreOptions.exclude_scopes")}.'
    ]


def classifier(options: TrainOptions, held: Mapping[str, checkpoints.Entry]) -> list[str]:
    """Returns findings on the last layer of a classifier that the initial checkpoint should restore but cannot."""
    cause = checkpoint_network.classifier_mismatch(options.model, {name: entry.shape for name, entry in held.items()})
    if not cause:
        return []
    exclude = option('RestoreOptions.exclude_scopes', ','.join(options.last_layer_scopes))
    return [
        f'The last layer is not restored: the initial checkpoint {cause}. Set {exclude} to train it from random '
        f'values, or {option("ModelOptions.labels_offset")} if only the first class is left out.'
    ]


def last_layers(options: TrainOptions, variables: Sequence[str], held: Mapping[str, checkpoints.Entry]) -> list[str]:
    """Returns findings on last layers that the initial checkpoint should restore but cannot.

    A checkpoint of a backbone alone has no last layers and gives no findings.
    """
    scopes = HEADS.last_layer_scopes()
    ours = [name for name in variables if name.startswith(scopes)]
    there = {name for name in held if name.startswith(scopes)}
    if not there:
        return []
    findings = []
    classes = held[_LOGITS_WEIGHTS].shape[-1] if _LOGITS_WEIGHTS in held else None
    if classes is not None and classes != options.model.num_classes:
        findings.append(
            f'The logits are not restored: the initial checkpoint has {classes} classes, the data set '
            f'{options.model.num_classes}. If the classes are different ones, set '
            f'{option("TrainOptions.initialize_last_layer", False)} to restore the backbone alone; add '
            f'{option("OptimizerOptions.last_layers_contain_logits_only", True)} to leave out only the logits.'
        )
    missing = [name for name in ours if name not in there]
    if missing and _is_of_another_task(options.model, there):
        findings.append(
            f'The initial checkpoint was trained for another task than '
            f'{option("ModelOptions.task", options.model.task)}: {len(missing)} of {len(ours)} variables after the '
            f'backbone keep their initial values ({listed(missing, 3)}). If that is not intended, set '
            f'{option("ModelOptions.task")} as the checkpoint was trained (`deeplab checkpoint FILE` shows it).'
        )
    elif missing:
        findings.append(
            f'The initial checkpoint has a different head or decoder: it lacks {len(missing)} of {len(ours)} variables '
            f'after the backbone, which keep their initial values ({listed(missing, 3)}). Set '
            f'{option("AsppOptions.rates")}, {option("DecoderOptions.output_strides")} and so on as the checkpoint was '
            f'trained (`deeplab checkpoint FILE` shows it), or {option("TrainOptions.initialize_last_layer", False)}.'
        )
    return findings


def _is_of_another_task(options: ModelOptions, held: Collection[str]) -> bool:
    """Returns whether last layers of a checkpoint, named `held`, belong to other outputs than the network has."""
    outputs = TASKS.outputs(options)
    branches = {output.branch.scope for output in outputs if output.branch is not None}
    theirs = {scope for scope in TASKS.branch_scopes() if any(name.startswith(f'{scope}/') for name in held)}
    has_logits = any(name.startswith(f'{common.LOGITS_SCOPE}/') for name in held)
    lacks_output = any(f'{common.LOGITS_SCOPE}/{output.name}/weights' not in held for output in outputs)
    return branches != theirs or (has_logits and lacks_output)
