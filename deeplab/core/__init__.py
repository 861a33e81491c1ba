"""Building blocks of networks and training: layers, backbones, heads, losses, metrics, checkpoints."""
