"""Tasks, what a network can be trained for and predict: each module registers one (`deeplab.registry.Task`).

Modules are found without being listed. Importing them does not import TensorFlow (`core.lazy`).
"""
