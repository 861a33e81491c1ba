"""Exports of one checkpoint: converted, compared with it, measured, and only then put in place."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import math
import os
import tempfile
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from absl import logging

import deeplab
from deeplab import names
from deeplab.checks import checkpoint_network
from deeplab.core import checkpoints, moving_average
from deeplab.datasets import descriptor
from deeplab.datasets.segmentation_dataset import DataSource
from deeplab.errors import OptionError
from deeplab.export import destinations, export_graph, plain, proof, results, speed
from deeplab.export.destinations import Destination
from deeplab.files import output_files, run_manifests
from deeplab.inference import export_metadata, model_source, opening, task_calibration, task_decoding
from deeplab.inference.comparison import LEAST_AGREEMENT, MOST_DIFFERENCE, Comparison, compared
from deeplab.inference.network import InferenceNetwork
from deeplab.inference.opening import Weights
from deeplab.inference.resizing import padded
from deeplab.inference.runners import CheckpointRunner, ExportRunner
from deeplab.options import DatasetOptions, EngineOptions, ExportOptions, ResizeOptions, Target
from deeplab.pictures.sample_image import sample_image
from deeplab.registry import BACKBONES, EXPORT_FORMATS, TASKS, ExportFormat, FrozenGraph, PortableNetwork
from deeplab.wording import option

_SHOWN_LAYERS = 3
# Python expressions that read an image [h, w, channels] with values of 0 to 255.
_RGB_IMAGE = "np.asarray(PIL.Image.open('image.png').convert('RGB'))"
_OTHER_IMAGE = "np.load('image.npy')  # [height, width, {channels}] uint8"
_OF_NETWORK = '  # reduced if it is larger, then padded, to the size of the network'
_OF_CLASSIFIER = '  # of the size of the network, changed by its preprocessing as at evaluation'
_WIDE_IMAGE = "np.load('image.npy') / 257  # [height, width, {channels}] uint16"


class CheckpointExports:
    """Exports of one checkpoint."""

    def __init__(self, options: ExportOptions, checkpoint: str) -> None:
        """Prepares the exports; networks are built when they are needed."""
        self._options, self._checkpoint = options, checkpoint
        self._step = checkpoints.step_of(checkpoint)
        weights = Weights(checkpoint, bool(options.use_moving_average))
        # Exports of 8-bit training round in their own order, which changes more labels than a conversion may.
        rounds = options.model.quantize_delay_step is not None
        network = InferenceNetwork(options.model, options.prediction, is_portable=rounds)
        self._reference = self._resizable_reference = CheckpointRunner(network, weights, EngineOptions())
        if options.conversion.is_resizable:  # such exports do not pad images to the crop
            network = dataclasses.replace(network, options=dataclasses.replace(options.model, crop_size=None))
            self._resizable_reference = CheckpointRunner(network, weights, EngineOptions())
        self._images: list[np.ndarray] = []
        self._parameters = 0
        self._conversions: dict[str, Any] = {}
        self._verification: proof.Verification | None = None

    @functools.cached_property
    def _dataset(self) -> str | None:
        """The data set of the options, or of the training, if it is known."""
        beside = run_manifests.beside(self._checkpoint)
        trained_on = descriptor.trusted_name_in_run(*beside) if beside is not None else None
        return self._options.proof.dataset or trained_on

    def _classes(self) -> descriptor.DatasetDescriptor:
        """Returns the classes of the data set; if that cannot be loaded, the classes that run.json has."""
        number, is_given = self._options.model.num_classes, self._options.proof.dataset is not None
        beside = run_manifests.beside(self._checkpoint)
        noted = None if beside is None else descriptor.of_json(beside[1].get(run_manifests.CLASSES), number)
        return descriptor.classes_of(self._dataset, number, is_given, noted)

    @functools.cached_property
    def _calibration(self) -> dict[str, Any]:
        """What the tasks have chosen for the checkpoint."""
        return {} if self._options.model.is_semantic else task_calibration.load(self._checkpoint)

    @functools.cached_property
    def _source(self) -> DataSource:
        """The data set, which is loaded once; raises `OptionError` if it is not known."""
        directory = self._options.proof.dataset_dir
        assert directory is not None  # the options have checked it
        if self._dataset is None:
            raise OptionError(
                f'The data set of {option("ProofOptions.dataset_dir", directory)} is not known: there is no run.json '
                f'of its training beside the checkpoint. Set {option("ProofOptions.dataset")}'
            )
        return DataSource(DatasetOptions('', directory, self._dataset))

    @functools.cached_property
    def _portable(self) -> FrozenGraph:
        options = self._options
        conversion = options.conversion
        model = dataclasses.replace(options.model, crop_size=None) if conversion.is_resizable else options.model
        batch_size = None if conversion.has_dynamic_batch else 1
        wants = conversion.outputs == 'probabilities'
        network = InferenceNetwork(model, options.prediction, batch_size, wants, has_separate_maps=True)
        weights = network.portable.weights
        self._parameters = sum(math.prod(each.shape) for each in weights if '/moving_' not in each.op.name)
        names = moving_average.names_of_weights(self._checkpoint, weights, options.use_moving_average)
        with checkpoint_network.explained(self._checkpoint, options.model):
            checkpoints.require_all(self._checkpoint, weights, names, options.model.num_classes)
        return network.frozen(self._checkpoint, bool(options.use_moving_average), is_portable=True)

    @contextlib.contextmanager
    def proving(self) -> Iterator[None]:
        """Opens what exports are compared with, for the `with` block."""
        options = self._options
        if any(EXPORT_FORMATS.get(target.format).is_portable for target in options.targets):
            assert self._portable  # a checkpoint that does not match is reported first
        with contextlib.closing(self._reference), contextlib.closing(self._resizable_reference):
            if options.proof.dataset_dir is None:
                size, channels = export_graph.crop_size_of(options), options.model.input_channels
                seeds = range(options.proof.sample_images)
                self._images = [sample_image(size, channels, seed).image.astype(np.float32) for seed in seeds]
            else:
                self._images = self._sampled()
            if options.proof.verify_split is not None:
                self._verification = proof.Verification(options, self._source, self._calibration)
            yield

    def _sampled(self) -> list[np.ndarray]:
        """Returns sample images of the data set; raises what is wrong with the split for calibration, too."""
        options = self._options
        field, split = 'ProofOptions.verify_split', options.proof.verify_split
        if split is None:
            field, split = 'ConversionOptions.calibration_split', options.conversion.calibration_split
        number = options.proof.sample_images
        return list(proof.images_of(options, self._source, split, number, field))

    def proven_export(self, destination: Destination) -> plain.PlainExport:
        """Writes an export with metadata and one proof; it is put in place after the proof.

        Raises:
          OptionError: it loses more mean IoU than is allowed.
        """
        options, record, facts = self._options, destination.record, self._facts(destination.target)
        if record.convert is None:
            prove = functools.partial(self._proof, destination)
            return plain.write(options, self._checkpoint, destination, facts, prove)
        network = self._described(destination.target.variant, facts)
        logging.info("Converting '%s' to %s.", self._checkpoint, destination.target)
        folder = output_files.make_folder(os.path.dirname(destination.path) or '.')
        explained = opening.conversion_explained(network.graph, _failure(destination), _way_out(options, record))
        with destinations.beside(destination.path, record) as temporary:
            with output_files.writing_to(folder, 'ExportOptions.export_path'), explained:
                record.convert(network, temporary, **options.settings_of(record))
            proven = self._proof(destination, temporary)
        comparison, size = proven.comparison, proven.figures.bytes
        return plain.PlainExport(
            proven.path, self._checkpoint, self._step, self._parameters, size, comparison.agreement,
            comparison.difference, _report(proven, options), (proven,),
        )  # fmt: skip

    def _facts(self, target: Target) -> dict[str, Any]:
        options = self._options
        model, conversion = options.model, options.conversion
        trained = model_source.resizing_in_training(self._checkpoint)
        classes = self._classes()
        normalization = BACKBONES.get(model.model_variant).normalization
        is_portable = EXPORT_FORMATS.get(target.format).is_portable
        channels = task_decoding.channels_of(model)
        outputs = [*channels]
        if model.is_semantic and (not is_portable or conversion.outputs == 'probabilities'):
            outputs = ['probabilities']
        size = None if self._is_resizable(target) else list(export_graph.crop_size_of(options))
        return {
            'metadata_version': export_metadata.VERSION,
            'deeplab_version': deeplab.__version__,
            'format': target.format,
            'variant': target.variant,
            'checkpoint': os.path.basename(self._checkpoint),
            'global_step': self._step,
            'model_variant': model.model_variant,
            'output_stride': model.output_stride,
            'class_names': list(classes.names),
            'colors': classes.palette[: classes.num_classes].tolist(),
            'image_channels': model.input_channels,
            'image_bits': options.image_bits,
            'crop_size': size,
            # What the export does to images, and what the training did: users do that before an export that does not.
            'resize': _as_json(options.resize),
            'resize_in_training': _as_json(trained),
            # Images are 0 to 255, and the network normalizes them itself; `export_metadata.of_normalized` describes
            # others. Images that are smaller than the crop are padded with the mean pixel.
            'normalization': 'in the network',
            'mean_pixel': [float(value) for value in normalization.mean_pixel_of(model.input_channels)],
            'outputs': [export_metadata.LABELS, *outputs],
            **({} if model.is_semantic else {'task': self._task_facts(classes)}),
            **{name: list(value) for name, value in vars(classes.raster).items() if value and model.is_semantic},
        }

    def _task_facts(self, classes: descriptor.DatasetDescriptor) -> dict[str, Any]:
        """Returns what the metadata says about other tasks than `semantic`: their outputs, and how to decode them."""
        model = self._options.model
        settings = {name: value for task in TASKS.chosen(model) for name, value in model.settings_of(task).items()}
        return {
            'name': model.task,
            'channels': task_decoding.channels_of(model),
            'settings': settings,
            **classes.facts(),
            'calibration': self._calibration,
        }

    def _is_resizable(self, target: Target) -> bool:
        """Returns whether an export takes images of any size."""
        return EXPORT_FORMATS.get(target.format).is_portable and self._options.conversion.is_resizable

    def _described(self, variant: str, facts: Mapping[str, Any]) -> PortableNetwork:
        options = self._options
        return PortableNetwork(
            self._portable,
            variant,
            options.conversion.input_type,
            facts,
            lambda: proof.calibration_images(options, self._source, self._reference.mean_pixel),
            self._conversions,
        )

    def _proof(self, destination: Destination, path: str, comparison: Comparison | None = None) -> results.Proof:
        """Compares, measures and evaluates an export.

        Args:
          destination: format and variant.
          path: where it lies for now.
          comparison: its comparison with the network, if there was one. It stands for an export that resizes images,
            whose predictions are not the network's.
        """
        record, target = destination.record, destination.target
        verified = None
        reference = self._resizable_reference if self._is_resizable(target) else self._reference
        if self._options.resize == ResizeOptions():
            with contextlib.closing(ExportRunner(path, record=record)) as export:
                batches = (image[np.newaxis] for image in self._images)
                comparison = compared(
                    ((export.run(batch, export.has_probabilities), reference.run(batch, True)) for batch in batches),
                    task_decoding.channels_of(self._options.model),
                )
                self._require_agreement(destination, comparison)
                verified = self._verification.of(export, reference) if self._verification is not None else None
        self._require_miou(destination, path, verified)
        assert comparison is not None
        figures = speed.measured(path, record.name)
        return results.Proof(
            target.format, target.variant, destination.path, self._checkpoint, comparison, figures, verified
        )

    def _require_agreement(self, destination: Destination, comparison: Comparison) -> None:
        """Raises `OptionError` if an export in floating point gives other labels or maps than its checkpoint."""
        variant = destination.target.variant
        least, most = LEAST_AGREEMENT.get(variant, 0.0), MOST_DIFFERENCE.get(variant)
        if flaw := comparison.flaw(least, most, "the checkpoint's", names.counted(comparison.images, 'image')):
            raise OptionError(f'{_failure(destination)}: {flaw}. {_way_out(self._options, destination.record)}')

    def _require_miou(self, destination: Destination, path: str, verified: proof.Verified | None) -> None:
        """Raises `OptionError` if an export loses more than is allowed; names the layers that add the error."""
        most = self._options.proof.max_miou_loss
        if most is None or verified is None:
            return
        for name, (loss, figure, expected) in verified.losses().items():
            if not loss <= most:
                raise OptionError(
                    f'{option("ExportOptions.formats", str(destination.target))} has a {name} of {figure:.4f} on '
                    f'{verified.split}, the checkpoint {expected:.4f}; '
                    f'{option("ProofOptions.max_miou_loss", most)} allows less. Nothing was written. '
                    f'{self._worst_layers(destination, path)}'
                )

    def _worst_layers(self, destination: Destination, path: str) -> str:
        """Returns a sentence about the layers that add most of the error of an export, or what to do instead."""
        record, target = destination.record, destination.target
        if len(record.variants) == 1:
            return 'Allow more, or try another format'
        if record.activations is None or target.variant == record.variants[0]:
            return f'Try another variant: {", ".join(record.variants)}'
        assert record.convert is not None
        network = self._described(record.variants[0], {})
        with tempfile.TemporaryDirectory() as folder:
            exact = os.path.join(folder, record.example_path or record.name)
            record.convert(network, exact, **self._options.settings_of(record))
            image = padded(
                self._images[0][np.newaxis], export_graph.crop_size_of(self._options), self._reference.mean_pixel
            )
            layers = proof.layers_by_error(record, path, exact, image)[:_SHOWN_LAYERS]
        shown = '; '.join(f'{name} ({error:+.1%} of the deviation of its activations)' for name, error in layers)
        return f'The layers that add most of the error: {shown or "unknown"}'


def _as_json(resize: ResizeOptions) -> list[int | None] | None:
    return [resize.min_value, resize.max_value, resize.factor] if resize.is_set else None


def _failure(destination: Destination) -> str:
    return f'{option("ExportOptions.formats", str(destination.target))} cannot hold this network'


def _way_out(options: ExportOptions, record: ExportFormat) -> str:
    """Returns what may avoid that a format cannot hold a network, such as an operation that it does not have."""
    if options.conversion.is_resizable:
        return f'Omit {option("ConversionOptions.is_resizable")}, or export another format'
    if not options.prediction.is_single_scale:
        return f'Set {option("PredictionOptions.scales", (1.0,))}, or export another format'
    # Formats that contain TensorFlow's graph have all operations.
    other = option('ExportOptions.formats', 'saved_model') if record.is_portable else 'another format'
    return f'Use {other}, or another network'


def _report(proven: results.Proof, options: ExportOptions) -> str:
    """Returns what an export takes and gives, with Python code that runs it."""
    model, conversion, record = options.model, options.conversion, EXPORT_FORMATS.get(proven.format)
    height, width = ('height', 'width') if conversion.is_resizable else export_graph.crop_size_of(options)
    batch = 'n' if conversion.has_dynamic_batch else 1
    image = record.tensors[0]
    with_floats = conversion.outputs == 'probabilities' or not model.is_semantic
    lines = [
        f'{record.title} ({proven.variant}): {proven.path} ({names.byte_size(proven.figures.bytes)})',
        f'Input:  {image} {conversion.input_type} [{batch}, {height}, {width}, {model.input_channels}], 0 to 255',
        *plain.outputs(record, model, (batch, height, width), with_floats),
    ]
    remark = _OF_CLASSIFIER if model.is_per_image else _OF_NETWORK
    if (model.input_channels, options.image_bits) == (3, 8):
        return '\n'.join([*lines, *plain.in_python(record, proven.path, _RGB_IMAGE + remark, ['import PIL.Image'])])
    read = (_WIDE_IMAGE if options.image_bits == 16 else _OTHER_IMAGE).format(channels=model.input_channels)
    return '\n'.join([*lines, *plain.in_python(record, proven.path, read + remark)])
