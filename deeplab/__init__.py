"""DeepLab: semantic segmentation with atrous convolution, on today's TensorFlow.

Importing this package loads no TensorFlow; a submodule does when it is imported.
"""

__version__ = '0.1.0'
