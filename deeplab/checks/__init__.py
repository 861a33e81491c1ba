"""Checks of data sets: before training, and by the doctor."""
