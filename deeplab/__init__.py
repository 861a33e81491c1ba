"""DeepLab: semantic segmentation with atrous convolution, on TensorFlow 2.

Importing this package does not load TensorFlow; using `Predictor` or most submodules does. A submodule, such as
`deeplab.train`, is imported when it is first used.
"""

__version__ = '0.1.0'

# `python -m deeplab.predict` and `import deeplab.predict` find the modules of deeplab/programs/, too.
__path__.append(f'{__path__[0]}/programs')

# The public classes, by the modules that define them, which are imported when a class is first used.
_PUBLIC = {'Predictor': 'deeplab.inference.predictor', 'Prediction': 'deeplab.inference.prediction'}


def __getattr__(name: str) -> object:
    """Returns a public class, or imports a submodule."""
    import importlib.util

    if name not in _PUBLIC:
        if name.startswith('_') or importlib.util.find_spec(f'deeplab.{name}') is None:
            raise AttributeError(f"module 'deeplab' has no attribute '{name}'")
        return importlib.import_module(f'deeplab.{name}')

    from deeplab.system import standard_error

    with standard_error.without_import_chatter():
        return getattr(importlib.import_module(_PUBLIC[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_PUBLIC])
