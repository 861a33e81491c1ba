"""Registered losses of logits and labels, with ignored pixels and label weights, as training computes them."""

from deeplab.core import pixel_losses, region_losses
from deeplab.registry import LOSSES


def softmax(logits, labels, ignore_label, weights=None, smoothing=0.0):
    """`PixelLosses` of softmax cross entropy."""
    function = LOSSES.get('softmax').function
    return pixel_losses.pixel_losses(function, logits, labels, ignore_label, weights, label_smoothing=smoothing)


def focal(logits, labels, ignore_label, weights=None, smoothing=0.0, gamma=2.0):
    """`PixelLosses` of the focal loss."""
    function, values = LOSSES.get('focal').function, {'label_smoothing': smoothing, 'focal_gamma': gamma}
    return pixel_losses.pixel_losses(function, logits, labels, ignore_label, weights, **values)


def regions(name, found, **parameters):
    """`ClassLosses` of the loss `name` of `Regions`."""
    return region_losses.class_losses(found, LOSSES.get(name).function, **parameters)
