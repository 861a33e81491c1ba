"""Exports: the graph that an export holds, and its files."""
