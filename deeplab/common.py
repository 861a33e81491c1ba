"""Shared names: sample keys, outputs and variable scopes.

Published checkpoints are restored by the scope names, so a change here breaks every existing checkpoint. This module
contains names only and imports nothing.
"""

# Keys of a sample: one decoded record on its way through preprocessing, and later one batch of them.
IMAGE = 'image'  # [h, w, channels] float32, 0 to 255 (not normalized; the network normalizes)
LABEL = 'label'  # [h, w, 1] int32 class ids, or the data set's ignore_label
INSTANCE = 'instance'  # [h, w, 1] int32 instance ids; 0: none (stuff, or a crowd of a class of things)
DEPTH = 'depth'  # [h, w, 1] float32; 0: invalid
CLASS_LABEL = 'class_label'  # [n] int64, class ids of the image
MULTILABEL = 'multilabel'  # [h, w, classes] uint8, 1 in the mask of a class
IMAGE_NAME = 'image_name'  # string, value of image/filename
HEIGHT = 'height'  # int32, rows of the image before padding
WIDTH = 'width'  # int32, columns of the image before padding
ORIGINAL_IMAGE = 'original_image'  # [h, w, channels], as it was decoded (visualization only)
ORIGINAL_LABEL = 'original_label'  # [h, w, 1], the label as it was decoded (visualization only)
ORIGINAL_HEIGHT = 'original_height'  # int32, rows of that image
ORIGINAL_WIDTH = 'original_width'  # int32, columns of that image
RECORD = 'record'  # int64, the record's number in its split (shards in name order)
SEED = 'seed'  # [2] int64, seed of the sample's augmentation (training only)
POINTS_PREFIX = 'points/'  # first part of the keys of points, [n, k, 2] float32 rows and columns
TARGET_PREFIX = 'target/'  # first part of the keys of the targets of tasks
WEAK_IMAGE = f'{TARGET_PREFIX}unlabeled/weak_image'  # of an image without labels: what the teacher sees
UNLABELED_TERMS = 'unlabeled/'  # first part of the names of figures about images without labels
MIX_BOX = f'{TARGET_PREFIX}unlabeled/mix_box'  # [h, w, 1] bool, where an image without labels shows another one
VALID = 'valid'  # bool, false for samples that only fill up the last batch of eval and vis

# Outputs that a network predicts. Each has its own logits layer `logits/OUTPUT`.
OUTPUT_TYPE = 'semantic'
PROBABILITY_SUFFIX = '_prob'
CONFIDENCE_SUFFIX = '_confidence'  # probability of the predicted class alone

# Variable scopes of everything after the backbone (the "last layers").
LOGITS_SCOPE = 'logits'
IMAGE_POOLING_SCOPE = 'image_pooling'
ASPP_SCOPE = 'aspp'
CONCAT_PROJECTION_SCOPE = 'concat_projection'
DECODER_SCOPE = 'decoder'
META_ARCHITECTURE_SCOPE = 'meta_architecture'
LAST_LAYER_SCOPES = (
    LOGITS_SCOPE,
    IMAGE_POOLING_SCOPE,
    ASPP_SCOPE,
    CONCAT_PROJECTION_SCOPE,
    DECODER_SCOPE,
    META_ARCHITECTURE_SCOPE,
)

# Key of the merged logits of all scales; the only key for one scale.
MERGED_LOGITS = 'merged_logits'
