"""The training losses: each module registers one (`deeplab.registry.Loss`) and is found without being listed.

Importing them does not import TensorFlow (`core.lazy`).
"""
