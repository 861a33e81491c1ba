"""Backbones, one file a family.

A file here ends in `registry.register(...)`; it is found by being here (see `registry`).
"""
