"""The optimizers: modules here register records (`deeplab.registry.Optimizer`) and are found without a list.

Importing them does not import TensorFlow (`core.lazy`); subclasses of its optimizers are in modules with a leading
underscore. Each optimizer keeps its slots as `VARIABLE/NAME` and, if there is a second one, `VARIABLE/NAME_1`.
"""
