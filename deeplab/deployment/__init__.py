"""Placement of the clones of a network on devices and machines."""
