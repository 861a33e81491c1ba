"""Registries that a test changes."""

import contextlib


@contextlib.contextmanager
def changes_undone(registry):
    """Removes from a registry, at the end of the `with` block, what was registered within it."""
    registry.records()  # imports the modules of the package, whose records stay
    before = dict(registry._records)
    try:
        yield
    finally:
        registry._records = before
