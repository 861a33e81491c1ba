"""Annotations of labeling tools: files, shapes and masks.

A module that reads a format ends in its record; `formats.py` lists these records and recognizes files by their content.
"""
