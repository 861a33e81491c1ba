"""Measurements of `deeplab benchmark`, each in a process of its own."""
