"""Where TensorFlow and tf-slim versions and builds disagree: the one place that knows.

Nothing here runs at import; each function asks the installed TensorFlow when it is called.
"""

from __future__ import annotations

import tensorflow as tf


def has_one_dnn() -> bool:
    """Whether TensorFlow's CPU kernels come from oneDNN (TF_ENABLE_ONEDNN_OPTS, the processor, the build)."""
    try:
        from tensorflow.python.util import _pywrap_util_port
    except ImportError:
        return False
    return bool(getattr(_pywrap_util_port, 'IsMklEnabled', lambda: False)())


def has_native_dilated_depthwise() -> bool:
    """Whether the depthwise kernel that will run takes dilations.

    oneDNN's forward kernel does; the plain CPU kernel stops with "Unimplemented", and GPU kernels differ, so with a
    visible GPU the answer is no.
    """
    return has_one_dnn() and not tf.config.list_physical_devices('GPU')
