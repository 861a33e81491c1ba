"""What is hardly meant, said before the first step: one line for each finding, with the mend.

Everything here may be right all the same, so nothing is refused. What cannot work is refused elsewhere, before.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from absl import logging

from deeplab import common
from deeplab.core import checkpoints
from deeplab.core.backbones import registry
from deeplab.datasets.descriptor import DatasetDescriptor
from deeplab.datasets.record_check import Verdict
from deeplab.options import LossOptions, TrainOptions

RARE_SHARE = 1e-4
DOMINANT_SHARE = 0.95
IGNORED_SHARE = 0.9
# Fewer images in a clone's batch give statistics that are worse than a checkpoint's own (Flag fine_tune_batch_norm).
SMALLEST_BATCH_FOR_STATISTICS = 12
# The published momentum rate, and the batch that it was for (arXiv:1802.02611, section 4).
PUBLISHED_RATE, PUBLISHED_BATCH = 0.007, 16
RATE_TOLERANCE = 2.0  # times the published rate, scaled to the batch
LARGEST_ADAM_RATE = 0.01
SMALLEST_LARS_RATE = 0.05

ONE_CLASS = (
    'The data set has one class (num_classes: 1): softmax can say nothing else, its loss is always 0, and nothing is '
    'learned. Background is a class: set num_classes to 2 in the description of the data set, with masks of 0 '
    '(background) and 1.'
)

_LOGITS_WEIGHTS = f'{common.LOGITS_SCOPE}/{common.OUTPUT_TYPE}/weights'


def warn(options: TrainOptions, descriptor: DatasetDescriptor, verdict: Verdict) -> None:
    """Warns of what `labels`, `batch_norm` and `learning_rate` find."""
    findings = labels(descriptor, verdict, options.dataset.split, options.loss)
    for line in (*findings, *batch_norm(options), *learning_rate(options)):
        logging.warning('%s', line)


def warn_of_restore(options: TrainOptions, variables: Iterable[str]) -> None:
    """Warns of what `backbone` and `last_layers` find in the initial checkpoint.

    Args:
      options: of the training.
      variables: names of the network's variables.

    Raises:
      CheckpointError: there is no such checkpoint, or it cannot be read.
    """
    if not options.initial_checkpoint or options.restore.rename_map:  # with a map, what is missing is refused
        return
    names, held = list(variables), checkpoints.entries(options.initial_checkpoint)
    found = backbone(options, names, held)
    if options.initialize_last_layer and not options.restore.exclude_scopes:  # else the user knows what comes
        found += last_layers(options, names, held)
    for line in found:
        logging.warning('%s', line)


class _Consequences(NamedTuple):
    """What comes of masks that are not good; `always` of a single class, `unseen` of pixels that are ignored."""

    nothing: str
    always: str
    unseen: str


_OF_TRAINING = _Consequences(
    'there is nothing to learn',
    'the network learns to say {} everywhere',
    'the network learns nothing of what is there',
)
_OF_VALIDATION = _Consequences(
    'there is nothing to measure',
    'a network that says {} everywhere has an mIoU of 1, which no better one can beat',
    'nothing of what is there is measured',
)


def labels(descriptor: DatasetDescriptor, verdict: Verdict, split: str, loss: LossOptions) -> list[str]:
    """What the histogram of the masks says that are trained on.

    Args:
      descriptor: of the data set.
      verdict: on the records, with the number of pixels of each class.
      split: name of the split.
      loss: where it weighs classes, or measures regions, uneven classes are taken care of.

    Returns:
      A line for each finding.
    """
    if descriptor.num_classes == 1:
        return [ONE_CLASS]
    pixels = np.asarray(verdict.class_pixels, np.int64)
    where = f"split '{split}'"
    if not pixels.sum():
        return _nothing(descriptor, where, _OF_TRAINING)
    found = _one_class(descriptor, verdict, where, _OF_TRAINING)
    found = found or _missing(descriptor, pixels, len(verdict.records), where)
    found += _ignored(descriptor, verdict, where, _OF_TRAINING)
    if not _evens_classes_out(loss):
        found += _uneven(descriptor, pixels, where)
    return found


def validation_labels(descriptor: DatasetDescriptor, verdict: Verdict, split: str) -> list[str]:
    """What makes a figure that is measured on these masks worth nothing; classes may be rare or missing there.

    Args:
      descriptor: of the data set.
      verdict: on the records, with the number of pixels of each class.
      split: name of the split.

    Returns:
      A line for each finding.
    """
    if descriptor.num_classes == 1:  # `labels` has said all that there is to say
        return []
    where = f"split '{split}'"
    if not np.any(verdict.class_pixels):
        return _nothing(descriptor, where, _OF_VALIDATION)
    one_class = _one_class(descriptor, verdict, where, _OF_VALIDATION)
    return one_class + _ignored(descriptor, verdict, where, _OF_VALIDATION)


def _evens_classes_out(loss: LossOptions) -> bool:
    """Whether a loss does something about rare classes already."""
    return bool(loss.label_weights) or loss.auto_label_weights or loss.formula != LossOptions().formula


def _nothing(descriptor: DatasetDescriptor, where: str, consequences: _Consequences) -> list[str]:
    """What to say where no pixel counts."""
    return [
        f'Every pixel of {where} has the id {descriptor.ignore_label}, which is ignored: {consequences.nothing}. Mend '
        'the masks, or ignore_label in the description of the data set.'
    ]


def _ignored(descriptor: DatasetDescriptor, verdict: Verdict, where: str, consequences: _Consequences) -> list[str]:
    """What to say where hardly a pixel counts."""
    share = _ignored_share(verdict)
    if share <= IGNORED_SHARE:
        return []
    return [
        f'{share:.1%} of the pixels of {where} have the id {descriptor.ignore_label}, which is ignored: '
        f'{consequences.unseen}. If they are background, give that a class of its own, or set another ignore_label in '
        "the data set's description."
    ]


def _ignored_share(verdict: Verdict) -> float:
    """Share of all pixels of the masks."""
    ignored = int(verdict.ignored_pixels)
    return ignored / max(ignored + int(np.sum(verdict.class_pixels)), 1)


def _one_class(descriptor: DatasetDescriptor, verdict: Verdict, where: str, consequences: _Consequences) -> list[str]:
    """What to say where a single class occurs among several."""
    present = np.flatnonzero(verdict.class_pixels)
    if len(present) != 1:
        return []
    only, ignored = int(present[0]), int(verdict.ignored_pixels)
    always = consequences.always.format(only)
    if only == 0 and ignored and descriptor.ignore_label == 255:
        return [
            f'The masks of {where} hold the ids 0 and 255 alone, and 255 is ignored: the object class is read as '
            f'ignored, and {always}. Write 1 for the object (mask // 255) and build the records again.'
        ]
    text = f"Of {descriptor.num_classes} classes only '{descriptor.class_name(only)}' (id {only}) occurs in {where}"
    if descriptor.ignore_label == 0 and ignored:
        return [
            f'{text}, and id 0 is ignored: {always}. If 0 is background, set ignore_label to 255 in the description of '
            'the data set, so that it is a class.'
        ]
    if ignored:
        always += (
            f'. {_ignored_share(verdict):.1%} of the pixels have the id {descriptor.ignore_label}, which is ignored: '
            'if that is background, write 0 there'
        )
    return [
        f'{text}: {always}. Class ids are 0 to {descriptor.num_classes - 1}; mend the masks and build the records '
        'again.'
    ]


def _missing(descriptor: DatasetDescriptor, pixels: np.ndarray, images: int, where: str) -> list[str]:
    """What to say of classes that never occur; one that is ignored cannot."""
    missing = [int(i) for i in np.flatnonzero(pixels == 0) if i != descriptor.ignore_label]
    if not missing:
        return []
    shown = checkpoints.shortened([f"'{descriptor.class_name(i)}' (id {i})" for i in missing])
    text = f'{len(missing)} of {descriptor.num_classes} classes never occur in the {images} images of {where}: {shown}.'
    if missing == [0]:
        return [f'{text} Do the ids of the masks begin with 1? They must begin with 0; subtract 1 and build again.']
    return [f"{text} The network cannot learn them. Is num_classes right in the data set's description?"]


def _uneven(descriptor: DatasetDescriptor, pixels: np.ndarray, where: str) -> list[str]:
    """What to say of very rare and of all too frequent classes."""
    shares = pixels / pixels.sum()
    found = []
    rare = [int(i) for i in np.flatnonzero((shares > 0) & (shares < RARE_SHARE))]
    if rare:
        shown = checkpoints.shortened([f"'{descriptor.class_name(i)}' ({shares[i]:.4%})" for i in rare])
        found.append(
            f'{len(rare)} classes have less than {RARE_SHARE:.2%} of the labelled pixels of {where}: {shown}. '
            '--label_weights=auto makes rare classes count more.'
        )
    most = int(np.argmax(shares))
    if shares[most] > DOMINANT_SHARE and np.count_nonzero(pixels) > 1:
        found.append(
            f"Class '{descriptor.class_name(most)}' has {shares[most]:.1%} of the labelled pixels of {where}: a "
            'network that says it everywhere is nearly right. --label_weights=auto, or a loss that measures each '
            'class, such as --loss=softmax+dice, makes the others count.'
        )
    return found


def batch_norm(options: TrainOptions) -> list[str]:
    """What to say of batch norms that take their statistics from few images, and lose those of a checkpoint."""
    batch = options.clone_batch_size
    learn = options.fine_tune_batch_norm and not options.optimizer.trainable_scopes  # others keep theirs, or are meant
    if not (options.initial_checkpoint and learn and batch < SMALLEST_BATCH_FOR_STATISTICS):
        return []
    clones, parts = options.clones.num_clones, options.accumulation_steps
    each = f'{batch} images' if clones == 1 else f'{batch} images in each of {clones} clones'
    each += f' at a time (--accumulation_steps={parts})' if parts > 1 else ''
    return [
        f'--fine_tune_batch_norm=true takes statistics from {each}, which is too few to better those of the initial '
        'checkpoint. Set --fine_tune_batch_norm=false, or --train_batch_size='
        f'{SMALLEST_BATCH_FOR_STATISTICS * clones * parts} or more.'
    ]


def learning_rate(options: TrainOptions) -> list[str]:
    """What to say of a learning rate beyond what the batch stands.

    Source: arXiv:1706.02677, section 2.1 (a rate in proportion to the batch).
    """
    optimizer = options.optimizer
    if optimizer.name == 'adam' and optimizer.adam_learning_rate > LARGEST_ADAM_RATE:
        return [
            f'--adam_learning_rate={optimizer.adam_learning_rate:g} is more than Adam usually stands. Should the loss '
            'jump or not fall, try 0.001.'
        ]
    rate, batch = optimizer.learning_rate.base, options.batch_size
    if optimizer.name in ('adamw', 'lamb') and rate > LARGEST_ADAM_RATE:
        return [
            f'--base_learning_rate={rate:g} is more than {optimizer.name} usually stands. Should the loss jump or not '
            'fall, try 0.001.'
        ]
    if optimizer.name == 'lars' and rate < SMALLEST_LARS_RATE:
        return [
            f'--base_learning_rate={rate:g} is little for lars, whose steps move a layer by a thousandth of its norm '
            'times the rate. Should the loss not fall, try 2.'
        ]
    known = PUBLISHED_RATE * batch / PUBLISHED_BATCH
    if optimizer.name != 'momentum' or rate <= RATE_TOLERANCE * known:
        return []
    return [
        f'--base_learning_rate={rate:g} is {rate / known:.2g} times what is known to work with a batch of {batch}: '
        f'{known:.2g}, in proportion to the published {PUBLISHED_RATE:g} for a batch of {PUBLISHED_BATCH}. Should the '
        'loss jump or not fall, try that.'
    ]


def backbone(options: TrainOptions, variables: Sequence[str], held: Collection[str]) -> list[str]:
    """What to say of an initial checkpoint with some of the network's variables, but none of its backbone's.

    Networks share the names of what stands behind their backbones, so some of another network's always fit.

    Args:
      options: of the training.
      variables: names of the network's variables.
      held: names of what the checkpoint holds.
    """
    variant = options.model.model_variant
    scope = registry.get(variant).scope
    ours = {name for name in variables if name.startswith(f'{scope}/')}
    excluded = {name for name in ours if name.startswith(options.restore.exclude_scopes)}
    if ours == excluded or not ours.isdisjoint(held) or set(variables).isdisjoint(held):
        return []
    there = {name.partition('/')[0] for name in held}
    known = [name for name in registry.names() if registry.get(name).scope in there]
    mend = 'Set the --model_variant that the checkpoint was made with (deeplab checkpoint FILE tells)'
    if known:
        has = ' and '.join(sorted({registry.get(name).scope for name in known}))
        mend = f'The checkpoint has {has}, which is --model_variant={" or ".join(known)}. Set that'
    return [
        f'Nothing of the backbone {variant} is in the initial checkpoint, so all of it starts anew. {mend}, or name '
        f'{scope} in --checkpoint_exclude_scopes if this is meant.'
    ]


def last_layers(options: TrainOptions, variables: Sequence[str], held: Mapping[str, checkpoints.Entry]) -> list[str]:
    """What to say of last layers that an initial checkpoint is to fill but cannot.

    A checkpoint of a backbone alone has none, and nothing is said of it.

    Args:
      options: of the training; `initialize_last_layer` is set.
      variables: names of the network's variables.
      held: what the checkpoint holds.
    """
    scopes = tuple(f'{scope}' for scope in common.LAST_LAYER_SCOPES)
    ours = [name for name in variables if name.startswith(scopes)]
    there = {name for name in held if name.startswith(scopes)}
    if not there:
        return []
    found = []
    classes = held[_LOGITS_WEIGHTS].shape[-1] if _LOGITS_WEIGHTS in held else None
    if classes is not None and classes != options.model.num_classes:
        found.append(
            f'The logits are not restored: the initial checkpoint has {classes} classes, the data set '
            f'{options.model.num_classes}. That is right for other classes; say so with --initialize_last_layer=false '
            '(all behind the backbone starts anew), with --last_layers_contain_logits_only beside it the logits alone.'
        )
    missing = [name for name in ours if name not in there]
    if missing:
        found.append(
            f'The initial checkpoint has another head: {len(missing)} of {len(ours)} variables behind the backbone are '
            f'not in it and start anew ({checkpoints.shortened(missing, 3)}). Give the flags that it was trained with '
            '(--atrous_rates, --decoder_output_stride, ...: deeplab checkpoint FILE tells), or '
            '--initialize_last_layer=false.'
        )
    return found
