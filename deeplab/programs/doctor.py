"""Diagnosis of a data set before training: its faults, and the sizes and flags that suit it (`deeplab doctor`).

It reads every image and mask once, without TensorFlow.
"""

from __future__ import annotations

if __name__ == '__main__':  # `python -m deeplab.doctor`; first, so that help does not wait for TensorFlow
    from deeplab import start

    start.run_program('doctor')

import contextlib
import dataclasses
import json
import math
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tqdm

from deeplab.checks import (
    agreement_rules,
    class_rules,
    contradicted_masks,
    file_rules,
    html_report,
    inspection,
    instance_rules,
    label_rules,
    label_weights,
    mask_contradictions,
    repaired_copy,
    sources,
    split_rules,
    suggestion,
)
from deeplab.checks.diagnosis import Diagnosis
from deeplab.checks.edges import Agreement
from deeplab.checks.facts import Case, Facts, ImageSummary
from deeplab.checks.findings import Data
from deeplab.checks.inspection import Criteria
from deeplab.checks.repaired_copy import Repairs
from deeplab.checks.rule import SEVERITIES
from deeplab.datasets import color_tables, description_file, folder_splits, images, planes
from deeplab.datasets import descriptor as descriptor_lib
from deeplab.datasets.descriptor import DatasetDescriptor
from deeplab.errors import DataError, OptionError, OutputError
from deeplab.files import cross_validation, output_files, part_folders, typed_json, writing
from deeplab.options import DoctorOptions, parts
from deeplab.options.parts import Part
from deeplab.system import standard_error
from deeplab.wording import option

_NAME = 'deeplab_doctor'
_FACTS = 'facts.state'  # of a part
_RULES = (file_rules, split_rules, label_rules, instance_rules, agreement_rules)
_RULES_OF_CLASSIFICATION = (file_rules, split_rules, class_rules)
_BATCH = 32  # images that a classifier predicts at a time
_MOST_ASSUMED = 1 << 16  # classes


@dataclasses.dataclass(frozen=True)
class PartResult:
    """Result of a part of the work: where it is, for the user."""

    report: str


# Name or file of the description, description, number of classes, colors of masks, splits, and what samples are
# compared with; None for what is unknown.
_Opened = tuple[str | None, DatasetDescriptor, int | None, color_tables.ColorTable | None, sources.Source, Criteria]


def run(options: DoctorOptions, splits: Mapping[str, Facts] | None = None) -> Diagnosis | PartResult:
    """Reads a data set, or a part of it, and reports what is wrong with it.

    Args:
      options: the data set.
      splits: facts about each split by name, if parts have been read before.

    Raises:
      DataError: There is neither a record nor a pair of folders with images and masks.
      OptionError: The data set is unknown, or the folder of the JSON file cannot be written.
      OutputError: A file or the repaired copy cannot be written; the error carries the report.
    """
    if options.part.chosen is not None:
        return _run_part(options, options.part.chosen)
    path = _in_folder(options.output, '.json')
    page = None if options.html is None else _in_folder(options.html, '.html')
    for field, name in (('DoctorOptions.output', path), ('DoctorOptions.html', page)):
        if name is not None:
            output_files.require_folder(os.path.dirname(name) or '.', field)
    with repaired_copy.reserved(options) as repairs:
        diagnosis = _diagnose(options, splits)
        if options.fix is not None:
            try:
                repairs = repairs or repaired_copy.write(diagnosis.data, options.fix)
            except DataError as error:
                raise OutputError(str(error), '\n'.join(diagnosis.lines([]))) from error
            diagnosis = _with_copy(diagnosis, repairs)
        elif any(finding.repair for finding in diagnosis.findings):
            line = suggestion.repair_line(diagnosis.data)
            diagnosis = dataclasses.replace(diagnosis, repair_line=line)
        report = _write(diagnosis, path, page)
    return dataclasses.replace(diagnosis, path=path, report=report)


def _run_part(options: DoctorOptions, part: Part) -> PartResult:
    """Reads a part of each split, and writes the facts about it; `merge` finds out what they say."""
    source, criteria = _opened(options)[-2:]
    part.of(max((len(split) for split in source.splits), default=0))
    folder = part_folders.begin(os.path.dirname(_in_folder(options.output, '.json')), part, 'doctor')
    facts = {split.name: inspection.inspect_split(split, criteria, part) for split in source.splits}
    path = os.path.join(folder, _FACTS)
    with writing.explained(path):
        writing.write(path, typed_json.dumps(facts))
    settings = parts.settings_of(options) | {'splits': {split.name: len(split) for split in source.splits}}
    given = {name: value for name, value in vars(options).items() if name != 'part'}
    return PartResult(part_folders.finish(folder, part, 'doctor', settings, {'options': given}))


def merge(folder: str, of_parts: Sequence[part_folders.PartFolder]) -> Diagnosis | PartResult:
    """Reports what the facts about all parts of a data set say; see `run`, also for the errors."""
    splits = {name: Facts() for name in of_parts[0].settings['splits']}
    for part in of_parts:
        of_part = typed_json.loads(part.read(_FACTS), (Facts, Case, ImageSummary, Agreement))
        for name, facts in splits.items():
            facts.add(of_part[name])
    options = DoctorOptions(**of_parts[0].facts['options'])
    name = os.path.basename(_in_folder(options.output, '.json'))
    return run(dataclasses.replace(options, output=os.path.join(folder, name)), splits)


def _diagnose(options: DoctorOptions, splits: Mapping[str, Facts] | None = None) -> Diagnosis:
    """Reads a data set; returns the findings of all rules with suitable command lines."""
    data = examine(options, splits)
    chosen = _RULES_OF_CLASSIFICATION if data.is_classification else _RULES
    findings = [finding for rules in chosen for finding in rules.check(data)]
    contradictions = None
    if options.checkpoint_dir is not None:
        contradictions = class_rules.contradictions(_predictions(data, options.checkpoint_dir))
        findings += class_rules.contradicted(data, contradictions)
    masks = None
    if options.folds is not None:
        classes = data.descriptor.num_classes, data.descriptor.ignore_label
        masks = mask_contradictions.find(_fold_predictions(data, options.folds), *classes)
        findings += contradicted_masks.findings(data, masks)
    # In order of harm: by severity; then whole splits before the most samples.
    findings.sort(key=lambda finding: (SEVERITIES.index(finding.severity), -(finding.count or math.inf)))
    table = class_rules.table(data) if data.is_classification else _class_table(data)
    suggested = suggestion.suggest(data, findings)
    return Diagnosis(data, tuple(findings), table, suggested, contradictions=contradictions, mask_contradictions=masks)


def _write(diagnosis: Diagnosis, path: str, page: str | None) -> str:
    """Writes the JSON file and the page, then notes in the repaired copy that it is done; returns the report.

    Raises:
      OutputError: A file cannot be written.
    """
    contents = [('DoctorOptions.output', path, json.dumps(diagnosis.as_json(), indent=1) + '\n')]
    if page is not None:
        contents.append(('DoctorOptions.html', page, html_report.render(diagnosis)))
    written: list[str] = []
    for field, name, content in contents:
        output_files.write(name, field, content, '\n'.join(diagnosis.lines(written)))
        written.append(name)
    if diagnosis.repairs is not None:
        with contextlib.suppress(OSError):  # the copy is complete; the same line would find its findings again
            repaired_copy.finish(diagnosis.repairs)
    return '\n'.join(diagnosis.lines(written))


def _with_copy(diagnosis: Diagnosis, repairs: Repairs) -> Diagnosis:
    """Returns the diagnosis with what was done in the repaired copy, and what is still wrong there."""
    of_copy = dataclasses.replace(
        diagnosis.data.options, data=repairs.folder, image_folder=None, mask_folder=None, mask_suffix='',
        list_folder=None, fix=None, folds=None, colors=None, ignore_other_ids=False,
    )  # fmt: skip
    copy = _diagnose(of_copy)
    return dataclasses.replace(diagnosis, repairs=repairs, copy=copy, suggestion=copy.suggestion)


def _opened(options: DoctorOptions) -> _Opened:
    """Finds the splits of a data set, without reading samples.

    Raises:
      OptionError: The data set is unknown, the color table cannot be read, or the number of classes is needed.
    """
    name = options.dataset or description_file.beside(options.data)
    # A rule compares the names with labels.txt.
    described = DatasetDescriptor(options.data, 1) if name is None else descriptor_lib.load(name, with_labels=False)
    if options.ignore_label is not None:
        described = dataclasses.replace(described, ignore_label=options.ignore_label)
    ignore_label = described.ignore_label
    palette = described if options.dataset is not None and described.has_masks else None
    table = color_tables.chosen(options.colors, palette, ignore_label)
    source = sources.open_source(options, described.label_divisor)
    if name is not None and options.num_classes is not None:
        described = _with_classes(described, options.num_classes)
    num_classes = options.num_classes if name is None else described.num_classes
    if options.ignore_other_ids and num_classes is None:
        raise OptionError(
            f'{option("DoctorOptions.ignore_other_ids", True)} needs the number of classes. Set '
            f'{option("DoctorOptions.num_classes")} or {option("DoctorOptions.dataset")}, or write '
            f'{description_file.FILE_NAME} beside the data.'
        )
    # How many masks a plane of overlapping classes has, and what depth in a PNG means, only a description says.
    kinds = (planes.INSTANCE,) if name is None else planes.BUILT
    criteria = Criteria(
        described,
        num_classes,
        is_thorough=True,
        output_stride=options.output_stride,
        in_records=source.is_records,
        planes=planes.of_dataset(kinds, described),
    )
    return name, described, num_classes, table, source, criteria


def _with_classes(described: DatasetDescriptor, num_classes: int) -> DatasetDescriptor:
    """Returns a description with another number of classes, without what it says of each of its own classes."""
    if num_classes == described.num_classes:
        return described
    of_classes: dict[str, Any] = dict.fromkeys(('class_names', 'palette', 'things', 'eval_ids', 'categories'))
    return dataclasses.replace(described, num_classes=num_classes, **of_classes)


def examine(options: DoctorOptions, splits: Mapping[str, Facts] | None = None) -> Data:
    """Reads every sample of a data set once, unless the facts about its `splits` are given.

    Raises:
      DataError: as for `run`.
      OptionError: The data set is unknown, or the color table cannot be read.
    """
    name, described, num_classes, table, source, criteria = _opened(options)
    ignore_label = described.ignore_label
    splits = splits or {split.name: inspection.inspect_split(split, criteria) for split in source.splits}
    train, evaluated = _chosen(options.train_split, splits), _chosen(options.eval_split, splits)
    splits = {name: splits[name] for name in sorted(splits, key=lambda name: (name != train, name != evaluated))}
    if train not in splits and len(splits) == 1:
        train = next(iter(splits))
    if class_rules.has_only_classes(splits):
        described = dataclasses.replace(described, has_masks=False)
    if name is None:
        present = {i for facts in splits.values() for i in np.flatnonzero(facts.counts).tolist()} - {ignore_label}
        present |= {
            i for facts in splits.values() for image in facts.images for i in image.class_ids if i < _MOST_ASSUMED
        }
        classes = num_classes or max(present | {1}) + 1
        described = DatasetDescriptor(options.data, classes, ignore_label, has_masks=described.has_masks)
    has_description = name is not None or not source.is_records
    return Data(described, num_classes is None, splits, train, evaluated, source, options, has_description, table)


def _predictions(data: Data, checkpoint: str) -> Iterator[tuple[str, ImageSummary, np.ndarray]]:
    """Yields the split and the summary of each image, and the probabilities of its classes, [num_classes].

    Raises:
      CheckpointError: There is no checkpoint, or it does not match its network.
      OptionError: It is no classifier of as many classes, or the images have no classes.
    """
    given, number = option('DoctorOptions.checkpoint_dir', checkpoint), data.descriptor.num_classes
    if not data.is_classification:
        raise OptionError(f'{given} is for records of image classification, which these are not. Omit it.')
    with standard_error.without_import_chatter():
        from deeplab.inference.predictor import Predictor  # it needs TensorFlow
    with Predictor.from_checkpoint(checkpoint) as predictor:
        if predictor.decoder is None or not predictor.decoder.options.is_per_image:
            raise OptionError(
                f'{given} is not an image classifier. Pass the checkpoint of a training run with --task=classification.'
            )
        if (classes := len(predictor.class_names)) != number:
            raise OptionError(
                f'{given} has {classes} classes, but the data set has {number}. Pass a classifier trained on the '
                'classes of this data set.'
            )
        for split in data.source.splits:
            images = data.splits[split.name].images
            for start in range(0, len(images), _BATCH):
                batch = images[start : start + _BATCH]
                predictions = predictor([split.read(image.number).image for image in batch])
                for image, prediction in zip(batch, predictions, strict=True):
                    yield split.name, image, prediction.class_probabilities


def _fold_predictions(data: Data, folder: str) -> Iterator[mask_contradictions.FoldPrediction]:
    """Yields the prediction of each image of the folds, by the network that was trained without it.

    Raises:
      CheckpointError: A checkpoint is missing, or does not match its network.
      DataError: The folder has no finished cross-validation.
      OptionError: It is of other records or classes, or the images have no masks.
    """
    given, number = option('DoctorOptions.folds', folder), data.descriptor.num_classes
    folds = cross_validation.read(folder).folds
    lacking = [fold.split for fold in folds if fold.split not in data.splits]
    if lacking:
        raise OptionError(
            f'{given} belongs to other records: these have no split {lacking[0]}. Pass the records of the folds.'
        )
    if data.is_classification:
        raise OptionError(f'{given} is for masks, but these records have classes of whole images. Omit it.')
    with standard_error.without_import_chatter():
        from deeplab.inference.predictor import Predictor  # it needs TensorFlow
    splits = {split.name: split for split in data.source.splits}
    total = sum(len(data.splits[fold.split].images) for fold in folds)
    with tqdm.tqdm(total=total, desc='predict folds', unit='image', disable=None) as bar:
        for fold in folds:
            weights = {'use_moving_average': fold.use_moving_average, 'add_flipped_images': True}
            with Predictor.from_checkpoint(fold.checkpoint, **weights) as predictor:
                if (classes := len(predictor.class_names)) != number:
                    raise OptionError(
                        f'{given} has networks of {classes} classes, but the data set has {number}. Pass the '
                        'cross-validation of this data set.'
                    )
                for image in data.splits[fold.split].images:
                    sample = splits[fold.split].read(image.number)
                    mask = None if sample.mask is None else _ids(sample.mask)
                    if mask is not None and mask.shape == image.size:
                        prediction = predictor.predict([predictor.read(sample.image)])[0]
                        yield mask_contradictions.FoldPrediction(fold.split, image, mask, prediction.probabilities)
                    bar.update()


def _ids(content: bytes) -> np.ndarray | None:
    """Returns the ids of a mask, [h, w] uint8; None if it has none, which other rules report."""
    with contextlib.suppress(DataError):
        return images.mask_ids(content)
    return None


def _chosen(wanted: str, splits: Collection[str]) -> str:
    """Returns the split that an option names: if there is none, the only one of a similar name, such as train_fine."""
    similar = [name for name in splits if folder_splits.usual_split(name) == wanted or name.startswith(f'{wanted}_')]
    return similar[0] if wanted not in splits and len(similar) == 1 else wanted


def _in_folder(path: str, suffix: str) -> str:
    """Returns the path of a file that may be given by its folder."""
    return os.path.join(path, _NAME + suffix) if os.path.isdir(path) else path


def _class_table(data: Data) -> list[dict[str, Any]]:
    """Returns the frequencies of the classes in the splits to train on, and the weights that follow; [] without them.

    If the number of classes is assumed, ids that do not occur are left out.
    """
    facts = Facts()
    for name in data.training_splits:
        facts.add(data.splits[name])
    num_classes, ignore_label = data.descriptor.num_classes, data.descriptor.ignore_label
    pixels = facts.class_pixels(num_classes, ignore_label)
    if not pixels.any():
        return []
    weights = label_weights.median_frequency(pixels, facts.class_image_pixels(num_classes, ignore_label))
    return [
        {
            'id': i,
            'name': data.descriptor.class_name(i),
            'share': pixels[i] / pixels.sum(),
            'images': int(facts.images_with[i]) if pixels[i] else 0,
            'thin_share': facts.thin[i] / pixels[i] if pixels[i] else 0.0,
            'label_weight': float(weights[i]),
        }
        for i in range(num_classes)
        if pixels[i] or not data.is_assumed
    ]
