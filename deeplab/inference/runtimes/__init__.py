"""The inference engines: each module registers one (`deeplab.registry.Engine`) and is found without being listed.

Importing them imports neither TensorFlow (`core.lazy`) nor the engines' own packages.
"""
