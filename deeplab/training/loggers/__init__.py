"""Loggers of trainings, one module each."""
