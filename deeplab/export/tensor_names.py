"""Names of operations in exported graphs, on which programs that run them rely; the tensors end in ':0'."""

IMAGE = 'ImageTensor'
PREDICTIONS = 'SemanticPredictions'
PROBABILITIES = 'SemanticProbabilities'
RAW_PREDICTIONS = 'RawSemanticPredictions'
RAW_PROBABILITIES = 'RawSemanticProbabilities'
ARGMAX = 'ArgMax'
METADATA = 'DeepLabMetadata'  # a constant text, see deeplab.inference.export_metadata; no output depends on it
