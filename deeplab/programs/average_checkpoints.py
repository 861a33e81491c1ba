"""The mean of the weights of several checkpoints of one network, as one checkpoint (`deeplab average_checkpoints`)."""

from __future__ import annotations

if __name__ == '__main__':  # `python -m deeplab.average_checkpoints`; first, so that help does not wait for TensorFlow
    from deeplab import start

    start.run_program('average_checkpoints')

import dataclasses
import os
from collections.abc import Sequence

from absl import logging

from deeplab import names
from deeplab.core import checkpoints
from deeplab.datasets.segmentation_dataset import DataSource
from deeplab.errors import OptionError
from deeplab.files import folder_lock, output_files, run_manifests
from deeplab.inference import model_source
from deeplab.inference.run_weights import WeightsChoice
from deeplab.options import AverageOptions
from deeplab.system import memory
from deeplab.training import precision, run_manifest, split_input, weight_averaging
from deeplab.wording import option

_OUTPUT_DIR = 'AverageOptions.output_dir'


@dataclasses.dataclass(frozen=True)
class AverageResult:
    """Result of a run of the program: the checkpoint of the mean, its sources, and a text for the user."""

    checkpoint: str
    sources: tuple[str, ...]
    report: str


@memory.explained('average_checkpoints')
def run(options: AverageOptions) -> AverageResult:
    """Writes a checkpoint with the mean of the weights, which eval, predict and export_model take, and its run.json.

    Raises:
      UserError: the checkpoints are of different networks, there are fewer than two, the records are missing, the
        folder has checkpoints of a training, or it cannot be written.
    """
    folder = options.output_dir
    output_files.require_folder(folder, _OUTPUT_DIR)
    paths = weight_averaging.checkpoints_at(options.checkpoints)
    _require_other_folder(folder, paths)
    if not options.train.dataset.directory:
        raise OptionError(
            f"There is no run.json beside '{paths[0]}' that names its records. Pass "
            f'{option("DatasetOptions.directory")} and the other flags of its training'
        )
    weight_averaging.require_one_network(paths)
    model_source.require_one_description(paths, 'Pass checkpoints of one network')
    choice = WeightsChoice(options.use_moving_average, 'AverageOptions.use_moving_average')
    averages = [choice.takes_averages(path) for path in paths]
    output_files.make_folder(folder)
    with folder_lock.held(folder, 'average_checkpoints', _OUTPUT_DIR):
        # The check of the records is kept in the folder of the result: the training may be running.
        training = dataclasses.replace(precision.resolved(options.train)[0], train_logdir=folder)
        data = split_input.open_data(training, DataSource(training.dataset))
        training = split_input.with_label_weights(training, data)
        images = data.num_images if options.batch_norm_images is None else options.batch_norm_images
        if images and not training.fine_tune_batch_norm:
            images = 0
            logging.info('The training has not changed the statistics of batch norms: they are kept.')
        described = dataclasses.replace(training, moving_average_decay=None)
        described_run = run_manifest.describe(described, data, max(map(checkpoints.step_of, paths)))
        described_run['averaged'] = {
            'checkpoints': [run_manifest.checkpoint(path) for path in paths],
            'moving_averages': averages,
            'batch_norm_images': images,
        }
        path = weight_averaging.write(paths, averages, training, data, images, folder)
        with output_files.writing_to(folder, _OUTPUT_DIR):  # last: it describes a checkpoint that exists
            run_manifest.write(folder, described_run)
    measured = f', batch norms measured on {names.counted(images, "image")}' if images else ''
    lines = [f'  {source}' for source in paths]
    report = '\n'.join([f'Mean of the weights of {len(paths)} checkpoints{measured}:', *lines, path])
    return AverageResult(path, tuple(paths), report)


def _require_other_folder(folder: str, paths: Sequence[str]) -> None:
    """Raises `OptionError` if the folder has checkpoints that a training may continue from."""
    has_source = any(os.path.realpath(os.path.dirname(path)) == os.path.realpath(folder) for path in paths)
    has_others = bool(checkpoints.on_disk(folder)) and 'averaged' not in (run_manifests.newest_in(folder) or {})
    if has_source or has_others or folder_lock.owner(folder, 'train') is not None:
        found = 'one of the checkpoints' if has_source else 'checkpoints'
        raise OptionError(
            f'{option(_OUTPUT_DIR, folder)} has {found}, from which a training run may continue. Set another folder'
        )
