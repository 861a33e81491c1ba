"""Options of the programs, as frozen dataclasses that validate themselves.

The command line creates them from flags; libraries take the smallest part that they need. Each class covers one
concern, each module one topic. `None` means "not set"; there are no sentinel values such as 0.0 or 'None'. Nothing here
loads TensorFlow.

Every class validates its own fields when it is created and raises `OptionError` with the option, its value and the
allowed values. What cannot be checked from the options alone (whether a backbone or a split exists) is checked where it
is used.
"""

from deeplab.options.annotations import ANNOTATION_FORMATS, AnnotationOptions
from deeplab.options.benchmark import BenchmarkOptions
from deeplab.options.builders import (
    MAPILLARY_VERSIONS,
    BuildAde20kOptions,
    BuildCamvidOptions,
    BuildCityscapesOptions,
    BuildClassificationOptions,
    BuildCocoOptions,
    BuildCocoStuffOptions,
    BuilderOptions,
    BuildFolderOptions,
    BuildMapillaryOptions,
    BuildVocOptions,
    RemoveColormapOptions,
)
from deeplab.options.data import (
    ALL_FOLDS,
    IMAGE_FORMATS,
    AugmentOptions,
    DatasetOptions,
    ResizeOptions,
    split_of_fold,
    split_without_fold,
)
from deeplab.options.doctor import DoctorOptions
from deeplab.options.export import (
    OUTPUTS,
    ConversionOptions,
    ConvertOptions,
    ExportOptions,
    InferenceGraphOptions,
    ProofOptions,
    Target,
)
from deeplab.options.inference import (
    AUTO_ENGINE,
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
from deeplab.options.machines import CloneOptions, LaunchOptions, ServerOptions
from deeplab.options.network import AsppOptions, DecoderOptions, ModelOptions, NasOptions
from deeplab.options.optimization import LearningRateOptions, OptimizerOptions, RateTestOptions
from deeplab.options.parts import MergeOptions, PartOptions
from deeplab.options.prediction import (
    BESIDE,
    GEOJSON,
    GEOTIFF,
    LEGENDS,
    OF_RASTERS,
    OVER,
    SAVED,
    USUAL_SAVED,
    VIDEO,
    PredictOptions,
    PredictorOptions,
)
from deeplab.options.ranking import MEASURES, RankOptions
from deeplab.options.rasters import RasterOptions
from deeplab.options.reports import ReportedRun, ReportOptions
from deeplab.options.tools import (
    CheckpointOptions,
    CocoFormatOptions,
    ConvertDataOptions,
    DemoOptions,
    DownloadOptions,
    FetchOptions,
    ListDatasetsOptions,
    NetworksOptions,
    PresetsOptions,
    VerifyCase,
    VerifyOptions,
)
from deeplab.options.training import (
    AverageOptions,
    CrossValidateOptions,
    LoggerOptions,
    PreviewOptions,
    RestoreOptions,
    TrainOptions,
    ValidationOptions,
)
from deeplab.options.unlabeled import UnlabeledOptions
