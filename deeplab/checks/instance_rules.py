"""Rules about the instances of a split: things without an instance, and masks that seem to have no instance ids."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from deeplab.checks.facts import Facts
from deeplab.checks.findings import Data, Finding
from deeplab.checks.rule import NOTE
from deeplab.names import listed

UNNUMBERED_SHARE = 1 / 3
_FEWEST_IMAGES = 5  # of a class with one instance in each


def check(data: Data) -> Iterator[Finding]:
    """Yields the findings about instances, if the data set names its things."""
    if data.descriptor.things is None:
        return
    things = np.zeros(256, bool)
    things[list(data.descriptor.things)] = True
    things[data.descriptor.ignore_label] = False
    for split, facts in data.splits.items():
        is_unnumbered = things & (facts.unnumbered > 0)
        is_unnumbered &= facts.unnumbered >= UNNUMBERED_SHARE * facts.instance_pixels
        yield from _unnumbered(data, split, facts, is_unnumbered)
        yield from _lone(data, split, facts, things & ~is_unnumbered)


def _unnumbered(data: Data, split: str, facts: Facts, is_unnumbered: np.ndarray) -> Iterator[Finding]:
    """Yields a finding about some classes, [256] bool, with many pixels of no instance."""
    shares = facts.unnumbered / np.maximum(facts.instance_pixels, 1)
    texts = [f'{data.class_text(i)} {shares[i]:.0%}' for i in np.flatnonzero(is_unnumbered).tolist()]
    if texts:
        what = f"Pixels of things in split '{split}' have no instance, as if they were crowds: {listed(texts)}."
        yield data.finding('unnumbered', split, what)


def _lone(data: Data, split: str, facts: Facts, things: np.ndarray) -> Iterator[Finding]:
    """Yields a finding about some classes, [256] bool, that have exactly one instance in each image with instances."""
    images = facts.instance_images
    is_lone = things & (images >= _FEWEST_IMAGES) & (facts.lone_instances == images)
    apart = facts.lone_in_parts
    texts = [
        f'{data.class_text(i)} ({images[i]} images, in {apart[i]} of them in several parts)'
        for i in np.flatnonzero(is_lone).tolist()
    ]
    if texts:
        what = (
            f"Classes of things with exactly one instance in each image of split '{split}': {listed(texts)}. "
            'The masks may have no instance ids.'
        )
        severity = None if apart[is_lone].any() else NOTE
        yield data.finding('lone_instances', split, what, severity=severity)
