"""The evaluation metrics: modules here register records (`deeplab.registry.Metric`) and are found without a list.

They need NumPy alone; importing them does not import TensorFlow.
"""

from deeplab.core.metrics._image_counts import class_iou, mean_of_known
from deeplab.core.metrics.confusion_matrix import MEANS, ConfusionMatrix, Metrics
from deeplab.core.metrics.intervals import of_several_images, percentiles, resampled_iou

__all__ = [
    'MEANS',
    'ConfusionMatrix',
    'Metrics',
    'class_iou',
    'mean_of_known',
    'of_several_images',
    'percentiles',
    'resampled_iou',
]
