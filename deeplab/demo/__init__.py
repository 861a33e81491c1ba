"""The demonstration: draw street scenes, build records, train, evaluate, visualise, and lay out one sheet."""
