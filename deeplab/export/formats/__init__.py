"""The export formats: each module registers one (`deeplab.registry.ExportFormat`) and is found without being listed.

Importing them does not import TensorFlow (`core.lazy`), nor packages that a single format needs.
"""
