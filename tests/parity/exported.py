"""Runs a frozen graph and a SavedModel on an image with TensorFlow and NumPy only, without this package.

As a program it reads lines from its input, each a JSON object with paths: `image` (.npy), `output` (.npz), and
`frozen_graph`, `saved_model` or both. It answers each with a line.
"""

import json
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


def run(paths):
    """Runs the exports at `paths`, and writes what they give."""
    image = np.load(paths['image'])[np.newaxis]
    results = {}
    if 'frozen_graph' in paths:
        names = ('labels', 'probabilities', 'raw', 'argmax')
        results |= dict(zip(names, run_frozen_graph(paths['frozen_graph'], image), strict=True))
    if 'saved_model' in paths:
        names = ('saved_labels', 'saved_probabilities')
        results |= dict(zip(names, run_saved_model(paths['saved_model'], image), strict=True))
    assert not any(name.partition('.')[0] == 'deeplab' for name in sys.modules)
    np.savez(paths['output'], **results)


def main():
    for line in sys.stdin:
        run(json.loads(line))
        print('done', flush=True)


if __name__ == '__main__':
    main()
