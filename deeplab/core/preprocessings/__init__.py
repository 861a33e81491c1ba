"""The preprocessings of classifiers: modules here register records (`registry.Preprocessing`), found without a list.

Importing them does not import TensorFlow (`core.lazy`).
"""
