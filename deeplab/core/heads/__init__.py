"""Heads, the layers between backbone and decoder: each module registers one (`deeplab.registry.Head`).

Modules are found without being listed. Importing them does not import TensorFlow (`core.lazy`).
"""
