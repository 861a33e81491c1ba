"""The first import of TensorFlow, without Keras."""

import gc
import importlib.util
import sys

import pytest

from deeplab.cli import first_import


def test_keras_waits_until_it_is_used(monkeypatch):
    for name in ('keras', 'tensorflow'):
        monkeypatch.delitem(sys.modules, name, raising=False)
    finders = list(sys.meta_path)
    with first_import.shortened():
        assert importlib.util.find_spec('keras') is not None  # TensorFlow looks for its folder
        for name in ('keras.src', 'sklearn', 'scipy', 'h5py'):
            with pytest.raises(ImportError):
                sys.meta_path[0].find_spec(name)
        assert importlib.util.find_spec('deeplab') is not None
        assert not gc.isenabled()
    assert gc.isenabled() and sys.meta_path == finders
