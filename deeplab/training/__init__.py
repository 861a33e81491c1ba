"""Training: input of the split, clones of the network, the gated step, the loop with its hooks, validation."""
