"""The order in which labels of images would help a network most (`deeplab rank`).

Each image is predicted by all networks, in several scales and mirrored. The classes of its pixels weigh their
uncertainty; images that are uncertain and differ from each other come first.
"""

from __future__ import annotations

if __name__ == '__main__':  # `python -m deeplab.rank`; first, so that help does not wait for TensorFlow
    from deeplab import start

    start.run_program('rank')

import contextlib
import dataclasses
import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from absl import logging

from deeplab import names
from deeplab.errors import DataError, OptionError
from deeplab.files import documents, folder_lock, output_files, part_folders
from deeplab.inference import diversity, ensemble, inputs, pipeline, task_decoding
from deeplab.inference.inputs import Failure, InputFile
from deeplab.inference.prediction import Prediction
from deeplab.inference.predictor import Predictor
from deeplab.inference.ranking_journal import Entry, Journal
from deeplab.inference.uncertainty import Members, of_members
from deeplab.options import MEASURES, RankOptions, parts
from deeplab.reporting import ranking_page
from deeplab.system import memory
from deeplab.wording import option

LIST, TABLE, DOCUMENT, PAGE = (f'ranking.{suffix}' for suffix in ('txt', 'csv', 'json', 'html'))
_FORMAT = 1
_MOST_SHOWN = 20  # images, and failures, in the report; the files have all
_OTHERS = 'labeled', 'target'  # images beside the ones to rank, by field of the options
_IS_VIDEO = 'it is a video, camera or stream; pass frames as images'


@dataclasses.dataclass(frozen=True)
class RankResult:
    """Result of a run of the program.

    Attributes:
      images: the images in their order, as in ranking.json; none for a part.
      failures: files that could not be read or predicted.
      report: what was written, for the user.
      is_part: whether these are a part of the images.
    """

    images: Sequence[Mapping[str, Any]]
    failures: tuple[Failure, ...]
    report: str
    is_part: bool = False

    @property
    def status(self) -> int:
        """Exit status: 1 if a file could not be predicted; a part is complete then, and the merge has this status."""
        return 1 if self.failures and not self.is_part else 0


@memory.explained('rank')
def run(options: RankOptions) -> RankResult:
    """Ranks the images that the options name.

    Raises:
      UserError: There is no image, no network, the networks have different classes, a file cannot be written, or
        another rank writes to the folder.
    """
    items, failures = _images_of(options.inputs, options.output_dir)
    if not items:
        reasons = '; '.join(f"'{names.shown(failure.path)}': {failure.reason}" for failure in failures)
        raise DataError(f'There is no image to rank{f" ({reasons})" if reasons else ""}. Pass images or their folder.')
    every, others, missing = _with_others(options, items)
    failures += missing
    part = options.part.chosen
    own, folder = every, options.output_dir
    if part is not None:
        own = every[part.of(len(every))]
        folder = part_folders.begin(options.output_dir, part, 'rank')
        failures = failures if part.number == 1 else []
    with folder_lock.held(folder, 'rank', 'RankOptions.output_dir'):
        journal, failed, classes = _predicted(options, own, folder)
        own_paths = {item.path for item in own}
        facts: dict[str, Any] = {
            name: [[item.path, item.name] for item in of_kind if item.path in own_paths]
            for name, of_kind in {'items': items, **others}.items()
        } | {
            'failed': [failure._asdict() for failure in (*failures, *failed)],
            'classes': classes,
            'choice': {name: getattr(options, name) for name in ('first', 'measure', 'class_balance')},
        }
        if part is None:
            return _finish(options.output_dir, journal, facts)
        settings = parts.settings_of(options) | {'inputs': inputs.digest_of(every), 'journal': journal.settings}
        note = part_folders.finish(folder, part, 'rank', settings, facts)
    report = f'{names.counted(len(own), "image")} predicted.\n{note}'
    return RankResult([], tuple(Failure(**each) for each in facts['failed']), report, is_part=True)


def merge(folder: str, of_parts: Sequence[part_folders.PartFolder]) -> RankResult:
    """Ranks the images of all parts.

    Raises:
      DataError: a file of a part is missing, or a result cannot be written.
    """
    journal = Journal(folder, of_parts[0].settings['journal'])
    with journal:
        for part in of_parts:
            journal.add_lines(part.read(journal.name))
    facts = dict(of_parts[0].facts)
    for name in ('items', *_OTHERS, 'failed'):
        facts[name] = [each for part in of_parts for each in part.facts[name]]
    return _finish(folder, journal, facts)


def _with_others(
    options: RankOptions, items: Sequence[InputFile]
) -> tuple[list[InputFile], dict[str, list[InputFile]], list[Failure]]:
    """Returns all images, each once; the images of each option beside the ones to rank; and what is no image."""
    every, others, failures = list(items), dict[str, list[InputFile]](), list[Failure]()
    for name in _OTHERS:
        given = getattr(options, name)
        found, missing = _images_of(given, options.output_dir) if given else ([], [])
        if given and not found:
            raise DataError(
                f'There is no image in {option(f"RankOptions.{name}", given)}. Pass images or their folder.'
            )
        failures += missing
        there = {os.path.abspath(item.path): item for item in every}
        others[name] = [there.get(os.path.abspath(item.path), item) for item in found]
        every += [item for item in others[name] if os.path.abspath(item.path) not in there]
    unlabeled = {item.path for item in items}
    for item in others['labeled']:
        if item.path in unlabeled:
            where = option('RankOptions.labeled')
            raise OptionError(f"'{names.shown(item.path)}' is among the images to rank and in {where}. Pass it once.")
    return every, others, failures


def _images_of(given: Sequence[str], output_dir: str) -> tuple[list[InputFile], list[Failure]]:
    """Returns the images that options name, and what is none."""
    items, failures = inputs.find(given, output_dir)
    failures += [Failure(item.shown, _IS_VIDEO) for item in items if item.is_video]
    return [item for item in items if not item.is_video], failures


def _predicted(
    options: RankOptions, items: Sequence[InputFile], folder: str
) -> tuple[Journal, tuple[Failure, ...], list[str]]:
    """Predicts the images that the journal in a folder lacks; returns it, what failed, and the names of the classes."""
    with contextlib.ExitStack() as closing:
        predictor = closing.enter_context(_predictor(options))
        if predictor.decoder is not None and not task_decoding.has_classes(predictor.decoder.options):
            raise OptionError(
                f"'{predictor.source}' predicts no class for each pixel ({predictor.decoder.options.task}), so that "
                'images cannot be ranked. Pass a network of classes.'
            )
        if len(predictor.class_names) < 2:
            raise OptionError(
                f"'{predictor.source}' predicts a single class, so all images have the same uncertainty. Use a "
                'network with at least two classes.'
            )
        settings = {
            'network': predictor.digest(),
            'predictor': parts.settings_of(options.predictor),
            'changes': json.loads(json.dumps(dict(options.network), default=str)),
            'scales': list(options.view_scales),
            'flipped': options.view_flipped,
        }
        networks = predictor.members or (predictor,)
        output_files.make_folder(folder)
        members = Members(networks, options.view_scales, options.view_flipped)

        def write(item: InputFile, _: int | None, prediction: Prediction) -> None:
            maps = members.maps(prediction.image, prediction.probabilities)
            journal.add(item.path, prediction.image, of_members(maps))

        journal = closing.enter_context(Journal(folder, settings))
        left = journal.missing([item.path for item in items])
        if len(left) < len(items):
            there = len(items) - len(left)
            logging.info('Continuing: %s of %d have been predicted before.', names.counted(there, 'image'), len(items))
        todo = [item for item in items if item.path in left]
        done = pipeline.run(networks[0], todo, write, options.predictor.batch_size, False)
        return journal, done.failures, list(predictor.class_names)


def _predictor(options: RankOptions) -> Predictor:
    paths = ensemble.expanded(options.checkpoint_dir)
    predictor = dataclasses.replace(options.predictor, probabilities=True)  # else networks run again to compute them
    if len(paths) == 1:
        return Predictor.of_options(paths[0], predictor, options.network)
    return Predictor.of_checkpoints(paths, predictor, options.network)


def _finish(folder: str, journal: Journal, facts: Mapping[str, Any]) -> RankResult:
    """Orders the images and writes the files; `facts` are JSON values, see `run`."""
    failures = tuple(Failure(**each) for each in facts['failed'])
    entries = journal.entries()
    ranked = [path for path, _ in facts['items'] if path in entries]
    if not ranked:
        raise DataError(
            'No image could be predicted: ' + '; '.join(f"'{each.path}': {each.reason}" for each in failures)
        )
    images = [entries[path] for path in ranked]
    labeled, target = ([entries[path] for path, _ in facts[name] if path in entries] for name in _OTHERS)
    if facts['target'] and not target:
        raise DataError(f'No image of {option("RankOptions.target")} could be predicted. Use other images.')
    choice = facts['choice']
    of_all = [*images, *labeled]
    scores, of_target = (
        scores_of(of_kind, choice['measure'], choice['class_balance'], of_all) for of_kind in (images, target or images)
    )
    looks, of_labeled, sought = (_appearance(of_kind) for of_kind in (images, labeled, target or images))
    made = diversity.order(scores, looks, choice['first'], of_labeled, diversity.Sought(of_target, sought))
    rows = []
    for rank, place in enumerate(made.places, 1):
        path, similar = ranked[place], made.duplicates.get(place)
        row = {'rank': rank, 'image': os.path.relpath(path, folder), 'chosen': rank <= made.chosen}
        row |= {'score': round(float(scores[place]), 6)}
        row |= {name: round(float(images[place].by_class[i].sum()), 6) for i, name in enumerate(MEASURES)}
        if similar is not None:
            other = 'an image with labels' if similar == diversity.LABELED else os.path.relpath(ranked[similar], folder)
            row['similar_to'] = other
        row['classes'] = _uncertain_classes(images[place], choice['measure'], facts['classes'])
        rows.append(row)
    chosen = [ranked[place] for place in made.places[: made.chosen]]
    page = ranking_page.render(rows[: made.chosen], chosen, journal.maps(chosen), choice, len(rows))
    return _write(folder, rows, made.chosen, page, facts, failures)


def scores_of(images: Sequence[Entry], measure: str, class_balance: float, every: Sequence[Entry]) -> np.ndarray:
    """Returns the score of each image: its mean uncertainty, in which rare classes have a larger weight, [n].

    Args:
      images: the images.
      measure: one of `MEASURES`.
      class_balance: power of the weight of a class, 1 / share.
      every: all images that show how frequent the classes are.
    """
    shares = np.mean([entry.shares for entry in every], axis=0)
    weights = np.maximum(shares, 1e-4) ** -class_balance
    weights /= (weights * shares).sum()  # so that the score is a mean over pixels
    row = MEASURES.index(measure)
    return np.array([entry.by_class[row] @ weights for entry in images])


def _appearance(entries: Sequence[Entry]) -> diversity.Appearance:
    features = np.stack([entry.features for entry in entries]) if entries else np.zeros((0, 1), np.float32)
    return diversity.Appearance(features, [entry.thumbnail for entry in entries])


def _uncertain_classes(entry: Entry, measure: str, classes: Sequence[str]) -> list[str]:
    """Returns the classes with most of the uncertainty in an image, up to three."""
    of_classes = entry.by_class[MEASURES.index(measure)]
    return [classes[i] for i in np.argsort(-of_classes)[:3].tolist()]


def _write(
    folder: str,
    rows: Sequence[Mapping[str, Any]],
    chosen: int,
    page: str,
    facts: Mapping[str, Any],
    failures: tuple[Failure, ...],
) -> RankResult:
    """Writes list, table, page and, last, the document; returns the result."""
    columns = ['rank', 'image', 'chosen', 'score', *MEASURES, 'classes', 'similar_to']
    cells = [[', '.join(row[name]) if name == 'classes' else row.get(name, '') for name in columns] for row in rows]
    content = {'format': _FORMAT, **facts['choice'], 'class_names': facts['classes'], 'chosen': chosen}
    content |= {'images': rows, 'failed': facts['failed']}
    written = {
        LIST: ''.join(f'{row["image"]}\n' for row in rows[:chosen]),
        TABLE: documents.csv_text([columns, *cells]),
        PAGE: page,
        DOCUMENT: json.dumps(content, indent=1) + '\n',
    }
    for name, text in written.items():
        output_files.write(os.path.join(folder, name), 'RankOptions.output_dir', text)
    lines = [f'The first of {names.counted(len(rows), "image")} to label, by {facts["choice"]["measure"]}:']
    lines += [
        f'  {row["rank"]}. {names.shown(row["image"])} ({row["score"]:.4f})' for row in rows[: min(chosen, _MOST_SHOWN)]
    ]
    similar = sum('similar_to' in row for row in rows)
    lines.append(f'{chosen} chosen, which differ from each other; {similar} of the others are near-duplicates, last.')
    lines += [f'{names.shown(failure.path)}: {failure.reason}' for failure in failures[:_MOST_SHOWN]]
    lines.append(f'List: {os.path.join(folder, LIST)}; all images: {TABLE}, {DOCUMENT}; page: {PAGE}')
    return RankResult(rows, failures, '\n'.join(lines))
