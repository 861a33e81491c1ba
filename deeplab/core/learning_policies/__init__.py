"""The learning rate schedules: each module registers one (`deeplab.registry.LearningPolicy`), found without a list.

Importing them does not import TensorFlow (`core.lazy`). The slow start before them is in `core/schedules.py`.
"""
