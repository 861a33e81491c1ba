"""Backbones, one file per family.

A file in this folder ends in `registry.register(...)` and is found without being listed anywhere (see `registry`).
"""
