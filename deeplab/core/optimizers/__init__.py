"""The optimizers: modules here register records (`deeplab.registry.Optimizer`) and are found without a list.

Importing them does not import TensorFlow (`core.lazy`); classes that extend its own are in modules whose names begin
with an underscore. Each optimizer keeps its slots as `VARIABLE/NAME` and, if there is a second one, `VARIABLE/NAME_1`.
"""
