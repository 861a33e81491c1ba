"""Heads, the layers between a backbone's features and the decoder or the logits; one file each.

A file in this folder ends in `registry.register(...)` and is found without being listed anywhere (see `registry`).
"""
