"""Export as a graph of TensorFlow, which takes images of any size, and its comparison on a random image."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from absl import logging

from deeplab import names
from deeplab.checks import checkpoint_network
from deeplab.core import checkpoints, moving_average, sessions
from deeplab.errors import CheckpointError
from deeplab.export import destinations, export_graph, results
from deeplab.export.destinations import INFERENCE_GRAPH, Destination
from deeplab.files import output_files, writing
from deeplab.inference import exports, task_decoding
from deeplab.inference.comparison import Comparison, compared
from deeplab.options import ExportOptions, ModelOptions
from deeplab.pictures.sample_image import sample_image
from deeplab.registry import ExportFormat, FrozenNetwork, Outputs


@dataclasses.dataclass(frozen=True)
class PlainExport:
    """What was exported.

    Attributes:
      path: file or folder that was written.
      checkpoint: path of the checkpoint.
      global_step: step of the checkpoint.
      parameters: number of trainable parameters.
      size: bytes on disk.
      agreement: fraction of the pixels with the same label from the export, read back, and the network: of a random
        image, or of the sample images of a format for another runtime.
      difference: largest difference between their probabilities; None for an export without.
      report: all this, and how to run the export, for the user.
      proofs: figures of each export; empty if they were not asked for.
    """

    path: str
    checkpoint: str
    global_step: int
    parameters: int
    size: int
    agreement: float
    difference: float | None
    report: str
    proofs: tuple[results.Proof, ...] = ()


def write(
    options: ExportOptions,
    checkpoint: str,
    destination: Destination,
    facts: Mapping[str, Any],
    prove: Callable[[str, Comparison], results.Proof] | None = None,
) -> PlainExport:
    """Writes a format that holds the network as TensorFlow's graph, from the pixels of an image of any size.

    Args:
      options: network and sizes.
      checkpoint: path of the checkpoint.
      destination: format and path.
      facts: metadata; empty for none.
      prove: called with the temporary path of the export, and its comparison, before it is put in place; returns the
        figures of the export, and what it raises refuses the export.

    Raises:
      UserError: see `export_model.run`.
    """
    record, model, path = destination.record, options.model, destination.path
    assert record.write is not None
    export = export_graph.build(options)
    names = moving_average.names_of_weights(checkpoint, export.weights, options.use_moving_average)
    with checkpoint_network.explained(checkpoint, model):
        checkpoints.require_all(checkpoint, export.weights, names, model.num_classes)
    images = random_images(options)
    logging.info("Exporting '%s'.", checkpoint)
    values = checkpoints.read_all(checkpoint, export.weights, names)
    expected = export_graph.predict(export, values, images)
    if not np.all(np.isfinite(expected.probabilities)):
        raise CheckpointError(
            f"The probabilities predicted with the weights of '{checkpoint}' are not finite. Export another checkpoint."
        )
    network = FrozenNetwork(
        export_graph.freeze(export, values), export_graph.crop_size_of(options), model.input_channels,
        options.image_bits, model.num_classes, metadata=facts, has_signatures=bool(facts),
        has_warmup=options.conversion.has_warmup, maps=export.maps,
    )  # fmt: skip
    folder = output_files.make_folder(os.path.dirname(path) or '.')
    with destinations.beside(path, record) as temporary:
        with output_files.writing_to(folder, 'ExportOptions.export_path'):
            record.write(network, temporary, **options.settings_of(record))
        del network  # large
        predicted = _predicted(temporary, images, record, model)
        comparison = compared([(predicted, expected)], task_decoding.channels_of(model))
        require_equal(comparison, record)
        proofs = (prove(temporary, comparison),) if prove is not None else ()
        if options.save_inference_graph:
            with output_files.writing_to(folder, 'ExportOptions.export_path'):
                sessions.write_graph(export_graph.with_variables(options), os.path.join(folder, INFERENCE_GRAPH))
    step, size = checkpoints.step_of(checkpoint), writing.size_of(path)
    result = PlainExport(
        path, checkpoint, step, export.parameters, size, comparison.agreement, comparison.difference, '', proofs
    )
    return dataclasses.replace(result, report=report(result, options, record, images.shape))


def random_images(options: ExportOptions) -> np.ndarray:
    """Returns sample images for the export, [n, h, w, channels]: several if it takes several at a time."""
    height, width = export_graph.crop_size_of(options)
    if not options.resize.is_set:
        height, width = height - height // 4, width - width // 5  # so that there is padding
    seeds = range(_DYNAMIC_BATCH if options.conversion.has_dynamic_batch else 1)
    pixels = np.stack([sample_image((height, width), options.model.input_channels, seed).image for seed in seeds])
    return pixels if options.image_bits == 8 else pixels.astype(np.uint16) * 257


def _predicted(path: str, images: np.ndarray, record: ExportFormat, model: ModelOptions) -> Outputs:
    """Runs an export on images [n, h, w, channels]; returns labels [n, h, w] and probabilities or maps [n, h, w, c]."""
    if model.is_semantic and (len(images) == 1 or record.open is None):
        assert record.run is not None
        predictions = [record.run(path, image) for image in images]
        return Outputs(*map(np.stack, zip(*predictions, strict=True)))
    pixels = images.astype(np.float32) / (257 if images.dtype == np.uint16 else 1)  # 0 to 255
    with exports.opened(path, record=record) as exported:
        return exported.predict(pixels, True)


def require_equal(comparison: Comparison, record: ExportFormat) -> None:
    """Raises an error if an export deviates more than its format may.

    Args:
      comparison: its predictions beside the predictions of its network.
      record: the format, which states how far they may deviate before the export is regarded as broken.

    Raises:
      RuntimeError: they differ by more than rounding errors, which is a defect of this program.
    """
    agreement, difference = comparison.agreement, comparison.difference
    assert difference is not None
    if not (agreement >= record.least_agreement and difference <= record.most_difference):
        what = 'outputs' if comparison.differences else 'probabilities'
        raise RuntimeError(
            f'The exported graph and its network predict different results: {agreement:.2%} of the labels agree, '
            f'{what} differ by up to {difference:.2g}. Nothing was written; please report this.'
        )


def outputs(record: ExportFormat, model: ModelOptions, shape: Sequence[Any], with_floats: bool = True) -> list[str]:
    """Returns a line for each output of an export, the labels first.

    Args:
      record: its format.
      model: the network.
      shape: batch, height and width of its images.
      with_floats: whether there are others than the labels.
    """
    sides = ', '.join(map(str, (shape[0], 1, 1) if model.is_per_image else shape))
    probabilities = record.tensors[2]
    suffix = ':0' if probabilities.endswith(':0') else ''
    maps = {name + suffix: channels for name, channels in task_decoding.channels_of(model).items()}
    shown = (maps or {probabilities: model.num_classes}).items() if with_floats else ()
    lines = [f'        {name} float32 [{sides}, {channels}]' for name, channels in shown]
    return [f'Output: {record.tensors[1]} int32 [{sides}]', *lines]


_DYNAMIC_BATCH = 3  # images at a time on which an export that takes any number is compared

# Decoded like records: Pillow's JPEG decoder gives slightly different pixels, 1 % different labels (docs/export.md).
_RGB_IMAGE = "tf.io.decode_jpeg(tf.io.read_file('image.jpg'), channels=3).numpy()  # PNG too"
_OTHER_IMAGE = "np.load('image.npy')  # [height, width, {channels}] uint{bits}"


def report(result: PlainExport, options: ExportOptions, record: ExportFormat, shape: tuple[int, ...]) -> str:
    """Returns the description of an export, with Python code that runs it.

    Args:
      result: the export.
      options: network and sizes.
      record: its format.
      shape: shape of the images on which it was compared, [n, h, w, channels].
    """
    model = options.model
    image, height, width = record.tensors[0], *export_graph.crop_size_of(options)
    compared_on = f'a random {shape[1]} x {shape[2]} image'
    batch: int | str = 1
    if options.conversion.has_dynamic_batch:
        batch, compared_on = 'n', f'a batch of {shape[0]} random {shape[1]} x {shape[2]} images'
    kind = 'RGB, ' if model.input_channels == 3 else ''
    sizes = f'up to {height} x {width} pixels (height x width)'
    if options.resize.is_set or model.is_per_image:
        most = '' if model.is_per_image else 'at most '
        sizes = f'resized to {most}{height} x {width} pixels (height x width) inside'
    lines = [
        f"Exported '{result.checkpoint}' (step {result.global_step}): {model.model_variant}, {model.num_classes} "
        f'classes, {result.parameters:,} parameters.',
        f'{record.title}: {result.path} ({names.byte_size(result.size)})',
        f'Input:  {image} uint{options.image_bits} [{batch}, height, width, {model.input_channels}], {kind}{sizes}',
        *outputs(record, model, (batch, 'height', 'width')),
        f'Read back and run on {compared_on}: {result.agreement:.2%} of its '
        f'labels equal the labels of the checkpoint, {"probabilities" if model.is_semantic else "outputs"} differ by '
        f'at most {result.difference:.1g}.',
    ]
    if options.save_inference_graph:
        lines.append(f'Graph with variables: {os.path.join(os.path.dirname(result.path), INFERENCE_GRAPH)}')
    is_plain = (model.input_channels, options.image_bits) == (3, 8)
    read = _RGB_IMAGE if is_plain else _OTHER_IMAGE.format(channels=model.input_channels, bits=options.image_bits)
    return '\n'.join([*lines, *in_python(record, result.path, read)])


def in_python(record: ExportFormat, path: str, image: str, imports: Sequence[str] = ()) -> list[str]:
    """Returns the lines of a report with Python code that runs an export; none for a format without an example.

    Args:
      record: its format.
      path: where it lies.
      image: expression that reads an image.
      imports: lines that this expression needs before it.
    """
    return ['', 'To run it in Python:', '', *imports, record.example_of(path, image)] if record.example else []
