"""The learning rate schedules: modules here register records (`registry.LearningPolicy`) and are found without a list.

Importing them does not import TensorFlow (`core.lazy`). The slow start before them is in `core/schedules.py`.
"""
