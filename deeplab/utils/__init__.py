"""What the programs share: input, training, summaries, pictures."""
