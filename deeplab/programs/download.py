"""Download of published checkpoints and data sets into a cache folder (`deeplab download`)."""

from __future__ import annotations

if __name__ == '__main__':  # `python -m deeplab.download`; first, so that help does not wait for TensorFlow
    from deeplab import start

    start.run_program('download')

import dataclasses
import os
from typing import Any

from deeplab import names
from deeplab.datasets import build_ade20k_data, build_camvid_data, build_voc2012_data, listing
from deeplab.errors import DataError, OptionError
from deeplab.options import (
    BuildAde20kOptions,
    BuildCamvidOptions,
    BuildVocOptions,
    DownloadOptions,
    FetchOptions,
)
from deeplab.wording import did_you_mean, option
from deeplab.zoo import cache, catalog, fetching


@dataclasses.dataclass(frozen=True)
class DownloadReport:
    """What `deeplab download` has done.

    Attributes:
      report: text for the user: paths of the checkpoint or the records, or a list of all that can be downloaded.
      checkpoint: path of the checkpoint, without `.index`; None if none was fetched.
      records: folder of the records; None if no data set was fetched.
    """

    report: str
    checkpoint: str | None = None
    records: str | None = None


def run(options: DownloadOptions) -> DownloadReport:
    """Downloads a published checkpoint, or a data set and builds its records; or lists all.

    Raises:
      OptionError: there is no such preset or data set, or a checkpoint is given a folder for records.
      DownloadError: it cannot be downloaded, or is not what was noted at the first download.
      OutputError: the cache folder cannot be written.
    """
    if options.name is None:
        return DownloadReport(_list(options.fetch))
    if options.name in catalog.all_data_sets():
        return _data_set(options.name, options)
    try:
        place = fetching.place_of(options.name, options.fetch)
    except OptionError as error:
        available = catalog.all_data_sets()
        hint = did_you_mean(options.name, available)
        text = f"There is no data set '{names.shown(options.name)}'. {hint}" if hint else f'{error} '
        raise OptionError(f'{text}Data sets: {", ".join(available)}.') from None
    if options.output_dir is not None:
        raise OptionError(
            f'{option("DownloadOptions.output_dir", options.output_dir)} is for the records of a data set, and '
            f'{options.name} is a checkpoint. Set {option("FetchOptions.cache_dir")} instead.'
        )
    if options.dry_run:
        return DownloadReport(_plan(place))
    fetched = fetching.obtain(options.name, options.fetch)
    lines = [f'{place.name}: {"unpacked" if fetched.is_new else "in the cache, unchanged"}']
    lines += _archive(place, fetched.note.archive)
    lines += [f'noted in: {place.note}', f'folder: {place.folder}', f'checkpoint: {fetched.checkpoint}']
    return DownloadReport('\n'.join(lines), fetched.checkpoint)


def _list(options: FetchOptions) -> str:
    """Returns a table of all published checkpoints, and a list of the data sets."""
    presets = catalog.all_presets().values()
    folder = cache.folder(options.cache_dir)
    rows = [('name', 'data set', 'MB', 'mIoU', 'split', 'in the cache')]
    for preset in presets:
        size = '-' if preset.megabytes is None else f'{preset.megabytes:g}'
        best = max(preset.published, key=lambda row: row.miou, default=None)
        miou, split = (f'{best.miou:.2f}', best.split) if best else ('-', '')
        is_there = 'yes' if os.path.isdir(os.path.join(folder, preset.folder)) else ''
        rows.append((preset.name, preset.dataset or '(backbone)', size, miou, split, is_there))
    lines = [*names.aligned(rows, left=(0, 1, 4, 5)), '', 'Data sets, which are downloaded and built:']
    titles = []
    for data_set in catalog.all_data_sets().values():
        size = 'size unknown' if data_set.size is None else names.byte_size(data_set.size)
        titles.append((data_set.name, f'{data_set.title} ({"account needed" if data_set.by_hand else size})'))
    lines += names.aligned(titles, left=(0, 1))
    lines += ['', 'mIoU is the best published one, in percent; `deeplab presets NAME` shows its settings.']
    lines += [f'`deeplab download NAME` unpacks the archive to {folder}.']
    return '\n'.join(lines)


def _data_set(name: str, options: DownloadOptions) -> DownloadReport:
    """Downloads a data set and builds its records, or tells what to do."""
    data_set = catalog.all_data_sets()[name]
    if data_set.by_hand:
        return DownloadReport(data_set.by_hand)
    place = cache.place_of(data_set, options.fetch)
    root = fetching.root_of(place)
    records = options.output_dir or os.path.join(place.folder, 'tfrecord')
    if options.dry_run:
        what = f'would be downloaded from {place.address} ({_size(place)}),'
        if os.path.isdir(root):
            what = f'is in the cache, {root};'
        return DownloadReport(f'{data_set.title} {what} its records would be built in {records}')
    lines = [f'{data_set.title}: {place.folder}', *_archive(place, fetching.obtain_data_set(place))]
    summary = _build(name, root, records)
    lines += [f'{split}: {names.counted(facts["images"], "image")}' for split, facts in summary['splits'].items()]
    (facts,) = listing.in_folder(records)
    if not facts.is_complete:
        raise DataError(f"The records in '{records}' are not complete: `deeplab datasets {records}` shows why.")
    lines.append(f'records: {records}')
    return DownloadReport('\n'.join(lines), records=records)


def _build(name: str, root: str, records: str) -> dict[str, Any]:
    """Builds the records of a data set; keeps records of unchanged files."""
    if name == 'voc2012':
        return build_voc2012_data.run(
            BuildVocOptions(
                image_folder=os.path.join(root, 'JPEGImages'),
                semantic_segmentation_folder=os.path.join(root, 'SegmentationClass'),
                list_folder=os.path.join(root, 'ImageSets', 'Segmentation'),
                image_format='jpg',
                output_dir=records,
            )
        )
    if name == 'ade20k':
        folders: dict[str, Any] = {
            f'{split}_image{kind}_folder': os.path.join(root, inner, outer)
            for split, outer in (('train', 'training'), ('val', 'validation'))
            for kind, inner in (('', 'images'), ('_label', 'annotations'))
        }
        return build_ade20k_data.run(BuildAde20kOptions(**folders, image_format='jpg', output_dir=records))
    return build_camvid_data.run(BuildCamvidOptions(camvid_root=root, output_dir=records))


def _size(place: cache.Place) -> str:
    return 'of unknown size' if place.size is None else names.byte_size(place.size)


def _plan(place: cache.Place) -> str:
    """Returns what a download would do."""
    if os.path.isdir(place.folder):
        return f'{place.name} is in the cache: {place.folder}'
    if os.path.isfile(place.archive):
        return f'{place.name} would be unpacked from {place.archive} to {place.folder}'
    return f'{place.name} would be downloaded from {place.address} ({_size(place)}) to {place.folder}'


def _archive(place: cache.Place, content: cache.Content | None) -> list[str]:
    """Returns what is known of an archive, as at most one line."""
    if content is None:
        return []
    return [f'archive: {os.path.basename(place.archive)}, {content.size:,} bytes, SHA-256 {content.sha256}']
