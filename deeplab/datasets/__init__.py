"""Data sets: their descriptors, their records and the builders of the records."""
