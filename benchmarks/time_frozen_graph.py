"""Time of one image in a frozen graph; runs under TensorFlow 1.15 and 2, and needs nothing else.

    python time_frozen_graph.py --graph=frozen_graph.pb --size=513,513 [--runs=20] [--warm_up=5]

It sets TF_ENABLE_ONEDNN_OPTS=1, as the programs do; TensorFlow 1.15 does not know it.

Prints a line of JSON: the medians of the time and of the processor time of all threads, and every single time.
"""

import argparse
import json
import os
import statistics
import time

import numpy as np

os.environ.setdefault('TF_ENABLE_ONEDNN_OPTS', '1')  # before TensorFlow is imported, which reads it

import tensorflow as tf

IMAGE, LABELS = 'ImageTensor:0', 'SemanticPredictions:0'


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--graph', required=True)
    parser.add_argument('--size', required=True)
    parser.add_argument('--runs', type=int, default=20)
    parser.add_argument('--warm_up', type=int, default=5)
    arguments = parser.parse_args()
    with open(arguments.graph, 'rb') as file:
        graph_def = tf.compat.v1.GraphDef.FromString(file.read())
    with tf.Graph().as_default() as graph:
        tf.import_graph_def(graph_def, name='')
    height, width = (int(side) for side in arguments.size.split(','))
    image = np.random.RandomState(0).randint(0, 256, (1, height, width, 3)).astype(np.uint8)
    seconds, cpu_seconds = [], []
    with tf.compat.v1.Session(graph=graph) as session:
        for _ in range(arguments.warm_up + arguments.runs):
            started, cpu_started = time.perf_counter(), time.process_time()
            session.run(LABELS, {IMAGE: image})
            seconds.append(time.perf_counter() - started)
            cpu_seconds.append(time.process_time() - cpu_started)
    seconds, cpu_seconds = seconds[arguments.warm_up :], cpu_seconds[arguments.warm_up :]
    medians = {'seconds': statistics.median(seconds), 'cpu_seconds': statistics.median(cpu_seconds)}
    print(json.dumps({**medians, 'all': seconds, 'tensorflow': tf.__version__}))


if __name__ == '__main__':
    main()
