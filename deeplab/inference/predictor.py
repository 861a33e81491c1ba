"""`Predictor`: the classes of images, from Python.

from deeplab import Predictor

with Predictor.from_checkpoint('logs/train') as predictor:
    prediction = predictor('photo.jpg')
    prediction.save('photo_mask.png')
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import os
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from typing import Any, cast

import numpy as np
from PIL import Image

from deeplab import common
from deeplab.datasets import descriptor, task_data
from deeplab.datasets.descriptor import DatasetDescriptor
from deeplab.errors import DataError, OptionError
from deeplab.inference import (
    any_size,
    conversion_cache,
    ensemble,
    image_files,
    model_source,
    network_source,
    opening,
    resizing,
    task_calibration,
    task_decoding,
    task_files,
    thread_bound,
)
from deeplab.inference.any_size import Scores
from deeplab.inference.engine_choice import EngineChoice
from deeplab.inference.image_files import Source
from deeplab.inference.network import InferenceNetwork
from deeplab.inference.prediction import Prediction, kept_ids
from deeplab.inference.run_weights import WeightsChoice
from deeplab.inference.runners import CheckpointRunner, ExportRunner, Runner
from deeplab.inference.task_decoding import TaskDecoder
from deeplab.options import (
    ANNOTATION_FORMATS,
    SAVED,
    USUAL_SAVED,
    VIDEO,
    EngineOptions,
    FetchOptions,
    ModelOptions,
    PredictionOptions,
    PredictorOptions,
    RasterOptions,
    ResizeOptions,
    WindowOptions,
)
from deeplab.options.parameters import parameters_of
from deeplab.registry import PREPROCESSINGS, TASKS
from deeplab.system import overlap
from deeplab.wording import option
from deeplab.zoo import cache, fetching

_MOST_SHOWN = 5  # classes in the text of a predictor
# Options classes with fields that are keywords of `Predictor`, and their fields in `PredictorOptions`.
_KEYWORDS: dict[Any, str] = {
    WindowOptions: 'windows',
    EngineOptions: 'execution',
    PredictionOptions: 'prediction',
    PredictorOptions: '',
}
_AHEAD = 2  # images of a list that are read before they are needed


class Predictor:
    """Predicts the classes of images; safe to use from several threads, but not in a fork of the process.

    Close it, or use it in a `with` statement, to release the network.

    Attributes:
      source: path of the checkpoint or export.
      class_names: names of the classes; numbers as text if they are unknown.
      colors: [classes, 3] uint8.
      decoder: what decodes the results of the network's tasks; None for a network of classes alone.
      members: the predictor of each checkpoint of an ensemble, such as for the spread of their probabilities; empty for
        a single network.
    """

    members: tuple[Predictor, ...] = ()

    def __init__(
        self,
        source: str,
        runner: Runner,
        classes: DatasetDescriptor,
        options: PredictorOptions,
        resize: ResizeOptions | None = None,
        decoder: TaskDecoder | None = None,
    ) -> None:
        """Creates the predictor; use `from_checkpoint`, `from_export` or `from_preset`."""
        self.source = source
        self.decoder = decoder
        self._options, self._runner = options, runner
        self._classes = classes
        self.class_names, self.colors = classes.names, classes.palette[: classes.num_classes]
        if options.classes and decoder is not None and not task_decoding.has_classes(decoder.options):
            raise OptionError(
                f"{option('PredictorOptions.classes', tuple(options.classes))}: '{source}' predicts no class for each "
                f'pixel ({decoder.options.task}). Omit it'
            )
        self._is_kept = kept_ids(options.classes, classes.names)
        self._is_closed, self._process = False, os.getpid()
        with contextlib.ExitStack() as closing:
            closing.callback(runner.close)
            self._reader = image_files.Reader(runner.channels, classes.image_bits, classes.raster)
            closing.callback(self._reader.close)
            self._resizer = None
            if decoder is not None and (preprocessing := PREPROCESSINGS.of_network(decoder.options)) is not None:
                self._resizer = resizing.Resizer(preprocessing, runner.channels, decoder.options.crop_size)
            elif resize is not None and resize.is_set:
                self._resizer = resizing.Resizer(resize, runner.channels)
            self._any_size: any_size.AnySize | None = None  # for a network of vectors, whose images have one size
            if decoder is None or not decoder.options.is_per_image:
                self._any_size = any_size.AnySize(runner, options.windows, options.batch_size)
            if self._resizer is not None:
                closing.callback(self._resizer.close)
            self._closing = closing.pop_all()

    @property
    def engine_choice(self) -> EngineChoice | None:
        """How 'auto' chose the engine of a single network; None if it did not, or before the first image."""
        return self._runner.engine_choice

    @classmethod
    def from_checkpoint(cls, path: str | os.PathLike[str], **options: Any) -> Predictor:
        """Opens the network of a checkpoint.

        The run.json of the training describes the network; without that file the network is identified by the
        variables, and logged.

        Args:
          path: a checkpoint, or a folder with checkpoints, such as the log folder of a training or `best` in it; the
            newest complete one is used.
          **options: fields of `PredictorOptions`, `PredictionOptions` (scales, flips), `EngineOptions` and
            `WindowOptions`, and fields of `ModelOptions` that differ from the training.

        Raises:
          CheckpointError: There is no checkpoint, or it does not match the network.
          OptionError: An option is not allowed.
        """
        return cls.of_options(os.fspath(path), *_sorted_out(options))

    @classmethod
    def from_checkpoints(cls, paths: Sequence[str | os.PathLike[str]], **options: Any) -> Predictor:
        """Opens an ensemble, which averages the probabilities of the networks of several checkpoints.

        The networks may differ in their architectures, but must have the same tasks and classes. What each of them
        predicts:

        with Predictor.from_checkpoints(['logs/one', 'logs/two']) as ensemble:
            image = ensemble.read('photo.jpg')
            each = [member.predict([image])[0].probabilities for member in ensemble.members]  # [h, w, classes]

        Args:
          paths: as for `from_checkpoint`; the folder of a finished cross-validation means the networks of all folds.
          **options: as for `from_checkpoint`, for each network.

        Raises:
          CheckpointError: There is no checkpoint, or it does not match its network.
          DataError: A cross-validation is not finished.
          OptionError: An option is not allowed, or the checkpoints do not make an ensemble; see `ensemble.find`.
        """
        return cls.of_checkpoints([os.fspath(path) for path in paths], *_sorted_out(options))

    @classmethod
    def from_export(cls, path: str | os.PathLike[str], **options: Any) -> Predictor:
        """Opens an export of `deeplab export_model` in any format, such as frozen graph, SavedModel, tflite or onnx.

        An export is a program: open only files that you trust. Names and colors of its classes come from the export, or
        from `dataset`.

        Args:
          path: the file or folder.
          **options: fields of `PredictorOptions`, and `threads`. The export determines scales, flips, resizing and
            sizes.

        Raises:
          CheckpointError: It is not an export of DeepLab.
          OptionError: An option is not allowed.
        """
        predictor, changes = _sorted_out(options)
        return cls.of_export(os.fspath(path), predictor, changes)

    @classmethod
    def from_preset(cls, name: str, **options: Any) -> Predictor:
        """Opens a published checkpoint, which is downloaded first if it is not in the cache.

        Args:
          name: such as 'mobilenetv2_coco_voc_trainaug'; `deeplab presets` lists all.
          **options: as for `from_checkpoint`.

        Raises:
          OptionError: There is no such preset.
          DownloadError: It cannot be downloaded.
        """
        return cls.of_preset(name, *_sorted_out(options))

    @classmethod
    def of_options(
        cls,
        path: str,
        options: PredictorOptions,
        changes: model_source.Changes,
        description: model_source.NetworkDescription | None = None,
    ) -> Predictor:
        """As `from_checkpoint`, with options objects; `description` is the network of a preset."""
        description = description or model_source.of_run(path)
        network = model_source.find(path, changes, options.dataset, description)
        return cls._of_network(network, options, None if description is None else description.options.task)

    @classmethod
    def _of_network(
        cls, network: model_source.NetworkDescription, options: PredictorOptions, trained_task: str | None = None
    ) -> Predictor:
        """Opens a network that `model_source.find` has found; `trained_task` are its tasks if they are known."""
        assert network.classes is not None  # of a complete description
        choice = WeightsChoice(options.use_moving_average, 'PredictorOptions.use_moving_average')
        model = dataclasses.replace(network.options, crop_size=options.crop_size)
        resize = options.resize or network.resize
        predicted = InferenceNetwork(model, options.prediction, resize=resize or ResizeOptions())
        weights = opening.Weights(network.checkpoint, choice.takes_averages(network.checkpoint))
        if trained_task not in (None, model.task):
            # Before what the task needs of the data set is asked for.
            predicted.require_weights(weights.checkpoint, weights.use_moving_average)
        decoder = None
        if not model.is_semantic:
            calibration = task_calibration.load(network.checkpoint)
            context = task_data.context_of(network.classes, model, calibration)
            decoder = TaskDecoder(model, context)
        runner = CheckpointRunner(predicted, weights, options.execution, [os.path.join(cache.folder(), 'engines')])
        return cls(network.checkpoint, runner, network.classes, options, resize, decoder)

    @classmethod
    def of_checkpoints(
        cls, paths: Sequence[str], options: PredictorOptions, changes: model_source.Changes
    ) -> Predictor:
        """As `from_checkpoints`, with options objects."""
        networks = ensemble.find(paths, changes, options.dataset)
        if options.resize is None:
            ensemble.require_equal_resizing(networks)
        with contextlib.ExitStack() as closing:
            members = [closing.enter_context(cls._of_network(network, options)) for network in networks]
            first, described = (
                members[0],
                next((each for each in members if ensemble.has_names(each._classes)), members[0]),
            )
            runner = ensemble.EnsembleRunner([member._runner for member in members])
            resize = options.resize or networks[0].resize
            # What the tasks have chosen for one checkpoint, such as thresholds, does not suit the mean of several.
            decoder = first.decoder and first.decoder.calibrated({})
            made = cls(ensemble.path_of(networks), runner, described._classes, options, resize, decoder)
            made.members = tuple(members)
            made._closing.push(closing.pop_all())
        return made

    @classmethod
    def of_preset(
        cls,
        name: str,
        options: PredictorOptions,
        changes: model_source.Changes,
        fetch: FetchOptions | None = None,
    ) -> Predictor:
        """As `from_preset`, with options objects."""
        description = model_source.of_preset(name, changes)
        return cls.of_options(fetching.fetch(name, fetch), options, changes, description)

    @classmethod
    def of_export(cls, path: str, options: PredictorOptions, changes: model_source.Changes) -> Predictor:
        """As `from_export`, with options objects."""
        fixed = ('crop_size', 'use_moving_average')
        decoding = {name: value for name, value in changes.items() if name.partition('.')[2] in TASKS.parameters()}
        unused = [name for name in changes if name not in decoding]
        unused += [f'PredictorOptions.{name}' for name in fixed if getattr(options, name)]
        unused += network_source.unused_values(options.prediction, options.execution, options.resize or ResizeOptions())
        if unused:
            raise OptionError(
                f'An export has its own network, weights and sizes: {", ".join(map(option, unused))} cannot be '
                'changed. Omit it'
            )
        runner = ExportRunner(path, options.execution.threads)
        try:
            metadata = runner.exported.metadata
            stored = _classes_in(metadata) if options.dataset is None else None
            classes = stored or descriptor.classes_of(options.dataset, runner.exported.num_classes, True)
            decoder = _decoder_of_export(metadata, classes, decoding)
        except BaseException:
            runner.close()
            raise
        classes = dataclasses.replace(classes, image_bits=runner.exported.bits)
        return cls(path, runner, classes, options, decoder=decoder)

    def __call__(self, images: Source | Iterable[Source]) -> Prediction | list[Prediction]:
        """Predicts one image, or several.

        Args:
          images: an image, or a list of images; see `read`.

        Returns:
          The prediction of one image; a list in the same order for several.

        Raises:
          DataError: An image cannot be read; the message names its file.
        """
        if image_files.is_single(images):
            return self.predict([self.read(cast(Source, images))])[0]
        return list(self.stream(cast(Iterable[Source], images)))

    def stream(self, images: Iterable[Source]) -> Generator[Prediction, None, None]:
        """Yields the predictions of images in their order, each batch as soon as it is computed.

        Only the predictions that the caller keeps stay in memory. The next images are read meanwhile.

        Args:
          images: a list or another iterable of images; see `read`.

        Raises:
          DataError: An image cannot be read; the message names its file. The predictions of the images before it are
            yielded first.
        """

        def read(image: Source) -> np.ndarray | Exception:
            try:
                return self.read(image)
            except Exception as error:
                return error

        given = [cast(Source, images)] if image_files.is_single(images) else images
        with contextlib.closing(overlap.map_in_order(read, given, 1, _AHEAD)) as pixels:
            # Errors have no shape: the images before one are predicted first.
            for batch in any_size.batches(pixels, self._options.batch_size, lambda each: getattr(each, 'shape', None)):
                if isinstance(batch[0], Exception):
                    raise batch[0]
                yield from self.predict(cast(list[np.ndarray], batch))

    def read(self, image: Source) -> np.ndarray:
        """Returns an image as the network takes it, upright, before resizing and padding: [h, w, channels], 0 to 255.

        Args:
          image: one of

            - the path of a file, its content (bytes), or a binary file, which is read from its beginning: decoded as in
              records, and turned as its EXIF orientation says;
            - an image of Pillow, turned as its EXIF orientation says. A JPEG or PNG that was opened and not changed is
              decoded from its file, with the same result as the path. Pillow's own pixels are used if it was changed,
              or loaded from a file object; Pillow decodes a JPEG slightly differently from TensorFlow;
            - an array [h, w, 3] or [h, w] of uint8 (or of floats, 0 to 255), which is copied; colors are RGB: for
              OpenCV `image[..., ::-1]`.

        Raises:
          DataError: It cannot be read; the message names its file.
          RuntimeError: The process is a fork of the one that has opened the predictor.
          TypeError: It is none of these.
          ValueError: The predictor is closed.
        """
        name, read = 'The image', cast(Callable[[Any], np.ndarray], self._reader.of_array)
        if isinstance(image, Image.Image):
            name, read = image_files.name_of(image, 'filename'), self._reader.of_picture
        elif isinstance(image, (bytes, bytearray, memoryview)):
            read = self._reader.of_content
        elif isinstance(image, (str, os.PathLike)):
            name, read = f"'{os.fspath(image)}'", self._reader.read
        elif image_files.is_file(image):
            name, read = image_files.name_of(image, 'name'), self._reader.of_file
        elif not isinstance(image, np.ndarray):
            raise TypeError(
                'an image is an array, the path of a file, a binary file, bytes or an image of Pillow, not '
                f'{type(image).__name__}'
            )
        self._require_open()
        try:
            pixels = read(image)
        except DataError as error:
            raise DataError(f'{name}: {error}') from None
        return pixels.copy() if isinstance(image, np.ndarray) and np.may_share_memory(pixels, image) else pixels

    @property
    def window(self) -> tuple[int, int] | None:
        """Height and width of the windows of large images; None for a network of whole images."""
        return None if self._any_size is None else self._any_size.window

    def is_whole(self, size: resizing.Size) -> bool:
        """Returns whether images of a height and width are predicted without windows."""
        return self._any_size is None or self._any_size.window_for(*size) is None

    @property
    def channels(self) -> int:
        """Channels of the images that the network takes."""
        return self._reader.channels

    @property
    def raster(self) -> RasterOptions:
        """Bands and values of TIFF files in the data set of the training."""
        return self._classes.raster

    @property
    def resizes(self) -> bool:
        """Whether images are resized before the network."""
        return self._resizer is not None or self._runner.resizes

    def read_file(self, path: str) -> np.ndarray:
        """As `read`, for a file whose name the caller adds to the message of an error."""
        return self._reader.read(path)

    def bytes_of_file(self, path: str) -> int:
        """Returns about how many bytes the image in a file takes when it is read."""
        return self._reader.bytes_of(path)

    def predict(
        self, images: Sequence[np.ndarray], with_confidence: bool = False, part_of: resizing.Size | None = None
    ) -> list[Prediction]:
        """Predicts images of one size.

        Args:
          images: from `read`, all of the same shape.
          with_confidence: whether the confidence is computed now and not when it is first read.
          part_of: height and width of the image of which these are parts, which are predicted in windows if that image
            is; None for whole images. A network that resizes its images takes no parts.

        Raises:
          TypeError: They are not a list of arrays.
          ValueError: Their shapes differ.
        """
        _require_one_shape(images)
        if len(images) == 0:
            return []
        wants = (with_confidence, self._options.probabilities or self.decoder is not None)
        predictions = []
        for image, scores in zip(images, self._scores(images, *wants, part_of), strict=True):
            tasks, probabilities = None, scores.probabilities
            if self.decoder is not None:
                assert probabilities is not None
                tasks = self.decoder(probabilities)
                probabilities = self._of_classes(probabilities) if self._options.probabilities else None
            kept = (scores.confidence, probabilities)
            compute = functools.partial(self._probabilities, image, part_of)
            predictions.append(Prediction(image, scores.labels, self._classes, self._is_kept, kept, compute, tasks))
        return predictions

    def kinds_of_files(self, given: Sequence[str] | None = None) -> tuple[str, ...]:
        """Returns the kinds of files that `deeplab predict` writes: `given`, or the usual ones for None.

        Raises:
          OptionError: Predictions of the network have no files of a given kind.
        """
        options = None if self.decoder is None else self.decoder.options
        kinds = (*SAVED, VIDEO, *ANNOTATION_FORMATS)
        return task_files.kinds(given, USUAL_SAVED, kinds, options, 'PredictOptions.save')

    def digest(self) -> str:
        """Returns a digest of the weights."""
        if not self.members:
            return network_source.at(self.source).digest()
        return conversion_cache.digest_of({'members': [member.digest() for member in self.members]})

    def close(self) -> None:
        """Releases the network. Predictions keep what they have, but compute no probabilities any more."""
        self._is_closed = True
        self._closing.close()

    def __repr__(self) -> str:
        names = self.class_names if ensemble.has_names(self._classes) else ()
        shown = f' ({", ".join(names[:_MOST_SHOWN])}{", ..." if len(names) > _MOST_SHOWN else ""})' if names else ''
        channels = '' if self._runner.channels == 3 else f', {self._runner.channels}-channel images'
        state = ', closed' if self._is_closed else ''
        network = f'{self._runner.network}, ' if self._runner.network else ''
        return f"<Predictor of '{self.source}': {network}{len(self.class_names)} classes{shown}{channels}{state}>"

    def __enter__(self) -> Predictor:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _require_open(self) -> None:
        thread_bound.require_process(self._process)
        if self._is_closed:
            raise ValueError(
                'The predictor is closed. Predict, and read confidences and probabilities, before it is closed, or '
                f'open it with {option("PredictorOptions.probabilities", True)} to read them later.'
            )

    def _probabilities(self, image: np.ndarray, part_of: resizing.Size | None) -> np.ndarray:
        """Computes the probabilities of an image, [h, w, classes]."""
        (scores,) = self._scores([image], False, True, part_of)
        assert scores.probabilities is not None
        return self._of_classes(scores.probabilities)

    def _of_classes(self, maps: np.ndarray) -> np.ndarray:
        """Returns the probabilities of the classes among the maps of all outputs; all maps of a network without them.

        The rest of the maps is not kept in memory.
        """
        if self.decoder is None or not task_decoding.has_classes(self.decoder.options):
            return maps
        return maps[..., : self._runner.num_classes].copy()

    def _scores(
        self, images: Sequence[np.ndarray], confidence: bool, probabilities: bool, part_of: resizing.Size | None
    ) -> list[Scores]:
        self._require_open()
        size = images[0].shape[:2]
        if self._any_size is None:
            assert self._resizer is not None
            vectors = self._runner.run(np.stack([self._resizer.resized(image) for image in images]), True).probabilities
            assert vectors is not None
            return [Scores(np.zeros(size, np.uint8), None, vector) for vector in vectors]
        if self._resizer is None:
            return self._any_size.predict(images, confidence, probabilities, part_of)
        resized = [self._resizer.resized(image) for image in images]
        result = []
        for prediction in self._any_size.predict(resized, False, confidence or probabilities):
            labels, scores = any_size.nearest(prediction.labels, *size), None
            if prediction.probabilities is not None and self.decoder is not None:
                scores = task_decoding.resized(prediction.probabilities, self.decoder.options, size)
            elif prediction.probabilities is not None:
                scores = self._resizer.scores(prediction.probabilities, size)  # [h, w, classes]
            of_classes = None if scores is None else scores[..., : self._runner.num_classes]
            most = of_classes.max(axis=2) if confidence and of_classes is not None else None
            result.append(Scores(labels, most, scores if probabilities else None))
        return result


def _require_one_shape(images: Sequence[np.ndarray]) -> None:
    """Raises an error unless `images` are arrays [h, w, channels] of one shape."""
    is_list = isinstance(images, (list, tuple, np.ndarray))
    if not is_list or not all(isinstance(image, np.ndarray) and image.ndim == 3 for image in images):
        raise TypeError(
            'predict() takes a list of arrays [h, w, channels] that read() returned. For one image, a path or images '
            'of several sizes call the predictor itself: predictor(image)'
        )
    given = sorted({image.shape for image in images})
    if len(given) > 1:
        raise ValueError(
            f'predict() takes images of one shape, not of {given[0]} and {given[1]}. For images of several sizes call '
            'the predictor itself: predictor(images)'
        )


def _classes_in(metadata: Mapping[str, Any]) -> DatasetDescriptor | None:
    """Returns names and colors of the classes; None if the metadata has none."""
    names, colors = metadata.get('class_names') or (), metadata.get('colors') or ()
    if len(names) != len(colors):
        return None
    return descriptor.of_facts(list(map(str, names)), colors, metadata.get('task', metadata))


def _decoder_of_export(
    metadata: Mapping[str, Any], classes: DatasetDescriptor, changes: model_source.Changes
) -> TaskDecoder | None:
    """Returns what decodes the results of an export's tasks; None for a network of classes alone."""
    described = metadata.get('task')
    if not described:
        if changes:
            raise OptionError(f'{option(next(iter(changes)))} has no effect: the export has no further tasks. Omit it.')
        return None
    outputs = {common.OUTPUT_TYPE: classes.num_classes}
    settings = {name: value for name, value in described['settings'].items() if name in TASKS.parameters()}
    options = model_source.changed(ModelOptions(outputs, task=described['name'], settings=settings), changes)
    context = task_data.context_of(classes, options, described.get('calibration'))
    return TaskDecoder(options, context)


def _sorted_out(options: dict[str, Any]) -> tuple[PredictorOptions, model_source.Changes]:
    """Returns the options object of keywords, and the changes of the network; raises `TypeError` for unknown ones."""
    owners = {field.name: kind for kind in _KEYWORDS for field in dataclasses.fields(kind)}
    values: dict[type, dict[str, Any]] = {kind: {} for kind in _KEYWORDS}
    changes: dict[str, Any] = {}
    for name, value in options.items():
        if name in owners:
            values[owners[name]][name] = value
        elif name == 'rates':  # of ASPP, which follow the output stride
            changes[model_source.RATES] = value
        else:
            if name not in {*(field.name for field in dataclasses.fields(ModelOptions)), *parameters_of(ModelOptions)}:
                raise TypeError(f"there is no option '{name}' of a predictor or a network")
            changes[f'ModelOptions.{name}'] = value
    parts = {part: kind(**values[kind]) for kind, part in _KEYWORDS.items() if part and values[kind]}
    return PredictorOptions(**values[PredictorOptions], **parts), changes
