"""Measurements of speed, memory and quality: `python -m benchmarks`, and one script for each further question."""
