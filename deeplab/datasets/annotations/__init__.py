"""Annotations of labeling tools: their files, the shapes in them, and the masks that follow.

Each module that reads a format ends in a record `FORMAT`; `formats.py` lists these records and recognizes files by
their content.
"""
