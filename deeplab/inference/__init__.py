"""Networks with the weights of a checkpoint, ready to predict: for eval, vis, predict and benchmarks."""
