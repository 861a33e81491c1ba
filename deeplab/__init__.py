"""DeepLab: semantic segmentation with atrous convolution, on TensorFlow 2.

Importing this package does not load TensorFlow; importing a submodule does, and so does using `Predictor`.
"""

__version__ = '0.1.0'

# `python -m deeplab.predict` and `import deeplab.predict` find the modules of deeplab/programs/, too.
__path__.append(f'{__path__[0]}/programs')

# The public classes, by the modules that define them, which are imported when a class is first used.
_PUBLIC = {'Predictor': 'deeplab.inference.predictor', 'Prediction': 'deeplab.inference.prediction'}


def __getattr__(name: str) -> object:
    """Returns a public class."""
    if name not in _PUBLIC:
        raise AttributeError(f"module 'deeplab' has no attribute '{name}'")
    import importlib

    from deeplab.system import standard_error

    with standard_error.without_import_chatter():
        return getattr(importlib.import_module(_PUBLIC[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_PUBLIC])
