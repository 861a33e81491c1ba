"""Annotations of labeling tools: files, shapes and masks.

Each module that reads a format ends in a record `FORMAT`; `formats.py` lists these records and recognizes files by
their content.
"""
