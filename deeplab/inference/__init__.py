"""Inference: networks of checkpoints and exports, sliding windows, `Predictor`, files in and out."""
