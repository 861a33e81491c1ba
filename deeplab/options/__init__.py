"""Options: what a program shall do, as frozen dataclasses that check themselves.

The command line turns flags into these; libraries take the smallest part they need. One class is one concern, one
module one theme. `None` means "not set": there are no code words such as 0.0 or 'None'. Nothing here loads TensorFlow.

Every class checks its own fields when it is made and raises `OptionError`, which names the option, the value, what is
allowed and what to do. What needs more than the options to be checked (does the variant exist, is there such a split)
is checked where that knowledge is.
"""

from deeplab.options.builders import BuildAde20kOptions, BuildCityscapesOptions, BuildVocOptions, RemoveColormapOptions
from deeplab.options.data import IMAGE_BITS, IMAGE_FORMATS, LABEL_FORMATS, AugmentOptions, DatasetOptions, ResizeOptions
from deeplab.options.inference import (
    COLORMAP_TYPES,
    EXPORT_FORMATS,
    EvalOptions,
    ExportOptions,
    PredictionOptions,
    VisOptions,
    WaitOptions,
)
from deeplab.options.loss import PIXEL_LOSSES, REGION_LOSSES, LossOptions, LossTerm, parse_loss
from deeplab.options.machines import JOBS, CloneOptions, ServerOptions
from deeplab.options.network import MERGE_METHODS, OUTPUT_STRIDES, AsppOptions, DecoderOptions, ModelOptions, NasOptions
from deeplab.options.optimization import (
    DECOUPLED_OPTIMIZERS,
    LEARNING_POLICIES,
    OPTIMIZERS,
    SLOW_START_BURNIN_TYPES,
    LearningRateOptions,
    OptimizerOptions,
)
from deeplab.options.rules import (
    check_size,
    require,
    require_choice,
    require_not_negative,
    require_positive,
    require_seed,
    require_share,
    shown,
)
from deeplab.options.tools import CheckpointOptions, DemoOptions, NetworksOptions, PresetsOptions
from deeplab.options.training import ON_NAN, PRECISIONS, PreviewOptions, RestoreOptions, TrainOptions, ValidationOptions

__all__ = [
    'AsppOptions',
    'AugmentOptions',
    'BuildAde20kOptions',
    'BuildCityscapesOptions',
    'BuildVocOptions',
    'COLORMAP_TYPES',
    'CheckpointOptions',
    'CloneOptions',
    'DECOUPLED_OPTIMIZERS',
    'DatasetOptions',
    'DecoderOptions',
    'DemoOptions',
    'EXPORT_FORMATS',
    'EvalOptions',
    'ExportOptions',
    'IMAGE_BITS',
    'IMAGE_FORMATS',
    'JOBS',
    'LABEL_FORMATS',
    'LEARNING_POLICIES',
    'LearningRateOptions',
    'LossOptions',
    'LossTerm',
    'MERGE_METHODS',
    'ModelOptions',
    'NasOptions',
    'NetworksOptions',
    'ON_NAN',
    'OPTIMIZERS',
    'OUTPUT_STRIDES',
    'OptimizerOptions',
    'PIXEL_LOSSES',
    'PRECISIONS',
    'PredictionOptions',
    'PresetsOptions',
    'PreviewOptions',
    'REGION_LOSSES',
    'RemoveColormapOptions',
    'ResizeOptions',
    'RestoreOptions',
    'SLOW_START_BURNIN_TYPES',
    'ServerOptions',
    'TrainOptions',
    'ValidationOptions',
    'VisOptions',
    'WaitOptions',
    'check_size',
    'parse_loss',
    'require',
    'require_choice',
    'require_not_negative',
    'require_positive',
    'require_seed',
    'require_share',
    'shown',
]
