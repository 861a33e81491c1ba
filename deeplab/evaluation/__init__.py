"""Evaluation: running a network over a split, waiting for checkpoints, figures and how they are reported."""
