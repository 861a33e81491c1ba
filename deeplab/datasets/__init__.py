"""Data sets: descriptors, TFRecord files, their builders and checks."""
