"""Instances over an image: variations of the color of their class, and outlines between and around them."""

from __future__ import annotations

import colorsys

import numpy as np

from deeplab.pictures import drawing

# Fractions whose multiples modulo 1 are spread evenly, and differ much for consecutive numbers.
_HUE_STEP, _VALUE_STEP, _SATURATION_STEP = 0.618034, 0.569840, 0.414214
_HUES = 0.14  # range of the hues of a class, of a whole turn
_LEAST_SATURATION, _LEAST_VALUE = 0.45, 0.4  # darker and grayer colors have too few variations
_OUTLINE = (255, 255, 255)


def instance_color(color: np.ndarray, instance_id: int) -> tuple[int, int, int]:
    """Returns the color of an instance, which is the same in each image.

    Args:
      color: [3], 0 to 255, the color of its class.
      instance_id: number of the instance; 0 for the color of the class.
    """
    red, green, blue = (int(value) for value in color)
    if instance_id == 0:
        return red, green, blue
    hue, saturation, value = colorsys.rgb_to_hsv(red / 255, green / 255, blue / 255)
    hue += _HUES * (instance_id * _HUE_STEP % 1 - 0.5)
    saturation = max(saturation, _LEAST_SATURATION) * (1 - 0.5 * (instance_id * _SATURATION_STEP % 1))
    value = _LEAST_VALUE + (1 - _LEAST_VALUE) * (0.3 * value + 0.7 * (instance_id * _VALUE_STEP % 1))
    varied = colorsys.hsv_to_rgb(hue % 1, saturation, value)
    return tuple(round(255 * part) for part in varied)  # type: ignore[return-value]


def drawn(
    image: np.ndarray,
    class_ids: np.ndarray,
    instance_ids: np.ndarray,
    colors: np.ndarray,
    opacity: float = 0.5,
    is_shown: np.ndarray | None = None,
) -> np.ndarray:
    """Draws classes and instances over an image.

    Args:
      image: [h, w, channels], 0 to 255; of fewer than three channels the first is shown in gray.
      class_ids: [h, w] integers from 0 to 255.
      instance_ids: [h, w] integers from 0 to 65535; 0 is no instance. An instance is the pair of both ids.
      colors: [n, 3], a color for each class; pixels of other ids show the image.
      opacity: opacity of the colors, 0 to 1.
      is_shown: [256] bool, the classes that are drawn; None for all.

    Returns:
      [h, w, 3] uint8.
    """
    most = int(instance_ids.max(initial=0)) + 1
    numbers = class_ids.astype(np.int32) * most + instance_ids  # of pairs of ids
    classes, instances = np.divmod(np.arange(256 * most), most)
    is_drawn = np.bincount(numbers.ravel(), minlength=256 * most) > 0
    is_drawn &= classes < len(colors) if is_shown is None else (classes < len(colors)) & is_shown[classes]
    table = np.zeros((256 * most, 3), np.uint8)
    for i in np.flatnonzero(is_drawn):
        table[i] = instance_color(colors[classes[i]], int(instances[i]))
    mixed = drawing.overlay(image, numbers, table, np.where(is_drawn, np.float32(opacity), np.float32(0)))
    is_instance = (is_drawn & (instances > 0))[numbers]
    lines = drawing.widened(drawing.borders(numbers), drawing.line_width(numbers.shape) - 1)
    mixed[lines & is_instance] = _OUTLINE
    return mixed
