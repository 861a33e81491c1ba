"""Download of published checkpoints into a cache folder (`deeplab download`)."""

from __future__ import annotations

if __name__ == '__main__':  # first, so that help and usage errors do not wait for TensorFlow
    import os
    import sys

    if not __package__:  # run as a file: replace the folder of this file by that of the package
        sys.path[0] = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
    from deeplab import start

    sys.exit(start.main(['download', *sys.argv[1:]]))

import dataclasses
import os

from deeplab.options import DownloadOptions, FetchOptions
from deeplab.zoo import cache, catalog, fetching


@dataclasses.dataclass(frozen=True)
class Result:
    """Result of `deeplab download`.

    Attributes:
      report: where the checkpoint is, or a list of all checkpoints.
      checkpoint: path of the checkpoint, without `.index`; None if nothing was fetched.
    """

    report: str
    checkpoint: str | None = None


def run(options: DownloadOptions) -> Result:
    """Downloads a published checkpoint, or lists all.

    Raises:
      OptionError: there is no such preset.
      DownloadError: it cannot be downloaded, or is not what was noted at the first download.
      OutputError: the cache folder cannot be written.
    """
    if options.name is None:
        return Result(_list(options.fetch))
    if options.dry_run:
        return Result(_plan(fetching.place_of(options.name, options.fetch)))
    found = fetching.obtain(options.name, options.fetch)
    return Result(_found(found), found.checkpoint)


def _list(options: FetchOptions) -> str:
    """Returns a table of all published checkpoints."""
    presets = catalog.all_presets().values()
    width = max(len(preset.name) for preset in presets)
    folder = cache.folder(options.cache_dir)
    lines = [f'{"name":{width}}  data set           MB   mIoU  split  in the cache']
    for preset in presets:
        size = '-' if preset.megabytes is None else f'{preset.megabytes:g}'
        best = max(preset.published, key=lambda row: row.miou, default=None)
        miou, split = (f'{best.miou:.2f}', best.split) if best else ('-', '')
        is_there = 'yes' if os.path.isdir(os.path.join(folder, preset.folder)) else ''
        dataset = preset.dataset or '(backbone)'
        lines.append(f'{preset.name:{width}}  {dataset:14}  {size:>5}  {miou:>5}  {split:5}  {is_there}'.rstrip())
    lines += ['', 'mIoU is the best published one, in percent; `deeplab presets NAME` shows its settings.']
    lines += [f'`deeplab download NAME` unpacks the archive to {folder}.']
    return '\n'.join(lines)


def _plan(place: fetching.Place) -> str:
    """Returns what a download would do."""
    if os.path.isdir(place.folder):
        return f'{place.preset.name} is in the cache: {place.folder}'
    if os.path.isfile(place.archive):
        return f'{place.preset.name} would be unpacked from {place.archive} to {place.folder}'
    size = 'of unknown size' if place.preset.megabytes is None else f'{place.preset.megabytes:g} MB'
    return f'{place.preset.name} would be downloaded from {place.address} ({size}) to {place.folder}'


def _found(found: fetching.Fetched) -> str:
    """Returns where a checkpoint is, and what was verified."""
    place, archive = found.place, found.note.archive
    lines = [f'{place.preset.name}: {"unpacked" if found.is_new else "in the cache, unchanged"}']
    if archive is not None:
        lines.append(f'archive: {place.preset.archive}, {archive.size:,} bytes, SHA-256 {archive.sha256}')
    lines += [f'noted in: {place.note}', f'folder: {place.folder}', f'checkpoint: {found.checkpoint}']
    return '\n'.join(lines)
