"""Prediction for image files and arrays: reading any image, sliding windows, the `Predictor`, its output files."""
