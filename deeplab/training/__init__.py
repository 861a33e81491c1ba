"""Training: input of the split, clones of the network, the gated update, the loop with its hooks, validation."""
