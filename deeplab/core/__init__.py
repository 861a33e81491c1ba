"""What every network and every program shares: layers, backbones, heads, losses, metrics."""
