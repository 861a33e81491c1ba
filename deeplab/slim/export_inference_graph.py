"""The graph of an image classifier without its weights, with TF-Slim's flags (`deeplab export_inference_graph`)."""

from __future__ import annotations

if __name__ == '__main__':  # first, so that help and usage errors do not wait for TensorFlow
    import os
    import sys

    if not __package__:  # run as a file: replace the folder of this file by the folder of the package
        sys.path[0] = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
    from deeplab import start

    start.run_program('export_inference_graph')

from typing import NamedTuple

import tensorflow as tf
from google.protobuf import text_format

from deeplab import model
from deeplab.core import classifier, layers
from deeplab.files import output_files, writing
from deeplab.options import InferenceGraphOptions
from deeplab.registry import BACKBONES

_INPUT = 'input'


class GraphReport(NamedTuple):
    """What was written, for the user."""

    report: str


def run(options: InferenceGraphOptions) -> GraphReport:
    """Writes a GraphDef whose input is preprocessed images, as TF-Slim's networks take them.

    Raises:
      UserError: The network cannot be built, or the file cannot be written.
    """
    network, scope = options.model, BACKBONES.get(options.model.model_variant).scope
    with tf.Graph().as_default() as graph:
        tf.compat.v1.train.get_or_create_global_step()  # of dropout
        shape = [options.batch_size, *(network.crop_size or ()), network.input_channels]
        images = tf.compat.v1.placeholder(tf.float32, shape, name=_INPUT)
        mode = model.Mode(options.is_training, options.is_training, native_dilation=False)
        with layers.mode_scope(
            batch_norm_decay=network.batch_norm_decay,
            fake_quantization=model.fake_quantization(network, mode),
            **mode._asdict(),
        ):
            features, end_points = BACKBONES.chosen(network).build(images, network)
            logits = classifier.logits(features, end_points, network, network.num_classes)  # [n, 1, 1, classes]
        title = 'predictions' if scope.startswith('resnet') else 'Predictions'
        flat = tf.reshape(logits, [-1, network.num_classes], name=f'{scope}/{title}/Reshape')  # [n, classes]
        probabilities = tf.nn.softmax(flat, name=f'{scope}/{title}/Softmax')
        output = tf.reshape(probabilities, [-1, network.num_classes], name=f'{scope}/{title}/Reshape_1')
        definition = graph.as_graph_def()
    content = text_format.MessageToString(definition).encode() if options.is_text else definition.SerializeToString()
    with output_files.writing_to(options.output_file, 'InferenceGraphOptions.output_file'):
        writing.write(options.output_file, content)
    return GraphReport(
        f'Written to {options.output_file}: the graph without weights, from {_INPUT} {shape} to {output.op.name} '
        f'{output.shape.as_list()}.'
    )
