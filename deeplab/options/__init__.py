"""Options of the programs, as frozen dataclasses that validate themselves.

The command line creates them from flags; libraries take the smallest part that they need. Each class covers one
concern, each module one topic. `None` means "not set"; there are no sentinel values such as 0.0 or 'None'. Nothing here
loads TensorFlow.

Every class validates its own fields when it is created and raises `OptionError` with the option, its value and the
allowed values. What cannot be checked from the options alone (whether a backbone or a split exists) is checked where it
is used.
"""

from deeplab.options.benchmark import BenchmarkOptions
from deeplab.options.builders import (
    CAMVID_CLASSES,
    CITYSCAPES_ANNOTATIONS,
    COCO_CLASSES,
    COCO_MASKS,
    COCO_STUFF_CLASSES,
    MAPILLARY_VERSIONS,
    UNLABELED,
    BuildAde20kOptions,
    BuildCamvidOptions,
    BuildCityscapesOptions,
    BuildCocoOptions,
    BuildCocoStuffOptions,
    BuilderOptions,
    BuildFolderOptions,
    BuildMapillaryOptions,
    BuildVocOptions,
    RemoveColormapOptions,
)
from deeplab.options.data import IMAGE_BITS, IMAGE_FORMATS, LABEL_FORMATS, AugmentOptions, DatasetOptions, ResizeOptions
from deeplab.options.doctor import DoctorOptions
from deeplab.options.export import (
    INPUT_TYPES,
    OUTPUTS,
    ConversionOptions,
    ConvertOptions,
    ExportOptions,
    ProofOptions,
    Target,
)
from deeplab.options.inference import (
    AUTO_ENGINE,
    COLORMAP_TYPES,
    DEFAULT_ENGINE,
    SUBMISSIONS,
    VIS_SAVED,
    EngineOptions,
    EvalOptions,
    PredictionOptions,
    VisOptions,
    WaitOptions,
    WindowOptions,
)
from deeplab.options.loss import LossOptions, LossTerm, auto_label_weights_option, parse_loss
from deeplab.options.machines import JOBS, CloneOptions, ServerOptions
from deeplab.options.network import MERGE_METHODS, OUTPUT_STRIDES, AsppOptions, DecoderOptions, ModelOptions, NasOptions
from deeplab.options.optimization import SLOW_START_BURNIN_TYPES, LearningRateOptions, OptimizerOptions
from deeplab.options.panoptic import PANOPTIC_METRICS, CocoFormatOptions
from deeplab.options.prediction import LEGENDS, SAVED, PredictOptions, PredictorOptions
from deeplab.options.reports import ReportedRun, ReportOptions
from deeplab.options.rules import (
    check_size,
    require,
    require_choice,
    require_not_negative,
    require_positive,
    require_seed,
    require_share,
)
from deeplab.options.tools import (
    CheckpointOptions,
    DemoOptions,
    DownloadOptions,
    FetchOptions,
    ListDatasetsOptions,
    NetworksOptions,
    PresetsOptions,
    VerifyCase,
    VerifyOptions,
)
from deeplab.options.training import ON_NAN, PreviewOptions, RestoreOptions, TrainOptions, ValidationOptions
from deeplab.registry import PRECISIONS

__all__ = [
    'AUTO_ENGINE',
    'DEFAULT_ENGINE',
    'AsppOptions',
    'AugmentOptions',
    'BenchmarkOptions',
    'BuildAde20kOptions',
    'BuildCamvidOptions',
    'BuildCityscapesOptions',
    'BuildCocoOptions',
    'BuildCocoStuffOptions',
    'BuildFolderOptions',
    'BuildMapillaryOptions',
    'BuildVocOptions',
    'BuilderOptions',
    'CAMVID_CLASSES',
    'CITYSCAPES_ANNOTATIONS',
    'COCO_CLASSES',
    'COCO_MASKS',
    'COCO_STUFF_CLASSES',
    'MAPILLARY_VERSIONS',
    'COLORMAP_TYPES',
    'SUBMISSIONS',
    'UNLABELED',
    'VIS_SAVED',
    'CheckpointOptions',
    'CloneOptions',
    'CocoFormatOptions',
    'ConversionOptions',
    'ConvertOptions',
    'DatasetOptions',
    'DecoderOptions',
    'DemoOptions',
    'DoctorOptions',
    'DownloadOptions',
    'EngineOptions',
    'EvalOptions',
    'ExportOptions',
    'FetchOptions',
    'IMAGE_BITS',
    'IMAGE_FORMATS',
    'INPUT_TYPES',
    'JOBS',
    'LABEL_FORMATS',
    'LEGENDS',
    'LearningRateOptions',
    'ListDatasetsOptions',
    'LossOptions',
    'LossTerm',
    'MERGE_METHODS',
    'ModelOptions',
    'NasOptions',
    'NetworksOptions',
    'ON_NAN',
    'OUTPUTS',
    'OUTPUT_STRIDES',
    'OptimizerOptions',
    'PANOPTIC_METRICS',
    'PRECISIONS',
    'PredictOptions',
    'PredictionOptions',
    'PredictorOptions',
    'PresetsOptions',
    'PreviewOptions',
    'ProofOptions',
    'RemoveColormapOptions',
    'ReportOptions',
    'ReportedRun',
    'ResizeOptions',
    'RestoreOptions',
    'SAVED',
    'SLOW_START_BURNIN_TYPES',
    'ServerOptions',
    'Target',
    'TrainOptions',
    'ValidationOptions',
    'VerifyCase',
    'VerifyOptions',
    'VisOptions',
    'WaitOptions',
    'WindowOptions',
    'check_size',
    'auto_label_weights_option',
    'parse_loss',
    'require',
    'require_choice',
    'require_not_negative',
    'require_positive',
    'require_seed',
    'require_share',
]
