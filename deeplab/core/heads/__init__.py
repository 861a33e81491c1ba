"""Heads: what stands between a backbone's features and the decoder or the logits, one file each.

A file here ends in `registry.register(...)`; it is found by being here (see `registry`).
"""
