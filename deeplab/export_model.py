"""Export of a trained network in a format that runs without this package, such as a frozen graph or a SavedModel.

`python deeplab/export_model.py --flag=...`, `python -m deeplab.export_model` and `deeplab export_model` (or `deeplab
export`) are one program.
"""

from __future__ import annotations

if __name__ == '__main__':  # first, so that help and usage errors do not wait for TensorFlow
    import os
    import sys

    if not __package__:  # run as a file: replace the folder of this file by that of the package
        sys.path[0] = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
    from deeplab import start

    sys.exit(start.main(['export_model', *sys.argv[1:]]))

import dataclasses
import os
from collections.abc import Mapping, Sequence

import numpy as np
import tensorflow as tf
from absl import logging

from deeplab import common
from deeplab.core import checkpoints, moving_average, sessions
from deeplab.errors import CheckpointError, NetworkMismatchError
from deeplab.evaluation import runner
from deeplab.export import export_files, export_graph
from deeplab.options import ExportOptions
from deeplab.registry import EXPORT_FORMATS, ExportFormat, FrozenNetwork
from deeplab.utils import checkpoint_network, memory, output_files
from deeplab.wording import option

INFERENCE_GRAPH = 'inference_graph.pbtxt'


@dataclasses.dataclass(frozen=True)
class Result:
    """What was exported.

    Attributes:
      path: file or folder that was written.
      checkpoint: path of the checkpoint.
      global_step: its step.
      parameters: number of trainable parameters.
      size: bytes on disk.
      agreement: share of a random image's pixels with the same label from the export, read back, and the network.
      difference: largest difference between their probabilities.
      report: all this, and how to run the export, for the user.
    """

    path: str
    checkpoint: str
    global_step: int
    parameters: int
    size: int
    agreement: float
    difference: float
    report: str


@memory.explained('export_model')
def run(options: ExportOptions) -> Result:
    """Exports a checkpoint's network, and compares the export with the network before it is moved to its path.

    Args:
      options: network, checkpoint and format.

    Returns:
      What was written, and the result of the comparison.

    Raises:
      UserError: there is no such network, the checkpoint is missing or does not match it, or the path is in use.
        Nothing is written then.
    """
    record = EXPORT_FORMATS.get(options.export_format)
    export_files.check_installed(record)
    path = os.path.normpath(options.export_path) if record.is_folder else options.export_path
    export_files.check_target(path, record)
    if options.save_inference_graph:
        export_files.check_inference_graph(os.path.join(os.path.dirname(path), INFERENCE_GRAPH))
    checkpoint = find_checkpoint(options.checkpoint_path)
    model = options.model
    runner.warn_of_crop_size(model.crop_size, model.output_stride)
    runner.warn_of_flips(options.prediction)
    export = export_graph.build(options)
    names = moving_average.average_of_each(checkpoint, export.weights) if options.use_moving_average else None
    with checkpoint_network.explained(checkpoint, model):
        check_fit(checkpoint, export.weights, model.num_classes, names)
    image = random_image(options)
    logging.info("Exporting '%s'.", checkpoint)
    values = checkpoints.read_all(checkpoint, export.weights, names)
    labels, probabilities = export_graph.predict(export, values, image)
    if not np.all(np.isfinite(probabilities)):
        raise CheckpointError(
            f"The probabilities predicted with the weights of '{checkpoint}' are not finite. Export another checkpoint."
        )
    frozen = export_graph.freeze(export, values)
    network = FrozenNetwork(frozen, model.crop_size, model.input_channels, options.image_bits, model.num_classes)
    del frozen  # large: `network` is deleted when it is written
    folder = output_files.make_folder(os.path.dirname(path) or '.')
    with export_files.beside(path) as temporary:
        with output_files.writing_to(folder, 'ExportOptions.export_path'):
            record.write(network, temporary, **options.format_parameters)
        del network
        agreement, difference = compare(record.run(temporary, image), (labels, probabilities), record)
        if options.save_inference_graph:
            with output_files.writing_to(folder, 'ExportOptions.export_path'):
                _write_inference_graph(export_graph.with_variables(options), folder)
    facts = Result(
        path, checkpoint, checkpoints.step_of(checkpoint), export.parameters, export_files.size_of(path),
        agreement, difference, '',
    )  # fmt: skip
    return dataclasses.replace(facts, report=report(facts, options, image.shape))


def find_checkpoint(path: str) -> str:
    """Returns the checkpoint at `path`, or the newest complete one in a folder.

    Raises:
      CheckpointError: there is none, or the path is one of a checkpoint's files.
    """
    if not os.path.isdir(path):
        return checkpoints.check_path(path)
    return checkpoints.require_newest(path)


def check_fit(
    path: str, variables: Sequence[tf.Variable | tf.Tensor], num_classes: int, names: Mapping[str, str] | None = None
) -> None:
    """Compares a checkpoint with the network to be exported.

    Args:
      path: of the checkpoint.
      variables: all variables of the network, or placeholders with their names.
      num_classes: number of its classes.
      names: names of variables in the checkpoint, by the variables' names; None for the same names.

    Raises:
      CheckpointError: it has another number of classes (the message gives both), or lacks variables or has them in
        other shapes (the message lists all).
    """
    held = checkpoints.entries(path)
    names = names or {}
    shapes = {names.get(v.op.name, v.op.name): tuple(v.shape.as_list()) for v in variables}
    missing = [name for name in shapes if name not in held]
    different = [name for name in shapes if name in held and held[name].shape != shapes[name]]
    classes = {held[name].shape[-1] for name in different if _may_count_classes(name, shapes[name], num_classes)}
    lines = []
    if len(classes) == 1:
        (found,) = classes
        field = 'ModelOptions.outputs_to_num_classes'
        lines.append(
            f"{option(field, num_classes)}, but the checkpoint '{path}' has {found} classes. Set "
            f'{option(field, found)} to export it, or give a checkpoint with {num_classes} classes.'
        )
        different = [name for name in different if not _may_count_classes(name, shapes[name], num_classes)]
    if missing or different:
        lines.append(
            f"The checkpoint '{path}' does not match this network. Set the network options that it was trained with "
            '(model variant, depth multiplier, atrous rates, decoder), or give another checkpoint.'
        )
    if missing:
        lines.append(f'It lacks {len(missing)} of {len(shapes)} variables:')
        lines += [f'  {name} {list(shapes[name])}' for name in missing]
    if different:
        lines.append(f'It has {len(different)} variables in other shapes:')
        lines += [f'  {name} {list(shapes[name])} here, {list(held[name].shape)} there' for name in different]
    if lines:
        kind = checkpoint_network.ClassesMismatchError if len(classes) == 1 else NetworkMismatchError
        raise kind('\n'.join(lines))


def _may_count_classes(name: str, shape: tuple[int, ...], num_classes: int) -> bool:
    """Returns whether the last dimension of a variable is the number of classes, as for logits."""
    scopes = (f'{common.LOGITS_SCOPE}/{common.OUTPUT_TYPE}', f'{common.DECODER_SCOPE}/')
    return name.startswith(scopes) and bool(shape) and shape[-1] == num_classes


def random_image(options: ExportOptions) -> np.ndarray:
    """Returns a test image for the export, [h, w, channels]: colored areas with noise, the same in each run."""
    height, width = options.model.crop_size
    if options.resize.min_value is None and options.resize.max_value is None:
        height, width = height - height // 4, width - width // 5  # so that there is padding
    rng = np.random.default_rng(0)
    channels = options.model.input_channels
    areas = rng.integers(0, 256, (5, 7, channels))
    rows, columns = np.arange(height) * 5 // height, np.arange(width) * 7 // width
    noise = rng.normal(0, 20, (height, width, channels))
    pixels = np.clip(areas[rows][:, columns] + noise, 0, 255)
    return pixels.astype(np.uint8) if options.image_bits == 8 else (pixels * 257).astype(np.uint16)


def compare(
    exported: tuple[np.ndarray, np.ndarray], expected: tuple[np.ndarray, np.ndarray], record: ExportFormat
) -> tuple[float, float]:
    """Compares the predictions of an export with those of its network.

    Args:
      exported: labels [h, w] and probabilities [h, w, classes] of the export.
      expected: the same of the network.
      record: the format, which states how far they may deviate before the export is regarded as broken.

    Returns:
      The share of equal labels, and the largest difference of probabilities.

    Raises:
      RuntimeError: they differ by more than rounding errors, which is a defect of this program.
    """
    agreement = float(np.mean(exported[0] == expected[0]))
    difference = float(np.max(np.abs(exported[1] - expected[1])))
    if not (agreement >= record.least_agreement and difference <= record.most_difference):
        raise RuntimeError(
            f'The exported graph and its network predict different results: {agreement:.2%} of the labels agree, '
            f'probabilities differ by up to {difference:.2g}. Nothing was written; please report this.'
        )
    return agreement, difference


def _write_inference_graph(graph: tf.Graph, folder: str) -> None:
    """Writes the graph with its variables as text."""
    sessions.write_graph(graph, os.path.join(folder, INFERENCE_GRAPH))


# Decoded like records: Pillow's JPEG decoder gives slightly different pixels, 1 % different labels (docs/export.md).
_RGB_IMAGE = "tf.io.decode_jpeg(tf.io.read_file('image.jpg'), channels=3).numpy()  # PNG too"
_OTHER_IMAGE = "np.load('image.npy')  # [height, width, {channels}] uint{bits}"


def report(result: Result, options: ExportOptions, image_shape: tuple[int, ...]) -> str:
    """Returns what was exported, with Python code that runs it."""
    model = options.model
    record = EXPORT_FORMATS.get(options.export_format)
    image, predictions, probabilities = record.tensors
    height, width = model.crop_size
    kind = 'RGB, ' if model.input_channels == 3 else ''
    sizes = f'up to {height} x {width} pixels (height x width)'
    if options.resize.min_value is not None or options.resize.max_value is not None:
        sizes = f'resized to at most {height} x {width} pixels (height x width) inside'
    lines = [
        f"Exported '{result.checkpoint}' (step {result.global_step}): {model.model_variant}, {model.num_classes} "
        f'classes, {result.parameters:,} parameters.',
        f'{record.title}: {result.path} ({result.size / 1e6:.1f} MB)',
        f'Input:  {image} uint{options.image_bits} [1, height, width, {model.input_channels}], {kind}{sizes}',
        f'Output: {predictions} int32 [1, height, width]',
        f'        {probabilities} float32 [1, height, width, {model.num_classes}]',
        f'Read back and run on a random {image_shape[0]} x {image_shape[1]} image: {result.agreement:.2%} of its '
        f'labels equal those of the checkpoint, probabilities differ by at most {result.difference:.1g}.',
    ]
    if options.save_inference_graph:
        lines.append(f'Graph with variables: {os.path.join(os.path.dirname(result.path), INFERENCE_GRAPH)}')
    if not record.example:
        return '\n'.join(lines)
    is_plain = (model.input_channels, options.image_bits) == (3, 8)
    read = _RGB_IMAGE if is_plain else _OTHER_IMAGE.format(channels=model.input_channels, bits=options.image_bits)
    return '\n'.join([*lines, '', 'To run it in Python:', '', record.example.format(path=result.path, image=read)])
