"""The curve of a learning rate range test as a picture: the loss over the logarithm of the learning rate."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from PIL import Image, ImageDraw

from deeplab.pictures import drawing

_SIZE = (900, 520)  # width, height
_LEFT, _TOP, _RIGHT, _BOTTOM = 80, 64, 30, 64  # margins
_RAW, _SMOOTH, _STEEPEST, _LOWEST = (170, 178, 190), (20, 90, 180), (200, 60, 20), (110, 110, 110)
_LINES = 5  # of the grid, for losses


class Curve(NamedTuple):
    """A curve; the arrays are [steps]."""

    rates: np.ndarray
    losses: np.ndarray
    smoothed: np.ndarray
    steepest: float | None  # learning rates that are marked
    lowest: float | None
    title: str


def drawn(curve: Curve) -> Image.Image:
    """Draws the curve, in RGB."""
    sheet = Image.new('RGB', _SIZE, drawing.PAPER)
    pencil = ImageDraw.Draw(sheet)
    width, height = _SIZE[0] - _LEFT - _RIGHT, _SIZE[1] - _TOP - _BOTTOM
    first, last = math.log10(curve.rates[0]), math.log10(curve.rates[-1])
    low, high = float(curve.smoothed.min()), float(curve.smoothed.max())
    low, high = low - 0.15 * (high - low or 1), high + 0.15 * (high - low or 1)

    def across(rate: float) -> float:
        return _LEFT + width * (math.log10(rate) - first) / (last - first)

    def down(loss: float) -> float:
        return _TOP + height * (high - min(max(loss, low), high)) / (high - low)

    pencil.text((_LEFT, 14), f'Learning rate range test: {curve.title}', drawing.INK, font=drawing.font(18))
    for number in range(_LINES + 1):
        loss = low + (high - low) * number / _LINES
        pencil.line([(_LEFT, down(loss)), (_LEFT + width, down(loss))], (228, 228, 228))
        pencil.text((_LEFT - 8, down(loss)), f'{loss:.3g}', drawing.FADED, font=drawing.font(13), anchor='rm')
    for power in range(math.ceil(first), math.floor(last) + 1):
        x = across(10.0**power)
        pencil.line([(x, _TOP), (x, _TOP + height)], (228, 228, 228))
        pencil.text((x, _TOP + height + 8), f'{10.0**power:g}', drawing.FADED, font=drawing.font(13), anchor='mt')
    middle = _LEFT + width / 2
    pencil.text((middle, _SIZE[1] - 14), 'learning rate', drawing.INK, font=drawing.font(14), anchor='mb')
    pencil.text((_LEFT, _TOP - 18), 'loss (gray), smoothed (blue)', drawing.INK, font=drawing.font(13))
    for losses, color, thick in ((curve.losses, _RAW, 1), (curve.smoothed, _SMOOTH, 3)):
        points = [(across(rate), down(loss)) for rate, loss in zip(curve.rates, losses, strict=True)]
        pencil.line(points, color, thick, joint='curve')
    for rate, color, text in (
        (curve.steepest, _STEEPEST, 'steepest: {:.2g}'),
        (curve.lowest, _LOWEST, 'lowest: {:.2g}'),
    ):
        if rate is not None:
            pencil.line([(across(rate), _TOP), (across(rate), _TOP + height)], color, 2)
            place = (across(rate) - 5, _TOP + (6 if color == _STEEPEST else 26))
            pencil.text(place, text.format(rate), color, font=drawing.font(14), anchor='rt')
    return sheet
