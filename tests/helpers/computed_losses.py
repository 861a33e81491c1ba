"""Registered losses of logits and labels, with ignored pixels and label weights, as training computes them."""

from deeplab.core import channels_first, scale_losses
from deeplab.registry import LOSSES


def softmax(logits, labels, ignore_label, weights=None, smoothing=0.0):
    """`Losses` of the pixels by softmax cross entropy."""
    return _of_pixels('softmax', logits, labels, ignore_label, weights, label_smoothing=smoothing)


def focal(logits, labels, ignore_label, weights=None, smoothing=0.0, gamma=2.0):
    """`Losses` of the pixels by the focal loss."""
    return _of_pixels('focal', logits, labels, ignore_label, weights, label_smoothing=smoothing, focal_gamma=gamma)


def _of_pixels(name, logits, labels, ignore_label, weights, **parameters):
    labeled = channels_first.with_labels(logits, labels, ignore_label)
    return scale_losses.pixel_losses(LOSSES.get(name), labeled, weights, **parameters)


def regions_of(logits, labels, ignore_label):
    """`Regions` of logits and labels of the same size."""
    return scale_losses.regions_of(channels_first.with_labels(logits, labels, ignore_label))


def regions(name, found, **parameters):
    """`Losses` of the classes by the loss `name` of `Regions`."""
    return scale_losses.class_losses(found, LOSSES.get(name).function, **parameters)
