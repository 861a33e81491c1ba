"""Comparison of a checkpoint's variables with a network's, and the error if they do not match."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from deeplab import common
from deeplab.errors import NetworkMismatchError
from deeplab.names import agreeing, counted, listed
from deeplab.wording import option

RGB_CHANNELS = 3
_CLASSES = 'ModelOptions.outputs_to_num_classes'


class ClassesMismatchError(NetworkMismatchError):
    """A checkpoint has another number of classes than the network; the message gives both."""


class Entry(NamedTuple):
    """Shape and type of a tensor in a checkpoint."""

    shape: tuple[int, ...]
    dtype: tf.DType


class Fit(NamedTuple):
    """Comparison of a checkpoint's variables with a network's, as names.

    Attributes:
      equal: names of variables in both, with the same shape.
      different: names of variables in both, with different shapes.
      missing: names of variables of the network only.
      unused: names of variables of the checkpoint only.
    """

    equal: tuple[str, ...]
    different: tuple[str, ...]
    missing: tuple[str, ...]
    unused: tuple[str, ...]

    @property
    def is_complete(self) -> bool:
        """Whether the checkpoint has all variables of the network."""
        return not self.different and not self.missing


def compare(held: Mapping[str, tuple[int, ...]], wanted: Mapping[str, tuple[int, ...]]) -> Fit:
    """Compares the variables `held` by a checkpoint with the variables of a network, shapes by name each."""
    both = [name for name in wanted if name in held]
    return Fit(
        tuple(name for name in both if held[name] == wanted[name]),
        tuple(name for name in both if held[name] != wanted[name]),
        tuple(name for name in wanted if name not in held),
        tuple(name for name in held if name not in wanted),
    )


def difference(name: str, variable: tf.Variable | tf.Tensor, entry: Entry) -> str | None:
    """Returns how `variable` differs from the tensor `name` of the checkpoint; None if shape and type are equal."""
    shape = tuple(variable.shape.as_list())
    if shape != entry.shape:
        return f'{name}: {list(shape)} here, {list(entry.shape)} in the checkpoint'
    if variable.dtype.base_dtype != entry.dtype:
        return f'{name}: {variable.dtype.base_dtype.name} here, {entry.dtype.name} in the checkpoint'
    return None


def require(
    path: str,
    held: Mapping[str, Entry],
    wanted: Mapping[str, tf.Variable | tf.Tensor],
    num_classes: int | None = None,
) -> None:
    """Raises an error unless a checkpoint has all variables of a network with their shapes and types.

    Args:
      path: path of the checkpoint.
      held: tensors of the checkpoint, by name.
      wanted: variables of the network, or placeholders for them, by their names in the checkpoint.
      num_classes: number of classes of the network, to recognize a checkpoint with another one; None to omit this.

    Raises:
      ClassesMismatchError: the checkpoint has another number of classes.
      NetworkMismatchError: the checkpoint does not fit for any other reason.
    """
    missing = [name for name in wanted if name not in held]
    lines = {name: difference(name, variable, held[name]) for name, variable in wanted.items() if name in held}
    different = {name: line for name, line in lines.items() if line is not None}
    # The last dimension of logits is the number of classes.
    scopes = (f'{common.LOGITS_SCOPE}/{common.OUTPUT_TYPE}', f'{common.DECODER_SCOPE}/')
    of_classes = [
        name for name in different if name.startswith(scopes) and wanted[name].shape.as_list()[-1:] == [num_classes]
    ]
    classes = {held[name].shape[-1] for name in of_classes if held[name].shape}
    summary, details = [], []
    if len(classes) == 1:
        (other,) = classes
        summary.append(
            f"{option(_CLASSES, num_classes)}, but the checkpoint '{path}' has {other} classes. Set "
            f'{option(_CLASSES, other)}, or pass a checkpoint with {num_classes} classes'
        )
        different = {name: line for name, line in different.items() if name not in of_classes}
    if missing or different:
        summary.append(
            f"The checkpoint '{path}' does not match this network. Set the options of its training (model variant, "
            'data set, heads, decoder, optimizer, trainable scopes), or pass another checkpoint'
        )
    if different:
        verb = agreeing(len(different), 'differ')
        details.append(f'{counted(len(different), "variable")} {verb} ({listed(list(different.values()), 4)})')
    if missing:
        details.append(f'it lacks {len(missing)} of {len(wanted)} variables ({listed(missing)})')
    if summary:
        kind = ClassesMismatchError if len(classes) == 1 else NetworkMismatchError
        raise kind('. '.join(summary), f'In detail: {"; ".join(details)}' if details else '')


def can_inflate(shape: Sequence[int], held_shape: Sequence[int], input_channels: int) -> bool:
    """Returns whether weights in a checkpoint are the first convolution for three channels, not for the network's.

    Args:
      shape: shape of the weights in the network, [height, width, channels, filters].
      held_shape: shape of the weights in the checkpoint.
      input_channels: channels of the network's images.
    """
    if input_channels == RGB_CHANNELS or len(shape) != 4 or len(held_shape) != 4:
        return False
    # Only a convolution of the image itself reads as many channels as an image has.
    same_kernel = tuple(shape[:2]) == tuple(held_shape[:2]) and shape[3] == held_shape[3]
    return same_kernel and shape[2] == input_channels and held_shape[2] == RGB_CHANNELS


def inflate(weights: np.ndarray, input_channels: int) -> np.ndarray:
    """Converts the weights of a first convolution for RGB to another number of channels.

    With more than three channels, the first three keep their weights and each further channel gets their mean. With
    fewer, all get the mean. All are then multiplied by 3 / input_channels: the sum over the channels stays equal. An
    image whose channels are all equal therefore gives the same features as before, and a network for gray images
    predicts what the network for colors predicts for them.

    Args:
      weights: [height, width, 3, filters].
      input_channels: 1 or more.

    Returns:
      [height, width, input_channels, filters].
    """
    mean = weights.mean(axis=2, keepdims=True, dtype=np.float64)
    kept = weights if input_channels > RGB_CHANNELS else weights[:, :, :0]
    others = np.repeat(mean, input_channels - kept.shape[2], axis=2)
    spread = np.concatenate([kept, others], axis=2) * (RGB_CHANNELS / input_channels)
    return spread.astype(weights.dtype)
