"""Writes a checkpoint of given values, and reads the values of one, without a graph."""

import concurrent.futures
import json
import pathlib

import numpy as np
import tensorflow as tf

from deeplab.core import checkpoints


def write(path, values):
    """Writes PATH.index and PATH.data-00000-of-00001 with arrays by name; returns the path as a string."""
    pathlib.Path(path).parent.mkdir(parents=True, exist_ok=True)
    # A new thread runs TensorFlow eagerly, whatever graph this one is building.
    with concurrent.futures.ThreadPoolExecutor(1) as thread:
        thread.submit(_write, str(path), values).result()
    return str(path)


def values_of(path):
    """Returns the values of a checkpoint's variables, by name."""
    reader = checkpoints.open_reader(str(path))
    return {name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map()}


def write_run(folder, *decays):
    """Writes a run.json with one run for each decay of moving averages, the newest last."""
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    runs = [{'command': [], 'options': {'moving_average_decay': decay}} for decay in decays]
    (folder / 'run.json').write_text(json.dumps({'format': 1, 'runs': runs}))


_networks = {}  # by kind and options


def remember_networks(monkeypatch):
    """Outlines each network that `checkpoint_network` compares a checkpoint with once for all tests of a process."""
    from deeplab.checks import checkpoint_network

    def remembering(name):
        build = getattr(checkpoint_network, name)

        def remembered(options):
            key = (name, repr(options))
            if key not in _networks:
                _networks[key] = build(options)
            return _networks[key]

        monkeypatch.setattr(checkpoint_network, name, remembered)

    remembering('_backbone')
    remembering('network_shapes')


def _write(path, values):
    names = sorted(values)
    tensors = [tf.constant(np.asarray(values[name])) for name in names]
    tf.raw_ops.SaveV2(prefix=path, tensor_names=names, shape_and_slices=[''] * len(names), tensors=tensors)
