"""Export: the graph, the formats, the files, and the comparison with the checkpoint."""
