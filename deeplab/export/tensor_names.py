"""Names of operations in exported graphs; programs that run exports rely on them. The tensors end in ':0'."""

IMAGE = 'ImageTensor'
PREDICTIONS = 'SemanticPredictions'
PROBABILITIES = 'SemanticProbabilities'
RAW_PREDICTIONS = 'RawSemanticPredictions'
RAW_PROBABILITIES = 'RawSemanticProbabilities'
ARGMAX = 'ArgMax'
METADATA = 'DeepLabMetadata'  # a constant text, see deeplab.inference.export_metadata; no output depends on it
