"""The evaluation metrics: each module registers one (`deeplab.registry.Metric`) and is found without being listed.

They need NumPy alone; importing them does not import TensorFlow.
"""

from deeplab.core.metrics.confusion_matrix import ConfusionMatrix, Metrics

__all__ = ['ConfusionMatrix', 'Metrics']
