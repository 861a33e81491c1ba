"""Runs a frozen graph and a SavedModel on an image with TensorFlow and NumPy only, without this package.

Called as a program: IMAGE.npy GRAPH.pb SAVED_MODEL OUTPUT.npz
"""

import sys

import numpy as np
import tensorflow as tf


def run_frozen_graph(path, image):
    """Labels and probabilities of the frozen graph at `path`."""
    with tf.Graph().as_default() as graph, open(path, 'rb') as file:
        tf.graph_util.import_graph_def(tf.compat.v1.GraphDef.FromString(file.read()), name='')
    outputs = ('SemanticPredictions:0', 'SemanticProbabilities:0', 'RawSemanticPredictions:0', 'ArgMax:0')
    with tf.compat.v1.Session(graph=graph) as session:
        return session.run(outputs, {'ImageTensor:0': image})


def run_saved_model(path, image):
    """Labels and probabilities of the SavedModel at `path`."""
    network = tf.saved_model.load(path)
    outputs = network.signatures['serving_default'](image=tf.constant(image))
    return outputs['predictions'].numpy(), outputs['probabilities'].numpy()


def main():
    image_path, graph_path, saved_model_path, output_path = sys.argv[1:]
    image = np.load(image_path)[np.newaxis]
    labels, probabilities, raw, argmax = run_frozen_graph(graph_path, image)
    saved_labels, saved_probabilities = run_saved_model(saved_model_path, image)
    assert not any(name.partition('.')[0] == 'deeplab' for name in sys.modules)
    np.savez(
        output_path,
        labels=labels,
        probabilities=probabilities,
        raw=raw,
        argmax=argmax,
        saved_labels=saved_labels,
        saved_probabilities=saved_probabilities,
    )


if __name__ == '__main__':
    main()
