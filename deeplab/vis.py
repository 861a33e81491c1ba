"""Visualization: writes the predictions of checkpoints for a split as images.

`python deeplab/vis.py --flag=...`, `python -m deeplab.vis` and `deeplab vis` are one program.
"""

from __future__ import annotations

if __name__ == '__main__':  # first, so that help and usage errors do not wait for TensorFlow
    import os
    import sys

    if not __package__:  # run as a file: replace the folder of this file by the folder of the package
        sys.path[0] = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
    from deeplab import start

    sys.exit(start.main(['vis', *sys.argv[1:]]))

import dataclasses
import os
from collections.abc import Callable, Iterable, Sequence

import numpy as np
from absl import logging

from deeplab import common, names
from deeplab.datasets import task_data
from deeplab.datasets.descriptor import DatasetDescriptor
from deeplab.datasets.segmentation_dataset import DataSource
from deeplab.errors import OptionError
from deeplab.evaluation import runner, submission, waiting
from deeplab.evaluation.further_pictures import FurtherPictures, Shown, TaskFiles
from deeplab.files import folder_lock, output_files, part_folders, writing, written_files
from deeplab.inference import any_size, network_source, opening, task_decoding, task_files
from deeplab.inference.network import InferenceNetwork, memory_size
from deeplab.inference.run_weights import WeightsChoice
from deeplab.inference.task_decoding import TaskDecoder
from deeplab.options import VIS_SAVED, EngineOptions, ResizeOptions, VisOptions, parts
from deeplab.options.parts import Part
from deeplab.system import memory, overlap, processors
from deeplab.utils import get_dataset_colormap, save_annotation
from deeplab.wording import option

PICTURES = 'segmentation_results'
RAW_PREDICTIONS = 'raw_segmentation_results'
_WAITING_PER_THREAD = 4  # images that may wait to be written
_MOST_WAITING_BYTES = 1 << 29  # of these; one image may be larger

Extra = FurtherPictures | TaskFiles | submission.Submission  # writes further files of images, in several threads


@dataclasses.dataclass(frozen=True)
class VisResult:
    """Result of a run of the program.

    Attributes:
      rounds: one for each checkpoint, in order; the images of a later round replace earlier images.
      pictures_dir: folder of NUMBER_image.png and NUMBER_prediction.png.
      raw_dir: folder of NAME.png with class ids; None if not requested.
      submission: path of the archive for an evaluation server; None if not requested.
      report: where the files are, for the user.
    """

    rounds: tuple[runner.CheckpointPass, ...]
    pictures_dir: str
    raw_dir: str | None
    submission: str | None
    report: str


def run(options: VisOptions) -> VisResult:
    """Visualizes each new checkpoint until the limits in `options.wait` are reached.

    Args:
      options: the checkpoints, the network and the split.

    Returns:
      Where the images are.

    Raises:
      UserError: Data set, network or checkpoint are missing or do not match, a file cannot be written, or another vis
        writes to the folder.
    """
    size = memory_size('vis', options.model, options.batch_size)
    folder = options.part.folder(options.vis_logdir)
    with folder_lock.held(folder, 'vis', 'VisOptions.vis_logdir'), memory.explained('vis', size=size):
        return _run(options)


def _run(options: VisOptions) -> VisResult:
    opening.check(options.engine)  # before the records, which may take long
    options = network_source.at(options.checkpoint_dir).applied(options)
    usual = () if options.model.is_semantic else ('overlay',)
    kinds = task_files.kinds(options.save, usual, VIS_SAVED, options.model, 'VisOptions.save')
    options = dataclasses.replace(options, save=kinds)
    split = runner.open_split(
        DataSource(options.dataset).split(),
        options.model if options.windows is None else dataclasses.replace(options.model, crop_size=None),
        options.resize,
        options.needs_labels,
        cache_dir=options.vis_logdir,
        chooses_crop=options.windows is not None,
    )
    colormap = choose_colormap(options.colormap_type, split.descriptor)
    written = split.descriptor if options.uses_eval_ids else dataclasses.replace(split.descriptor, eval_ids=None)
    decoder = _decoder(options, split.descriptor, colormap)
    if options.submission is not None:
        corrupt = split.check_result.corrupt
        submission.check(options.submission, split.descriptor, options.dataset.split, split.image_names(), corrupt)
    runner.warn_of_flips(options.prediction, options.model)
    options, split, before = _of_part(options, split)
    pictures_dir = output_files.make_folder(os.path.join(options.vis_logdir, PICTURES))
    raw_dir = None
    if options.also_save_raw_predictions:
        raw_dir = output_files.make_folder(os.path.join(options.vis_logdir, RAW_PREDICTIONS))
    for folder in (pictures_dir, *([raw_dir] if raw_dir else [])):
        writing.remove_leftovers(folder, r'.+\.png')
    network = InferenceNetwork(
        options.model, options.prediction, options.batch_size, 'confidence' in options.save, of_labels_only=True,
        resize=options.resize,
    )  # fmt: skip
    if not options.master and options.engine == EngineOptions():
        network.check_memory('vis')
    task = runner.Task(
        network, split, options.resize, master=options.master, engine=options.engine,
        cache_dirs=(options.vis_logdir,), windows=options.windows,
    )  # fmt: skip
    rounds = []
    extras: list[Extra] = []
    choice = WeightsChoice(options.use_moving_average, 'VisOptions.use_moving_average')
    for checkpoint in waiting.rounds(options.checkpoint_dir, options.wait):
        task = dataclasses.replace(task, use_moving_average=choice.takes_averages(checkpoint))
        if decoder is not None:
            decoder = decoder.calibrated(network_source.at(checkpoint).calibration())
        extras = _extras(options, split, pictures_dir, colormap, decoder)
        pictures = Pictures(pictures_dir, raw_dir, written, options.resize, colormap, decoder, extras)
        keys = (*pictures.keys, *([pictures.truth_key] if options.needs_labels else []))
        writer = Writer(pictures.write, before)
        keep_original = undoes_resize(options.resize)
        rounds.append(runner.run_checkpoint(checkpoint, task, 'vis', keys, writer, writer.add_batch, keep_original))
        pictures.finish()
    report = '\n'.join([_report(rounds[-1], pictures), *(e.report() for e in extras)]) if rounds else ''
    if options.part.chosen is not None:
        report += f'\n{_finish_part(options.part.chosen, options, split, rounds[-1], extras)}'
    archive = next((extra.path for extra in extras if isinstance(extra, submission.Submission)), None)
    return VisResult(tuple(rounds), pictures_dir, raw_dir, archive, report)


def _of_part(options: VisOptions, split: runner.Split) -> tuple[VisOptions, runner.Split, list[bytes]]:
    """Returns the options and images of the part, if the options name one, and the names of the images before it."""
    part = options.part.chosen
    if part is None:
        return options, split, []
    places = part.of(split.num_images)
    wait = dataclasses.replace(options.wait, max_rounds=1)
    options = dataclasses.replace(options, vis_logdir=part_folders.begin(options.vis_logdir, part, 'vis'), wait=wait)
    return options, split.selected(places), split.selected(slice(places.start)).stored_names()


def _finish_part(
    part: Part, options: VisOptions, split: runner.Split, done: runner.CheckpointPass, extras: Sequence[Extra]
) -> str:
    """Notes that a part of the split is complete; returns a sentence for the report."""
    settings = parts.settings_of(options) | {
        'weights': network_source.at(done.checkpoint).digest(),
        'records': split.reader.index.facts()['digest'],
    }
    documents = [extra.documents.state() for extra in extras if isinstance(extra, TaskFiles)]
    return part_folders.finish(
        options.vis_logdir, part, 'vis', settings, {'documents': documents, 'images': done.images}
    )


def merge(folder: str, of_parts: Sequence[part_folders.PartFolder]) -> str:
    """Moves the files of all images to the folder, and writes the files about all images; returns the report.

    Raises:
      DataError: a file is missing, or cannot be written.
    """
    documents = [part.facts['documents'] for part in of_parts]
    joined = [name for each in documents[0] for name in each['names']]
    part_folders.move_files(folder, of_parts, joined, replaces_earlier=True)
    written = written_files.WrittenFiles(folder, 'vis')
    for several in zip(*documents, strict=True):
        for path in task_files.write_joined(folder, several):
            written.add(path)
    return f'{names.counted(sum(part.facts["images"] for part in of_parts), "image")} in {folder}'


def _decoder(options: VisOptions, descriptor: DatasetDescriptor, colormap: np.ndarray) -> TaskDecoder | None:
    """Returns what decodes the maps of the network; None for a network of classes alone.

    Raises:
      OptionError: The data set lacks what a task of the network requires, or ids are asked for that it does not have.
    """
    model = options.model
    if model.is_semantic:
        return None
    for name in ('also_save_raw_predictions', 'submission'):
        value = getattr(options, name)
        if value and not task_decoding.has_classes(model):
            raise OptionError(
                f'{option(f"VisOptions.{name}", value)} needs a class for each pixel, which '
                f'{option("ModelOptions.task", model.task)} does not predict. Omit it.'
            )
    context = task_data.context_of(descriptor, model)
    return TaskDecoder(model, context._replace(palette=colormap[: descriptor.num_classes]))


def _extras(
    options: VisOptions, split: runner.Split, pictures_dir: str, colormap: np.ndarray, decoder: TaskDecoder | None
) -> list[Extra]:
    """Returns what writes the further files of a round."""
    extras: list[Extra] = []
    kinds = [kind for kind in options.save if kind in VIS_SAVED]
    of_tasks = [kind for kind in options.save if kind not in VIS_SAVED]
    if kinds:
        extras.append(FurtherPictures(pictures_dir, kinds, split.descriptor, colormap, options.overlay_alpha))
    if of_tasks and decoder is not None:
        extras.append(TaskFiles(options.vis_logdir, of_tasks, decoder))
    if options.submission is not None:
        sizes = split.check_result.sizes
        extras.append(submission.Submission(options.submission, options.vis_logdir, split.descriptor, sizes))
    return extras


def choose_colormap(colormap_type: str | None, descriptor: DatasetDescriptor) -> np.ndarray:
    """Returns the colors of the classes, [n, 3] uint8: of the given color map, or the data set's palette for None.

    Raises:
      OptionError: The color map has fewer colors than the data set has classes.
    """
    if colormap_type is None:
        palette: np.ndarray = descriptor.palette
        return palette
    colormap: np.ndarray = get_dataset_colormap.create_label_colormap(colormap_type).astype(np.uint8)
    if len(colormap) < descriptor.num_classes:
        raise OptionError(
            f'{option("VisOptions.colormap_type", colormap_type)} has {len(colormap)} colors, the data set '
            f"'{descriptor.name}' {descriptor.num_classes} classes. Omit {option('VisOptions.colormap_type')} to use "
            'the colors of the data set.'
        )
    return colormap


def undoes_resize(resize: ResizeOptions) -> bool:
    """Returns whether predictions are resized back to the size of the original image."""
    return resize.min_value is not None and resize.max_value is not None


class Pictures:
    """Writes the files of one image; safe to use from several threads for different images."""

    def __init__(
        self,
        pictures_dir: str,
        raw_dir: str | None,
        descriptor: DatasetDescriptor,
        resize: ResizeOptions,
        colormap: np.ndarray,
        decoder: TaskDecoder | None = None,
        extras: Sequence[Extra] = (),
    ) -> None:
        """Creates the object; writes nothing yet.

        Args:
          pictures_dir: folder for images and colored predictions. The folder above it lists what vis wrote: files of
            earlier runs are removed before the first file is written.
          raw_dir: folder for class ids; None for none.
          descriptor: the data set; raw predictions have its `eval_ids`.
          resize: how the images were resized.
          colormap: [n, 3] uint8, colors of the classes.
          decoder: what decodes the maps of the network; None for a network of classes alone.
          extras: what writes further files of each image.
        """
        self._written, self._extras = written_files.WrittenFiles(os.path.dirname(pictures_dir), 'vis'), extras
        self.pictures_dir, self.raw_dir, self._colormap, self._decoder = pictures_dir, raw_dir, colormap, decoder
        self.has_classes = decoder is None or task_decoding.has_classes(decoder.options)
        self._eval_ids = None if descriptor.eval_ids is None else np.array(descriptor.eval_ids, np.uint8)
        self._undoes_resize = undoes_resize(resize)
        self._image_key = common.ORIGINAL_IMAGE if self._undoes_resize else common.IMAGE
        self.truth_key = common.ORIGINAL_LABEL if self._undoes_resize else common.LABEL
        original_size = (common.ORIGINAL_HEIGHT, common.ORIGINAL_WIDTH) if self._undoes_resize else ()
        self.keys = (self._image_key, common.IMAGE_NAME, common.HEIGHT, common.WIDTH, *original_size)

    def write(self, number: int, name: str, sample: runner.Batch) -> None:
        """Writes the files of one image.

        Args:
          number: its index in the split, from 0.
          name: name of the raw prediction's file, without extension.
          sample: arrays by `keys` and `runner.PREDICTION`, and for some extras by `truth_key` and
            `runner.CONFIDENCE` or `runner.MAPS`, without a batch dimension.

        Raises:
          DataError: A file cannot be written, or one of an earlier run cannot be removed.
        """
        height, width = int(sample[common.HEIGHT]), int(sample[common.WIDTH])
        labels = sample[runner.PREDICTION][:height, :width]
        confidence = sample[runner.CONFIDENCE][:height, :width] if runner.CONFIDENCE in sample else None
        maps = None
        if self._decoder is not None:
            maps = sample[runner.MAPS][:height, :width]
            confidence = maps[..., : self._decoder.options.num_classes].max(axis=2) if self.has_classes else None
        if self._undoes_resize:
            height, width = int(sample[common.ORIGINAL_HEIGHT]), int(sample[common.ORIGINAL_WIDTH])
            if self._decoder is not None and maps is not None:
                maps = task_decoding.resized(maps, self._decoder.options, (height, width))
            labels = any_size.nearest(labels, height, width)
            confidence = None if confidence is None else any_size.nearest(confidence, height, width)
        truth = sample[self.truth_key][:height, :width, 0] if self.truth_key in sample else None
        image = save_annotation.rounded(sample[self._image_key][:height, :width])
        self._written.begin()
        name_of_image, name_of_prediction = f'{number:06d}_image', f'{number:06d}_prediction'
        paths = [save_annotation.save_image(save_annotation.viewable(image), self.pictures_dir, name_of_image)]
        if self.has_classes:
            colors = self._colormap
            paths.append(
                save_annotation.save_annotation(labels, self.pictures_dir, name_of_prediction, colormap_type=colors)
            )
        if self.raw_dir is not None:
            ids = labels if self._eval_ids is None else self._eval_ids[labels]
            paths.append(save_annotation.save_annotation(ids, self.raw_dir, name, add_colormap=False))
        tasks = None if self._decoder is None or maps is None else self._decoder(maps)
        shown = Shown(number, bytes(sample[common.IMAGE_NAME]), name, image, labels, truth, confidence, tasks)
        for extra in self._extras:
            paths += extra.write(shown)
        for path in paths:
            self._written.add(path)

    def finish(self) -> None:
        """Writes the further files that belong to all images.

        Raises:
          DataError: One cannot be written, or an evaluation server would refuse it.
        """
        for extra in self._extras:
            for path in extra.finish():
                self._written.add(path)


class Writer(overlap.Background[[int, str, runner.Batch]]):
    """Writes images in threads while the network computes; a bounded number of them may wait."""

    def __init__(self, write: Callable[[int, str, runner.Batch], None], before: Sequence[bytes] = ()) -> None:
        """Creates the writer.

        Args:
          write: called with number, file name and sample, in threads.
          before: names of the images before the first one, whose numbers and file names are taken.
        """
        threads = min(processors.available_cores(), 8)
        super().__init__(write, threads, threads * _WAITING_PER_THREAD, _bytes_of, _MOST_WAITING_BYTES)
        self._names = _FileNames()
        for name in before:
            self._names.add(name)

    def add_batch(self, batch: runner.Batch) -> None:
        """Adds a batch, arrays [n, ...] by key; raises the error of an earlier image, if any."""
        for i, image_name in enumerate(batch[common.IMAGE_NAME]):
            number, name = self._names.count, self._names.add(image_name)
            self.add(number, name, {key: values[i] for key, values in batch.items()})


class _FileNames:
    """Names of files, without extension, for the images of a split in their order.

    Attributes:
      count: number of images so far.
    """

    def __init__(self, logs: bool = True) -> None:
        self.count = 0
        self._logs = logs
        self._names: set[str] = set()

    def add(self, image_name: bytes) -> str:
        """Returns a file name for the next image that no other image of this round has."""
        name, is_changed = names.file_name(image_name)
        is_taken = name in self._names
        if is_changed or is_taken or not name:
            name = f'{name}_{self.count:06d}' if name else f'{self.count:06d}'
        while name in self._names:
            name = f'{name}_{self.count:06d}'
        if self._logs and (is_changed or is_taken):
            logging.warning(
                "Image number %06d is named '%s', %s: its file is named '%s'.",
                self.count,
                names.shown(image_name),
                'like another one' if is_taken else 'which is not a valid file name',
                names.shown(name),
            )
        self._names.add(name)
        self.count += 1
        return name


def file_names(image_names: Iterable[bytes]) -> list[str]:
    """Returns the names of the files of class ids, without extension, for the images of a split in their order."""
    taken = _FileNames(logs=False)
    return [taken.add(name) for name in image_names]


def _bytes_of(number: int, name: str, sample: runner.Batch) -> int:
    return sum(getattr(value, 'nbytes', 0) for value in sample.values())


def _report(result: runner.CheckpointPass, pictures: Pictures) -> str:
    first = os.path.join(pictures.pictures_dir, '000000_image.png')
    lines = [
        result.speed_text(),
        f'Images and colored predictions: {first}, 000000_prediction.png, ...'
        if pictures.has_classes
        else f'Images: {first}, ...',
    ]
    if pictures.raw_dir is not None:
        lines.append(f'Predictions as ids: {os.path.join(pictures.raw_dir, "NAME.png")}')
    if result.engine is not None:
        lines.append(result.engine.text())
    return '\n'.join(lines)
