"""The training losses: modules here register records (`deeplab.registry.Loss`) and are found without a list.

Importing them does not import TensorFlow (`core.lazy`).
"""
