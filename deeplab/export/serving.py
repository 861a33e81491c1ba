"""The request with which TensorFlow Serving warms up a SavedModel, written without the package of its messages.

Source: tensorflow_serving/apis/{prediction_log,predict,model}.proto:
  PredictionLog { PredictLog predict_log = 6; }  PredictLog { PredictRequest request = 1; }
  PredictRequest { ModelSpec model_spec = 1; map<string, TensorProto> inputs = 2; }
  ModelSpec { string name = 1; string signature_name = 3; }
"""

from __future__ import annotations

import os

import numpy as np

from deeplab.core.lazy import tf
from deeplab.datasets import wire

FILE = 'tf_serving_warmup_requests'
_SIGNATURE = 'serving_default'
_MODEL = 'deeplab'  # the server takes its own name


def write_warmup(folder: str, image_name: str, image: np.ndarray) -> None:
    """Writes a request with one image, [1, h, w, channels], to the file that the server looks for in assets.extra.

    Args:
      folder: assets.extra of the SavedModel.
      image_name: name of the input.
      image: the image.
    """
    tensor = tf.make_tensor_proto(image).SerializeToString()
    entry = wire.message(1, image_name.encode()) + wire.message(2, tensor)
    spec = wire.message(1, _MODEL.encode()) + wire.message(3, _SIGNATURE.encode())
    request = wire.message(1, spec) + wire.message(2, entry)
    with tf.io.TFRecordWriter(os.path.join(folder, FILE)) as writer:
        writer.write(wire.message(6, wire.message(1, request)))
