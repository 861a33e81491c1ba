"""Export of a trained network in formats that run without this package, such as a frozen graph, tflite or ONNX.

`python deeplab/export_model.py --flag=...`, `python -m deeplab.export_model` and `deeplab export_model` (or `deeplab
export`) are one program.
"""

from __future__ import annotations

if __name__ == '__main__':  # first, so that help and usage errors do not wait for TensorFlow
    import os
    import sys

    if not __package__:  # run as a file: replace the folder of this file by the folder above
        sys.path[0] = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
    from deeplab import start

    sys.exit(start.main(['export_model', *sys.argv[1:]]))

import dataclasses
import os

from absl import logging

from deeplab.core import checkpoints
from deeplab.core.checkpoints import find_checkpoint
from deeplab.evaluation import runner
from deeplab.export import destinations, export_graph, plain, results
from deeplab.export.destinations import INFERENCE_GRAPH
from deeplab.export.plain import PlainExport
from deeplab.export.work import CheckpointExports
from deeplab.files import output_files, run_manifests
from deeplab.inference import model_source
from deeplab.inference.run_weights import WeightsChoice
from deeplab.options import ExportOptions
from deeplab.system import memory
from deeplab.utils import train_utils
from deeplab.wording import option

__all__ = ['INFERENCE_GRAPH', 'PlainExport', 'find_checkpoint', 'run']


@memory.explained('export_model')
def run(options: ExportOptions) -> PlainExport:
    """Exports a checkpoint's network, and compares each export with the network before it is moved to its path.

    Args:
      options: network, checkpoint and formats.

    Returns:
      What was written, and the result of the comparison: of several exports the first one; `proofs` has all.

    Raises:
      UserError: there is no such network, the checkpoint is missing or does not match it, a format cannot hold it, or
        a path is in use. What could not be written completely is not written.
    """
    targets = destinations.of(options)
    checkpoint = find_checkpoint(options.checkpoint_path)
    _note_best(options, checkpoint)
    _note_resizing(options, targets[0].record.is_portable)
    choice = WeightsChoice(options.use_moving_average, 'ExportOptions.use_moving_average')
    options = dataclasses.replace(options, use_moving_average=choice.takes_averages(checkpoint))
    model = options.model
    if not model.is_per_image:
        train_utils.warn_of_crop_size(export_graph.crop_size_of(options), model.output_stride)
    runner.warn_of_flips(options.prediction, model)
    if not options.formats and not targets[0].record.is_portable and model.is_semantic:
        written = plain.write(options, checkpoint, targets[0], {})
        with output_files.writing_to(os.path.dirname(written.path) or '.', 'ExportOptions.export_path'):
            results.forget(written.path)
        return written
    work = CheckpointExports(options, checkpoint)
    folder = options.export_path if len(targets) > 1 else os.path.dirname(targets[0].path) or '.'  # of export.json
    exports = []
    with work.proving():
        for destination in targets:
            exports.append(work.proven_export(destination))
            with output_files.writing_to(folder, 'ExportOptions.export_path'):
                path = results.write(folder, exports[-1].proofs[0])
    proofs = tuple(proof for export in exports for proof in export.proofs)
    lines = [exports[0].report, ''] if len(exports) == 1 else []
    lines += [f'{proof.format}:{proof.variant}: {proof.path}' for proof in proofs] if len(exports) > 1 else []
    lines += ['', *results.table(proofs), f'All figures: {path}']
    return dataclasses.replace(exports[0], report='\n'.join(lines), proofs=proofs)


def _note_best(options: ExportOptions, checkpoint: str) -> None:
    """Logs which checkpoint of a training's folder was best in validation, if it is another one than the newest."""
    best = checkpoints.newest(os.path.join(options.checkpoint_path, run_manifests.BEST_FOLDER))
    if best is not None and checkpoints.step_in_name(best) != checkpoints.step_in_name(checkpoint):
        logging.info(
            "'%s' is exported, the newest checkpoint. The best one in validation is %s.",
            checkpoint,
            option('ExportOptions.checkpoint_path', best),
        )


def _note_resizing(options: ExportOptions, is_portable: bool) -> None:
    """Warns if the training resized images, and the export does not."""
    trained = model_source.resizing_in_training(options.checkpoint_path)
    if options.model.is_per_image or options.resize.is_set or not trained.is_set:
        return
    values = [option(f'ResizeOptions.{name}', value) for name, value in vars(trained).items() if value is not None]
    logging.warning(
        'The training resized images with %s, but the export does not resize them. Resize images in the same way '
        'before you pass them to it%s.',
        ' '.join(values),
        '' if is_portable else ', or set these options for the export',
    )
