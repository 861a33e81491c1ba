"""Finds and reads goldens: values that the original computed.

A folder holds them as `networks/`, `quantized/`, `tables/`, `training/`, `panoptic_deeplab/` and `classifiers/`, or as
pairs lying in it directly; then the keys of the JSON tell what a pair is.
"""

import dataclasses
import json
import pathlib
import zlib
from typing import Any

import numpy as np

_KEYS = {
    'networks': {'flags', 'options', 'variables', 'trainable', 'parameters'},
    'training': {'weight_decay_terms'},
    'quantized': {'fake_quantizations'},
    'panoptic_deeplab': {'label_divisor', 'thing_classes', 'nms_kernel'},
    'classifiers': {'network', 'depth_multiplier', 'normalization', 'trainable'},
}

_COPY = pathlib.Path(__file__).parent.parent / 'goldens'
# How many of each kind the copy beside the tests has: with none, a test would run for no case, and pass.
_NUMBERS = {'networks': 18, 'training': 3, 'quantized': 2, 'panoptic_deeplab': 3, 'classifiers': 5}


def directory(config: Any) -> pathlib.Path:
    """The folder to read, from pytest's configuration."""
    given = config.getoption('--goldens')
    return pathlib.Path(given) if given else _COPY


@dataclasses.dataclass(frozen=True)
class Golden:
    """One pair of a JSON and an npz file."""

    path: pathlib.Path

    @property
    def name(self) -> str:
        return self.path.stem

    @property
    def facts(self) -> dict[str, Any]:
        return json.loads(self.path.read_text())

    @property
    def arrays(self) -> dict[str, np.ndarray]:
        with np.load(self.path.with_suffix('.npz')) as arrays:
            return dict(arrays)


def find(folder: pathlib.Path, kind: str) -> list[Golden]:
    """All goldens of a kind, one of `_KEYS`, by name."""
    if folder == _COPY or (folder / kind).is_dir():
        found = [Golden(path) for path in sorted((folder / kind).glob('*.json'))]
        assert folder != _COPY or len(found) == _NUMBERS[kind], f'{folder / kind} has {len(found)} goldens'
        return found
    every = (Golden(path) for path in sorted(folder.glob('*.json')))
    return [golden for golden in every if isinstance(golden.facts, dict) and golden.facts.keys() >= _KEYS[kind]]


def table(folder: pathlib.Path, name: str) -> Any:
    """The table NAME.json, or None where the folder, which is not the copy beside the tests, has none."""
    for path in (folder / 'tables' / f'{name}.json', folder / f'{name}.json'):
        if path.is_file():
            return json.loads(path.read_text())
    assert folder != _COPY, f'{folder} has no table {name}'
    return None


def weights(name: str, shape: list[int], gain: float) -> np.ndarray:
    """The value that the goldens give to the variable `name`: float32, a function of name and shape."""
    rng = np.random.RandomState(zlib.crc32(name.encode()) & 0xFFFFFFFF)
    last = name.split('/')[-1]
    if last in ('min', 'max'):
        return np.float32(_end_of_range(rng, last, 'weights_quant' in name))
    if last == 'moving_variance':
        value = rng.uniform(0.5, 1.5, shape)
    elif last == 'gamma':
        value = rng.uniform(0.8, 1.2, shape)
    elif last in ('moving_mean', 'beta', 'biases'):
        value = rng.normal(0, 0.1, shape)
    else:
        fan = shape[0] * shape[1] if last == 'depthwise_weights' else np.prod(shape[:-1])
        value = rng.normal(0, 1, shape) * np.sqrt(gain / fan)
    return value.astype(np.float32)


def _end_of_range(rng: np.random.RandomState, end: str, is_of_weights: bool) -> float:
    """The end ('min' or 'max') of a range of fake quantization."""
    low, high = (0.8, 1.2) if is_of_weights else (1.0, 2.0) if end == 'min' else (5.0, 6.0)
    return rng.uniform(low, high) * (-1 if end == 'min' else 1)


def initial_values(variables: list[Any], gain: float) -> dict[Any, np.ndarray]:
    """What to feed while running the variables' initializers, so that they take the goldens' values."""
    return {v.initializer.inputs[1]: weights(v.op.name, v.shape.as_list(), gain) for v in variables}
