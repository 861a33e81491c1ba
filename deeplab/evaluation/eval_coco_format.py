"""Evaluation of predictions in the COCO panoptic format: panoptic quality or parsing covering.

`python deeplab/evaluation/eval_coco_format.py --flag=...` and `deeplab eval_coco_format` are one program.
"""

from __future__ import annotations

if __name__ == '__main__':  # first, so that help and usage errors do not wait for other imports
    import os
    import sys

    if not __package__:  # run as a file: replace the folder of this file by the folder of the package
        sys.path[0] = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
    from deeplab import start

    sys.exit(start.main(['eval_coco_format', *sys.argv[1:]]))

import concurrent.futures
import dataclasses
import functools
import json
import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Iterator, Sequence

import numpy as np
import tqdm
from absl import logging

from deeplab import names
from deeplab.core import panoptic_quality, segment_overlaps
from deeplab.errors import DataError
from deeplab.evaluation import coco_panoptic
from deeplab.evaluation.coco_panoptic import Annotation, Annotations
from deeplab.files import output_files, writing
from deeplab.options import CocoFormatOptions
from deeplab.system import processors

_PARTS_OF_A_WORKER = 8  # so that none waits long for the others

Pairs = Sequence[tuple[Annotation, Annotation]]


@dataclasses.dataclass(frozen=True)
class CocoFormatResult:
    """Result of `deeplab eval_coco_format`.

    Attributes:
      report: a table of the means, in percent.
      means: 'All', 'Things' and 'Stuff', each with the mean of each figure (from 0 to 1) and the number 'n' of
        categories.
      categories: figures by category; None for one that does not occur.
      images: number of images.
    """

    report: str
    means: dict[str, panoptic_quality.Figures]
    categories: list[panoptic_quality.Figures]
    images: int


def run(options: CocoFormatOptions) -> CocoFormatResult:
    """Compares predictions with the ground truth.

    Raises:
      DataError: A file is missing or wrong, or truth and predictions do not belong together.
      OutputError: The results cannot be written.
    """
    truth = coco_panoptic.load(options.gt_json_file, options.gt_folder, options)
    prediction = coco_panoptic.load(options.pred_json_file, options.pred_folder, options, with_categories=False)
    pairs = coco_panoptic.pairs(truth, prediction)
    if not pairs:
        raise DataError(f'{options.gt_json_file} has no annotations.')
    _warn_of_unknown_categories(truth)
    started = time.monotonic()
    sums = _summed(pairs, options)
    seconds = time.monotonic() - started
    figures = panoptic_quality.quality(sums) if options.metric == 'pq' else panoptic_quality.covering(sums)
    means = panoptic_quality.means(figures, truth.is_thing)
    took = f'{names.counted(len(pairs), "image")} in {names.duration(seconds)}.'
    report = [*_table(means, options.print_digits), took]
    result = CocoFormatResult('\n'.join(report), means, figures, len(pairs))
    if options.results_json_file:
        _write(result, truth, options)
    return result


def _warn_of_unknown_categories(truth: Annotations) -> None:
    used = {category for annotation in truth.images.values() for category in annotation.categories}
    unknown = sorted(used - truth.is_thing.keys())
    if unknown:
        logging.warning(
            'The ground truth does not describe the categories %s; they count as stuff.', str(unknown)[1:-1]
        )


def _summed(pairs: Pairs, options: CocoFormatOptions) -> np.ndarray:
    """Returns the sums of the metric over all images, [num_categories, k]."""
    workers = processors.available_cores() if options.num_workers == -1 else options.num_workers
    workers = min(workers, len(pairs))
    size = max(1, len(pairs) // (workers * _PARTS_OF_A_WORKER)) if workers else 1
    parts = [pairs[i : i + size] for i in range(0, len(pairs), size)]
    compare = functools.partial(sums_of, options=options)
    total: np.ndarray | float = 0.0
    with tqdm.tqdm(total=len(pairs), desc='images', unit='image', disable=None) as bar:
        for part, sums in zip(parts, _mapped(compare, parts, workers), strict=True):
            total = total + sums
            bar.update(len(part))
    return np.asarray(total)


def _mapped(compare: functools.partial[np.ndarray], parts: Sequence[Pairs], workers: int) -> Iterator[np.ndarray]:
    """Yields the sums of each part, in order; computed in `workers` processes, or in this one if that is 0."""
    if not workers:
        yield from map(compare, parts)
        return
    # New processes that import NumPy and Pillow alone; a fork of this one could inherit a lock of another thread.
    context = multiprocessing.get_context('spawn')
    ignore_ctrl_c = (signal.signal, (signal.SIGINT, signal.SIG_IGN))  # it is left to this process
    with concurrent.futures.ProcessPoolExecutor(workers, context, *ignore_ctrl_c) as pool:
        try:
            yield from pool.map(compare, parts)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def sums_of(pairs: Pairs, options: CocoFormatOptions) -> np.ndarray:
    """Returns the sums of the metric over some images, [num_categories, k].

    Raises:
      DataError: A PNG file is missing or wrong, or the sizes of truth and prediction differ.
    """
    total: np.ndarray | float = 0.0
    for pair in pairs:
        truth = coco_panoptic.read(pair[0], options.ignored_label, is_truth=True)
        prediction = coco_panoptic.read(pair[1], options.ignored_label, is_truth=False)
        if truth.index.shape != prediction.index.shape:
            sizes = [f'{path.index.shape[1]}x{path.index.shape[0]}' for path in (truth, prediction)]
            raise DataError(
                f'{pair[0].path} has {sizes[0]} pixels, {pair[1].path} {sizes[1]}; a prediction must have the size of '
                'its image.'
            )
        overlaps = segment_overlaps.overlaps(truth, prediction)
        if options.metric == 'pq':
            total = total + panoptic_quality.quality_sums(overlaps, options.num_categories, any_crowd=True)
        else:
            by_share = options.normalize_by_image_size
            total = total + panoptic_quality.covering_sums(overlaps, options.num_categories, by_share)
    return np.asarray(total)


def _table(means: dict[str, panoptic_quality.Figures], digits: int) -> list[str]:
    """Returns the lines of a table in percent; `digits` is the number of digits after the point."""
    names = [name for name in means['All'] if name != 'n']
    digits = max(digits - 2, 0)
    width = digits + 7
    lines = [f'{"":10}|' + ''.join(f'{name.upper():>{width}}' for name in names) + f'{"N":>6}']
    lines.append('-' * len(lines[0]))
    for group, row in means.items():
        shares = [row[name] for name in names]
        shown = [f'{"-" if share is None else f"{100 * share:.{digits}f}":>{width}}' for share in shares]
        lines.append(f'{group:10}|{"".join(shown)}{row["n"]:6}')
    return lines


def _write(result: CocoFormatResult, truth: Annotations, options: CocoFormatOptions) -> None:
    content = {
        'metric': options.metric,
        'means': result.means,
        'categories': [
            {'id': i, 'name': truth.names.get(i), 'isthing': truth.is_thing.get(i, False), **figures}
            for i, figures in enumerate(result.categories)
            if None not in figures.values()
        ],
        'images': result.images,
        'options': dataclasses.asdict(options),
    }
    path = options.results_json_file or ''
    with output_files.writing_to(path, 'CocoFormatOptions.results_json_file', result.report):
        writing.write(path, json.dumps(content, indent=1))
