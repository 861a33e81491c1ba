"""The backbones: each module registers one family (`deeplab.registry.Backbone`).

Modules are found without being listed. Importing them does not import TensorFlow (`core.lazy`).
"""
