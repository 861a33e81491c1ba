"""DeepLab: semantic segmentation with atrous convolution, on TensorFlow 2.

Importing this package does not load TensorFlow; importing a submodule does.
"""

__version__ = '0.1.0'
