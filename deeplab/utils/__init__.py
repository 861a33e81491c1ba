"""Modules that users of the original import by these names."""
