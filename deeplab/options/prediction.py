"""Options of predictions for single images: `Predictor`, `deeplab predict`."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from deeplab.errors import OptionError
from deeplab.options.annotations import ANNOTATION_FORMATS, AnnotationOptions
from deeplab.options.data import ResizeOptions
from deeplab.options.fields import LocalPath, Options, PathText, declared
from deeplab.options.inference import (
    ENSEMBLE,
    NAMED_CLASSES,
    OVERLAY_ALPHA,
    USE_MOVING_AVERAGE,
    EngineOptions,
    PredictionOptions,
    WindowOptions,
)
from deeplab.options.parts import PartOptions
from deeplab.options.rasters import RasterOptions
from deeplab.options.tools import FetchOptions
from deeplab.registry.records import check_allowed
from deeplab.registry.tasks import TASKS
from deeplab.wording import option

_CHECKPOINT_DIR, _EXPORT_PATH = 'PredictOptions.checkpoint_dir', 'PredictOptions.export_path'
_PRESET = 'PredictOptions.preset'

LEGENDS = ('present', 'all')
SAVED = ('mask', 'color', 'overlay', 'confidence', 'probabilities')
USUAL_SAVED = ('mask', 'overlay')
VIDEO = 'video'  # of the frames of a video, camera or stream
OVER, BESIDE = 'over', 'beside'  # where the overlay is in a video
GEOTIFF, GEOJSON = 'geotiff', 'geojson'
OF_RASTERS = (GEOTIFF, GEOJSON)  # of whole rasters, with geotiff; instead of the kinds of images


@dataclasses.dataclass(frozen=True)
class PredictorOptions(Options):
    """How images are predicted.

    Attributes:
      probabilities: whether predictions have probabilities from the beginning; otherwise, they are computed when they
        are first read.
      resize: resizing of images before the network; None to resize as in the training.
    """

    dataset: PathText | None = declared(None, NAMED_CLASSES)
    classes: tuple[str, ...] = declared(
        (),
        'Comma-separated names or ids of the classes to keep; pixels of other classes get id 255. Not set: all.',
    )
    crop_size: tuple[int, int] | None = declared(
        None,
        'Height and width to which every image is padded, as in eval. Not set: the next multiples of '
        '{ModelOptions.output_stride} plus 1.',
        flag='eval_crop_size',
    )
    batch_size: int = declared(
        1,
        'Number of consecutive images of the same size, or of windows, per batch.',
        flag='predict_batch_size',
        range='(0, inf)',
    )
    use_moving_average: bool | None = declared(None, USE_MOVING_AVERAGE)
    probabilities: bool = False
    resize: ResizeOptions | None = None
    prediction: PredictionOptions = PredictionOptions()
    execution: EngineOptions = EngineOptions()
    windows: WindowOptions = WindowOptions()

    def __post_init__(self) -> None:
        super().__post_init__()
        self._require(not isinstance(self.classes, str), 'classes', 'pass a tuple of names')


@dataclasses.dataclass(frozen=True)
class PredictOptions(Options):
    """Options of `deeplab predict`.

    Attributes:
      network: options of the network that take precedence over the source, by 'Class.field'.
      further_checkpoint_dirs: the other checkpoints of an ensemble.
    """

    inputs: tuple[PathText, ...] = declared(
        meaning='An image, a folder, a pattern such as photos/**/*.jpg in quotes, a list (.txt, one path per line), a '
        'video, a camera (camera:0) or the address of a stream (rtsp://...); {inputs}= may be omitted.',
        kind='repeated string',
    )
    output_dir: LocalPath = declared(
        'predictions', 'Folder for the results: KIND/NAME.png for each image, and predictions.json.'
    )
    checkpoint_dir: LocalPath | None = declared(
        None,
        'A checkpoint, or a folder, whose newest checkpoint is used: the {TrainOptions.train_logdir} of a training '
        'run, or best in it. The network flags are read from run.json, or else inferred from the variables. Not set: '
        'no checkpoint.',
    )
    export_path: PathText | None = declared(
        None, 'An export of any format, such as a frozen graph (.pb), a SavedModel or model.tflite. Not set: no export.'
    )
    ensemble: bool = declared(False, ENSEMBLE)
    further_checkpoint_dirs: tuple[str, ...] = ()
    preset: str | None = declared(None, 'Name of a published checkpoint. Not set: none.', flag=None)
    save: tuple[str, ...] | None = declared(
        None,
        lambda: (
            'Comma-separated kinds of files to write: mask (class ids, grayscale PNG), color (class ids with a '
            'palette), overlay (colors over the image, JPEG), confidence (probability of the class, grayscale PNG), '
            'probabilities ([height, width, classes], NPY); for networks of other tasks: '
            f'{", ".join(TASKS.all_files())} (see docs/predict.md); annotations for labeling tools: '
            f'{", ".join(ANNOTATION_FORMATS)} (docs/annotations.md). For a video, also video: the overlays as MP4, '
            'without sound. Or geotiff: class ids of TIFF files of any size, with their projection, and with geojson '
            'also their areas in map coordinates (docs/geo.md). Not set: mask, overlay, and all kinds of these tasks; '
            'for a camera or stream, video.'
        ),
    )
    overlay_alpha: float = declared(0.5, OVERLAY_ALPHA, range='[0, 1]')
    overlay_legend: str | None = declared(
        None,
        'Draw a legend beside overlays: of the classes present in the image, with their percentages of the pixels, or '
        'of all classes, in the same place in each image. If given, overlays are written. Not set: no legend.',
        choices=LEGENDS,
    )
    video_layout: str = declared(
        OVER,
        'over: videos show the overlay; beside: they show each frame with the overlay to its right.',
        choices=(OVER, BESIDE),
    )
    overwrite: bool = declared(False, 'Overwrite files that were not written by predict.')
    predictor: PredictorOptions = PredictorOptions()
    network: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    fetch: FetchOptions = FetchOptions()
    part: PartOptions = PartOptions()
    raster: RasterOptions = RasterOptions()
    annotation: AnnotationOptions = AnnotationOptions()

    def __post_init__(self) -> None:
        super().__post_init__()
        kinds = (*SAVED, VIDEO, GEOTIFF, *ANNOTATION_FORMATS, *TASKS.all_files())
        self._require(self.save is None or bool(self.save), 'save', f'name some of {", ".join(kinds)}')
        for kind in self.save or ():
            check_allowed(kind, 'PredictOptions.save', kind, choices=kinds)
        self._require_rasters_alone()
        self._require_use_of_annotation()
        if self.part.part is not None and (formats := [kind for kind in self.save or () if kind in ANNOTATION_FORMATS]):
            given, rule = option('PartOptions.part', self.part.part), 'are written by one run'
            raise OptionError(f'{given} is not allowed: annotations ({", ".join(formats)}) {rule}; omit one of them.')
        for field, value in ((_CHECKPOINT_DIR, self.checkpoint_dir), (_PRESET, self.preset)):
            if value is not None and self.export_path is not None:
                raise OptionError(f'Pass either {option(field)} or {option(_EXPORT_PATH)}, not both.')
        if self.checkpoint_dir is None and self.export_path is None and self.preset is None:
            raise OptionError(
                f'There is no network to predict with. Set {option(_CHECKPOINT_DIR)}, {option(_EXPORT_PATH)} or '
                f'{option(_PRESET)}.'
            )

        rule = f'it averages checkpoints; also set {option(_CHECKPOINT_DIR)}, or omit it'
        self._require(not self.ensemble or self.checkpoint_dir is not None, 'ensemble', rule)

    def _require_use_of_annotation(self) -> None:
        """Raises `OptionError` if options of annotations are set, and none are written."""
        usual = AnnotationOptions()
        if self.annotation == usual or any(kind in ANNOTATION_FORMATS for kind in self.save or ()):
            return
        changed = self.annotation.polygon_tolerance != usual.polygon_tolerance
        name = 'polygon_tolerance' if changed else 'minimum_area'
        given = option(f'AnnotationOptions.{name}', getattr(self.annotation, name))
        formats = ', '.join(ANNOTATION_FORMATS)
        raise OptionError(
            f'{given} is for annotations: add one of {formats} to {option("PredictOptions.save")}, or omit it.'
        )

    @property
    def is_of_rasters(self) -> bool:
        """Whether the results are GeoTIFF files."""
        return GEOTIFF in (self.save or ())

    def _require_rasters_alone(self) -> None:
        """Raises `OptionError` if options of rasters and of other images are mixed."""
        if self.is_of_rasters:
            alone = set(self.save or ()) <= set(OF_RASTERS)
            self._require(alone, 'save', f'{GEOTIFF} has no other kinds than {GEOJSON} beside it; run predict twice')
            whole = self.part.part is None
            rule = f'{option("PredictOptions.save", GEOTIFF)} is no part of a run; give each job its own rasters'
            if not whole:
                raise OptionError(f'{option("PartOptions.part", self.part.part)} is not allowed: {rule}.')
        elif self.raster.is_set:
            name = 'bands' if self.raster.bands else 'value_range'
            given = option(f'RasterOptions.{name}', getattr(self.raster, name))
            raise OptionError(f'{given} is for TIFF files: add {option("PredictOptions.save", GEOTIFF)}, or omit it.')
