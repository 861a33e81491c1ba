"""The repaired copy of a data set: folders of images, masks and lists, and a list of all that was done."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import functools
import json
import os
import pathlib
import re
import shutil
from collections.abc import Iterator
from typing import Any

import tqdm

from deeplab import names
from deeplab.checks import inspection, sample_repair, sources
from deeplab.checks.data_rules import RULES
from deeplab.checks.findings import Data
from deeplab.checks.sample_repair import Repaired
from deeplab.checks.sources import Split
from deeplab.datasets import description_file, images
from deeplab.datasets.descriptor import DatasetDescriptor
from deeplab.errors import DataError, OptionError
from deeplab.files import documents, folder_lock, writing
from deeplab.options import DoctorOptions
from deeplab.system import overlap, processors
from deeplab.wording import option

LOG = 'repairs.json'
_SUFFIXES = {'jpeg': '.jpg', 'png': '.png', 'npy': '.npy'}
_AHEAD = 32  # samples that may wait to be written; limits the memory
_FOLDERS = ('images', 'masks')
_INSTANCES = 'instances'
_UNFINISHED = 'unfinished'  # key of what a run needs that continues where another one was killed
_WITHOUT_EFFECT = ('output', 'html', 'fix')  # options
_LISTS = 'lists'


@dataclasses.dataclass
class Repairs:
    """What was done.

    Attributes:
      folder: the copy.
      splits: names of the images in each split.
      done: number of samples repaired, by rule.
      left_out: split, sample, rule and reason of each sample without repair.
    """

    folder: str
    splits: dict[str, list[str]] = dataclasses.field(default_factory=dict)
    done: collections.Counter[str] = dataclasses.field(default_factory=collections.Counter)
    left_out: list[dict[str, str]] = dataclasses.field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        """Returns what was done with the samples."""
        return {'repaired': dict(self.done), 'left_out': self.left_out}


@contextlib.contextmanager
def reserved(options: DoctorOptions) -> Iterator[Repairs | None]:
    """Excludes other runs from the folder for the copy, and removes what killed runs have left beside it.

    Yields:
      The repairs in a copy that the same run has left without findings, because it was killed; else None.

    Raises:
      OptionError: The folder exists, cannot be made, or another process writes it.
    """
    folder = options.fix
    if folder is None:
        yield None
        return
    said = option('DoctorOptions.fix', folder)
    parent, name = os.path.split(os.path.abspath(folder))
    try:
        os.makedirs(parent, exist_ok=True)
    except OSError as error:
        raise OptionError(f'{said} cannot be written: {error.strerror}. Use another folder.') from None
    with folder_lock.held(folder, 'doctor', 'DoctorOptions.fix', is_beside=True):
        repairs = _unfinished(options, folder)
        if repairs is None and (os.path.isfile(folder) or (os.path.isdir(folder) and os.listdir(folder))):
            raise OptionError(f'{said} exists already. Use a new folder: a data set is never repaired in place.')
        writing.remove_leftovers(parent, re.escape(name))
        yield repairs


def _unfinished(options: DoctorOptions, folder: str) -> Repairs | None:
    """Returns the repairs in a complete copy if its run was killed before it had the findings."""
    with contextlib.suppress(documents.DocumentError, OSError, KeyError, TypeError):
        content = documents.load(os.path.join(folder, LOG))
        kept = content[_UNFINISHED]
        if kept['options'] == _options(options):
            return Repairs(folder, kept['splits'], collections.Counter(content['repaired']), content['left_out'])
    return None


def _options(options: DoctorOptions) -> dict[str, Any]:
    given = dataclasses.asdict(dataclasses.replace(options, data=os.path.abspath(options.data)))
    return {name: value for name, value in given.items() if name not in _WITHOUT_EFFECT}


def finish(repairs: Repairs) -> None:
    """Notes in a copy that its findings have been written."""
    writing.write(os.path.join(repairs.folder, LOG), json.dumps(repairs.as_json(), indent=1) + '\n')


def write(data: Data, folder: str) -> Repairs:
    """Writes the copy into a folder that does not exist, or is empty.

    Raises:
      DataError: No image can be kept, the data set has classes or planes in place of masks, or the copy cannot be
        written.
      OptionError: The color table cannot be read.
    """
    if instead := data.instead_of_masks:
        given = option('DoctorOptions.fix', folder)
        raise DataError(f'{given} can write images and masks, but not {instead}. Correct the images and build again.')
    plan = sample_repair.make_plan(data)
    repairs = Repairs(folder)
    try:
        with writing.atomic_path(folder) as temporary:
            for key in _FOLDERS:
                os.makedirs(os.path.join(temporary, key))
            copy = _Copy(pathlib.Path(temporary), repairs, plan)
            for split in data.source.splits:
                copy.add(split)
            if not any(repairs.splits.values()):
                raise DataError(_nothing(repairs))
            copy.finish(_options(data.options))
            if (described := _description(data)) is not None:
                name = os.path.basename(os.path.abspath(folder))
                kept = [key for key in (*_FOLDERS, _INSTANCES, _LISTS) if os.path.isdir(os.path.join(temporary, key))]
                # The chosen bands and values are in its images, and without TIFF files programs reject these keys.
                described = dataclasses.replace(described, name=name, splits={}, bands=None, value_range=None)
                description_file.write_folders(temporary, described, {key: key for key in kept})
            if os.path.isdir(folder):
                os.rmdir(folder)  # it is empty
    except OSError as error:
        raise DataError(f"The copy '{folder}' cannot be written: {error.strerror}.") from None
    return repairs


def _description(data: Data) -> DatasetDescriptor | None:
    """Returns the classes that are given, or the classes of the table of colors; None if they are only assumed."""
    described, table = data.descriptor, data.table
    if data.options.colors is None or table is None or described.class_names is not None:
        return None if data.is_assumed else described
    ids = [entry.class_id for entry in table.entries if entry.class_id != described.ignore_label]
    count = max(ids, default=0) + 1
    if not data.is_assumed and described.num_classes != count:
        return described
    return dataclasses.replace(
        described, num_classes=count, class_names=table.names(count), palette=table.palette(count)
    )


def _nothing(repairs: Repairs) -> str:
    reasons = collections.Counter(entry['rule'] for entry in repairs.left_out)
    shown = ', '.join(f'{count} by rule {rule}' for rule, count in reasons.most_common())
    fix = f' {option("DoctorOptions.colors")} gives the colors of masks a meaning.' if 'color_mask' in reasons else ''
    return f'No image can be kept in a repaired copy ({shown}).{fix}'


def _path(stem: str) -> str:
    """Returns the path of an image in the copy, without extension: that in the data set, as far as it is one."""
    parts = (names.file_name(part)[0].lstrip('.') for part in stem.replace('\\', '/').split('/'))
    return '/'.join(filter(None, parts)) or 'image'


@dataclasses.dataclass
class _Copy:
    """Writes the samples of all splits."""

    _folder: pathlib.Path
    _repairs: Repairs
    _plan: sample_repair.RepairPlan
    _digests: dict[str, tuple[bytes, bytes]] = dataclasses.field(default_factory=dict)
    _all_have_instances: bool = True

    def add(self, split: Split) -> None:
        """Repairs and writes the samples of a split."""
        kept: dict[str, None] = {}  # each name once, in order
        for rule, what in split.missing:
            self._leave_out(split.name, what, rule)
        samples = overlap.map_in_order(
            functools.partial(self._repaired, split), range(len(split)), processors.available_cores(), _AHEAD
        )
        bar = tqdm.tqdm(samples, f'copying {split.name}', len(split), unit='image', delay=2, leave=False, disable=None)
        for number, (name, stem, repaired) in enumerate(bar):
            dropped = self._plan.dropped.get((split.name, number))
            if isinstance(repaired, sample_repair.LeftOutError):
                self._leave_out(split.name, name, *repaired.args)
            elif dropped is not None:
                self._leave_out(split.name, name, dropped)
            else:
                kept[self._written(split.name, stem, repaired)] = None
        if kept:
            self._repairs.splits[split.name] = list(kept)

    def _leave_out(self, split: str, name: str, rule: str, reason: str | None = None) -> None:
        """Notes that a sample is left out, by default because of the problem that a rule names."""
        reason = reason or names.agreeing(1, RULES[rule].what)
        self._repairs.left_out.append({'split': split, 'sample': name, 'rule': rule, 'reason': reason})

    def _repaired(self, split: Split, number: int) -> tuple[str, str, Repaired | sample_repair.LeftOutError]:
        """Returns name and stem of a sample, and the repaired sample or why it is left out."""
        try:
            sample = split.read(number)
        except DataError as error:
            return f'{split.name} {number}', '', sample_repair.LeftOutError('corrupt', str(error))
        try:
            return sample.name, sample.stem, sample_repair.repair(sample, self._plan)
        except sample_repair.LeftOutError as error:
            return sample.name, sample.stem, error

    def _written(self, split: str, stem: str, repaired: Repaired) -> str:
        """Writes a sample under a name that no other image has; returns the name."""
        self._repairs.done.update(repaired.done)
        plain = _path(stem)
        digests = inspection.digest(repaired.image), inspection.digest(repaired.mask)
        name, number = plain, 1
        while name.lower() in self._digests and self._digests[name.lower()] != digests:
            number += 1
            name = f'{plain}_{split}' if number == 2 else f'{plain}_{split}_{number}'
        if name.lower() not in self._digests:
            self._digests[name.lower()] = digests
            suffix = _SUFFIXES[images.content_format(repaired.image)]
            for kind, file, content in (
                ('images', f'{name}{suffix}', repaired.image),
                ('masks', f'{name}.png', repaired.mask),
                (_INSTANCES, f'{name}.png', repaired.instances),
            ):
                if content is None:
                    self._all_have_instances = False
                    continue
                path = self._folder / kind / file
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content)
        return name

    def finish(self, options: dict[str, Any]) -> None:
        """Writes a list for each split, and what was done, with these options.

        Images without splits get no list, so that programs set aside a part of them for evaluation.
        """
        if not self._all_have_instances:  # programs require the masks of instances of all images
            shutil.rmtree(self._folder / _INSTANCES, ignore_errors=True)
        for split, stems in self._repairs.splits.items():
            if split != sources.WHOLE:
                (self._folder / _LISTS).mkdir(exist_ok=True)
                (self._folder / _LISTS / f'{split}.txt').write_text('\n'.join(stems) + '\n', 'utf-8')
        content = self._repairs.as_json() | {_UNFINISHED: {'options': options, 'splits': self._repairs.splits}}
        (self._folder / LOG).write_text(json.dumps(content, indent=1) + '\n', 'utf-8')
