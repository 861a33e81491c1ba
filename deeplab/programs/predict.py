"""Prediction of the classes of image files, folders and videos, without records (`deeplab predict`)."""

from __future__ import annotations

if __name__ == '__main__':  # `python -m deeplab.predict`; first, so that help does not wait for TensorFlow
    from deeplab import start

    start.run_program('predict')

import contextlib
import dataclasses
import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

from absl import logging

from deeplab import names
from deeplab.datasets.annotations.shapes import Label
from deeplab.errors import DataError
from deeplab.files import folder_lock, part_folders, written_files
from deeplab.inference import (
    annotation_files,
    inputs,
    output_folder,
    pipeline,
    raster_prediction,
    task_decoding,
    task_files,
    videos,
)
from deeplab.inference.inputs import Failure, InputFile
from deeplab.inference.predictor import Predictor
from deeplab.options import SAVED, USUAL_SAVED, VIDEO, PredictOptions, parts
from deeplab.system import interrupts, memory

_MOST_SHOWN = 20  # failures in the report; the summary has all


@dataclasses.dataclass(frozen=True)
class PredictResult:
    """Result of a run of the program.

    Attributes:
      images: number of images and frames that were predicted.
      failures: files that could not be read or predicted.
      summary: path of predictions.json; empty if there was nothing to predict.
      report: what was written, for the user.
      weights: digest of the weights; empty unless these are a part of the images.
      documents: what the files about all images say, see `RunDocuments.state`.
      is_part: whether these are a part of the images.
    """

    images: int
    failures: tuple[Failure, ...]
    summary: str
    report: str
    weights: str = ''
    documents: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    is_part: bool = False

    @property
    def status(self) -> int:
        """Exit status: 1 if a file could not be predicted; a part is complete then, and the merge has this status."""
        return 1 if self.failures and not self.is_part else 0


@memory.explained('predict')
def run(options: PredictOptions) -> PredictResult:
    """Predicts the files that the options name; returns what was written, and which files could not be read.

    Raises:
      UserError: There is no file to predict, no network, a result cannot be written, or another predict writes to the
        folder. There is then no predictions.json, not even from an earlier run.
    """
    items, missing = inputs.find(options.inputs, options.output_dir)
    if not items:
        reasons = '; '.join(f"'{names.shown(failure.path)}': {failure.reason}" for failure in missing)
        raise DataError(
            f'There is no image to predict{f" ({reasons})" if reasons else ""}. Pass images or their folder'
        )
    if options.is_of_rasters:
        return _predict_rasters(options, items, missing)
    if any(item.is_video for item in items):
        videos.require()
    is_live = any(item.is_live for item in items)
    if is_live and options.save is None:
        options = dataclasses.replace(options, save=(VIDEO,))
    rule = 'a camera or stream cannot be shared among jobs'
    options.part._require(options.part.part is None or not is_live, 'part', rule)
    # Before the network is opened, which may take long, kinds of its tasks are not known.
    plain = [kind for kind in options.save or USUAL_SAVED if kind in (*SAVED, VIDEO)]
    output_folder.OutputFolder(options, plain).check(items)
    part = options.part.chosen
    if part is None:
        return _predict(options, items, missing)
    own = items[part.of(len(items))]
    path = part_folders.begin(options.output_dir, part, 'predict')
    written_files.WrittenFiles(path, 'predict').begin()
    done = _predict(options, own, missing if part.number == 1 else [], path)
    settings = parts.settings_of(options) | {'inputs': inputs.digest_of(items), 'weights': done.weights}
    note = part_folders.finish(path, part, 'predict', settings, {'images': done.images, 'documents': done.documents})
    return dataclasses.replace(done, report=f'{done.report}\n{note}', is_part=True)


def _predict(
    options: PredictOptions, items: Sequence[InputFile], missing: Sequence[Failure], own_folder: str | None = None
) -> PredictResult:
    """Predicts files; `own_folder` is the folder of a part of the images, None for all images."""
    path = own_folder or options.output_dir
    locked = folder_lock.held(path, 'predict', 'PredictOptions.output_dir')
    with locked, _predictor(options) as predictor:
        logging.info("Predicting %s with '%s'.", names.counted(len(items), 'file'), predictor.source)
        kinds = predictor.kinds_of_files(options.save)
        output_folder.OutputFolder(options, kinds, predictor.decoder).check(items)
        colors = predictor.colors.tolist()
        labels = [Label(name, tuple(color)) for name, color in zip(predictor.class_names, colors, strict=True)]
        own_options = dataclasses.replace(options, output_dir=path)
        folder = output_folder.OutputFolder(own_options, kinds, predictor.decoder, labels)
        folder.begin()
        done, summary, failures = _predicted(options, predictor, items, missing, folder)
    has_classes = predictor.decoder is None or task_decoding.has_classes(predictor.decoder.options)
    report = _report(folder, path, done, failures, summary, has_classes)
    weights = '' if own_folder is None else predictor.digest()
    return PredictResult(done.images, failures, summary, report, weights=weights, documents=folder.documents.state())


def _predicted(
    options: PredictOptions,
    predictor: Predictor,
    items: Sequence[InputFile],
    missing: Sequence[Failure],
    folder: output_folder.OutputFolder,
) -> tuple[pipeline.PredictionSummary, str, tuple[Failure, ...]]:
    """Predicts files and writes the summary; returns what was predicted, the path of the summary, and all failures."""
    with_confidence = 'confidence' in folder.kinds or bool(annotation_files.of_kinds(folder.kinds))
    size = options.predictor.batch_size
    with contextlib.ExitStack() as stack:
        stack.callback(folder.close)
        stop = None
        if any(item.is_live for item in items):
            logging.info("Predicting '%s' until Ctrl-C.", items[0].shown)
            stop = stack.enter_context(interrupts.noted())
        done = pipeline.run(predictor, items, folder.write, size, with_confidence, folder.end_video, stop)
        facts = {
            'network': predictor.source,
            'classes': list(predictor.class_names),
            'seconds': round(done.seconds, 3),
            'images_per_second': round(done.images / done.seconds, 3),
        }
        choice = predictor.engine_choice
        facts |= {} if choice is None else choice.as_json()
        failures = (*missing, *done.failures)
        return done, folder.finish(items, failures, facts), failures


def _predict_rasters(options: PredictOptions, items: Sequence[InputFile], missing: Sequence[Failure]) -> PredictResult:
    """Predicts TIFF files block by block."""
    raster_prediction.check(options, items)
    locked = folder_lock.held(options.output_dir, 'predict', 'PredictOptions.output_dir')
    with locked, _predictor(options) as predictor:
        logging.info("Predicting %s with '%s'.", names.counted(len(items), 'raster'), predictor.source)
        done = raster_prediction.run(predictor, items, options)
        failures = (*missing, *done.failures)
        content = {'format': output_folder.FORMAT, 'network': predictor.source, 'classes': list(predictor.class_names)}
        content |= {'seconds': round(done.seconds, 3), 'images': done.entries}
        content['failed'] = [failure._asdict() for failure in failures]
        summary = output_folder.write_summary(options.output_dir, content)
        written_files.WrittenFiles(options.output_dir, 'predict').add(summary)
        report = [f'{names.counted(len(done.entries), "raster")} in {names.duration(done.seconds)}; list: {summary}']
        paths = (path for entry in done.entries for path in entry['files'].values())
        report += [os.path.join(options.output_dir, path) for path in paths]
        report += _failure_lines(failures, summary)
        return PredictResult(len(done.entries), failures, summary, '\n'.join(report))


def merge(folder: str, of_parts: Sequence[part_folders.PartFolder]) -> PredictResult:
    """Moves the files of all images to the folder, and writes the files about all images.

    Raises:
      DataError: a file is missing, or cannot be written.
    """
    summaries = [json.loads(part.read(output_folder.SUMMARY)) for part in of_parts]
    joined = of_parts[0].facts['documents']['names']
    part_folders.move_files(folder, of_parts, (output_folder.SUMMARY, *joined))
    written = written_files.WrittenFiles(folder, 'predict')
    for path in task_files.write_joined(folder, [part.facts['documents'] for part in of_parts]):
        written.add(path)
    seconds, images = sum(each['seconds'] for each in summaries), sum(part.facts['images'] for part in of_parts)
    content = summaries[0] | {
        'seconds': round(seconds, 3),
        'images_per_second': round(images / seconds, 3),
        'images': [entry for each in summaries for entry in each['images']],
        'failed': [entry for each in summaries for entry in each['failed']],
    }
    path = output_folder.write_summary(folder, content)
    written.add(path)
    failed = f', {names.counted(len(content["failed"]), "input")} could not be predicted' if content['failed'] else ''
    failures = tuple(Failure(**each) for each in content['failed'])
    return PredictResult(images, failures, path, f'{names.counted(images, "image")}{failed}; list: {path}')


def _predictor(options: PredictOptions) -> Predictor:
    predictor = options.predictor
    if 'probabilities' in (options.save or ()):
        predictor = dataclasses.replace(predictor, probabilities=True)
    if options.export_path is not None:
        return Predictor.of_export(options.export_path, predictor, options.network)
    if options.ensemble and options.checkpoint_dir is not None:
        paths = [*options.further_checkpoint_dirs, options.checkpoint_dir]
        return Predictor.of_checkpoints(paths, predictor, options.network)
    if options.checkpoint_dir is not None:
        return Predictor.of_options(options.checkpoint_dir, predictor, options.network)
    assert options.preset is not None  # the options have checked it
    return Predictor.of_preset(options.preset, predictor, options.network, options.fetch)


def _report(
    folder: output_folder.OutputFolder,
    output_dir: str,
    done: pipeline.PredictionSummary,
    failures: Sequence[Failure],
    summary: str,
    has_classes: bool,
) -> str:
    """Returns what was written, then the files that could not be predicted."""
    rate = done.images / done.seconds
    lines = [
        f'{names.counted(done.images, "image")} in {names.duration(done.seconds)} ({rate:.1f} images/s).',
        f'{", ".join(folder.kinds)}: {output_dir}; {"shares of the classes" if has_classes else "list"}: {summary}',
        *(f'{kind} of all images: {path}' for kind, path in folder.documents.paths.items()),
        *(f'{kind} of all images: {path}' for kind, path in folder.annotations.paths.items()),
        *(
            f'video: {video.path} ({names.counted(video.frames, "frame")}, {video.rate:.4g}/s)'
            for video in folder.videos
        ),
    ]
    return '\n'.join([*lines, *_failure_lines(failures, summary)])


def _failure_lines(failures: Sequence[Failure], summary: str) -> list[str]:
    """Returns the lines of the report about files that could not be predicted; `summary` is the file with all."""
    if not failures:
        return []
    lines = [f'{names.counted(len(failures), "input")} could not be predicted:']
    lines += [f'  {names.shown(failure.path)}: {failure.reason}' for failure in failures[:_MOST_SHOWN]]
    if len(failures) > _MOST_SHOWN:
        lines.append(f'  and {len(failures) - _MOST_SHOWN} more, see {summary}')
    return lines
