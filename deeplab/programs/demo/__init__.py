"""The demonstration: draw street scenes, build records, train, evaluate, visualize, and lay out one sheet."""
