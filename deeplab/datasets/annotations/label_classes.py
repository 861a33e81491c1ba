"""Classes of a data set from the labels of a tool: order, names and colors; merged and dropped labels."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np
from absl import logging

from deeplab.datasets import descriptor
from deeplab.datasets.annotations import reading
from deeplab.datasets.annotations.shapes import AnnotationSet, Color
from deeplab.errors import DataError, OptionError
from deeplab.files import documents
from deeplab.names import listed, shown
from deeplab.options import BuildFolderOptions
from deeplab.options.rules import MOST_CLASSES, require_classes
from deeplab.wording import option

BACKGROUND = 'background'
IGNORED = 'ignore'
_ALL_OTHERS = '*'
ALL = 'all'  # all classes but background are things
_SHOWN = 10  # number of labels that a message names


@dataclasses.dataclass(frozen=True)
class LabelClasses:
    """The classes that follow from the labels of annotations.

    Attributes:
      names: name of each class.
      colors: color of each class; None for those without one.
      ids: id of each label; None for labels whose shapes are left out.
      fill: id of pixels without a label.
      things: ids of the classes that have instances; None if instances are not wanted.
    """

    names: tuple[str, ...]
    colors: tuple[Color | None, ...]
    ids: Mapping[str, int | None]
    fill: int
    things: tuple[int, ...] | None = None

    def palette(self) -> np.ndarray | None:
        """Returns a color for each class, [n, 3] uint8; None if the tool has no colors."""
        if not any(self.colors):
            return None
        palette = descriptor.bit_shift_palette(len(self.names))
        for number, color in enumerate(self.colors):
            if color is not None:
                palette[number] = color
        return palette


def is_background(name: str) -> bool:
    """Returns whether a label means the background: background, _background_, Background, ..."""
    return name.strip('_').lower() == BACKGROUND


def is_ignored(name: str) -> bool:
    """Returns whether a label means pixels that are excluded from loss and metrics: ignore, __ignore__, ..."""
    return name.strip('_').lower() == IGNORED


def of(
    annotations: AnnotationSet, options: BuildFolderOptions, names: Sequence[str] | None, ignore: int
) -> LabelClasses:
    """Assigns ids to labels.

    Without names, the classes are: background, if unlabeled pixels become a class; the tool's classes in its order; and
    further labels, sorted. A class that labels are mapped to takes the place of the first of these labels.

    Args:
      annotations: the annotations.
      options: the mapping of labels, and what unlabeled pixels become.
      names: names of the classes in order; None to take the names in the annotations.
      ignore: id of pixels that are excluded from loss and metrics.

    Raises:
      OptionError: A mapping is wrong, or a class of things does not exist.
      DataError: Labels are not among the names, or there are too many; or instances are wanted, and there are none.
    """
    mapping = _read_map(options.label_map)
    used: collections.Counter[str] = collections.Counter()
    for image in annotations.images:
        used += image.labels()
    with_background = options.unlabeled == BACKGROUND
    stated = [
        label.name
        for label in annotations.labels
        if with_background or not is_background(label.name) or label.name in used
    ]
    further = sorted(used.keys() - set(stated))
    if lost := sorted(mapping.keys() - {*stated, *further, _ALL_OTHERS}):
        raise OptionError(
            f'{option("BuildFolderOptions.label_map")} names labels that the annotations do not have: '
            f'{listed(lost, _SHOWN)}. They have: {listed(sorted({*stated, *further}), _SHOWN)}.'
        )
    own = set(map(_key, names or ()))
    # The class that each label is mapped to; empty if its shapes are left out.
    targets = {
        label: mapping.get(label, label if _key(label) in own or is_ignored(label) else mapping.get(_ALL_OTHERS, label))
        for label in (*stated, *further)
    }
    if names is None:
        ordered = dict.fromkeys(target for target in targets.values() if target and not is_ignored(target))
        background = next(filter(is_background, ordered), BACKGROUND)
        classes = tuple(dict.fromkeys([*([background] if with_background else []), *ordered]))
    else:
        classes = tuple(name for name in names if not is_ignored(name))
        _require_among(classes, {label: targets[label] for label in targets if label in used}, used, options)
    fix = f'Merge or leave out labels with {option("BuildFolderOptions.label_map")}.'
    require_classes('The annotations', len(classes), fix, DataError)
    fill = _background_id(classes, options) if with_background else ignore
    numbers = {_key(name): number for number, name in reversed(list(enumerate(classes)))}
    ids = {
        label: None if not target else ignore if is_ignored(target) else numbers[_key(target)]
        for label, target in targets.items()
        if label in used
    }
    things = _things(classes, options, annotations, ignore)
    _log(used, classes if names is None else ())
    return LabelClasses(classes, _colors(classes, annotations, targets), ids, fill, things)


def _log(used: Mapping[str, int], classes: Sequence[str]) -> None:
    """Logs how often each label is used, and warns of classes that follow from labels and differ in case alone."""
    logging.info(
        'Labels with their number of shapes: %s.',
        listed([f'{shown(label)} {used[label]}' for label in sorted(used)], 50),
    )
    alike = collections.defaultdict(list)
    for name in classes:
        alike[' '.join(name.split()).casefold()].append(name)
    for same in alike.values():
        if len(same) > 1:
            entry = option('BuildFolderOptions.label_map', f'{same[1]}={same[0]}')
            logging.warning(
                'The classes %s have the same name except for capitals. To merge them, set %s.',
                listed([f"'{shown(name)}'" for name in same], _SHOWN),
                entry,
            )


def _read_map(entries: Sequence[str]) -> dict[str, str]:
    """Returns the class of each mapped label; '' for a label whose shapes are left out.

    An entry is 'LABEL=CLASS'; a single one may be a text file of such lines, or a JSON file with a class by label.
    """
    if len(entries) == 1 and '=' not in entries[0]:
        try:
            lines = reading.load(entries[0]).content
        except DataError as error:
            raise OptionError(f'{option("BuildFolderOptions.label_map", entries)}: {error}.') from None
        if isinstance(lines, Mapping):
            return {str(label): str(target or '') for label, target in lines.items()}
        entries = documents.entries_of(str(lines))
    mapping: dict[str, str] = {}
    for entry in entries:
        label, equals, target = entry.rpartition('=')
        if not equals or not label.strip() or label.strip() in mapping:
            reason = 'occurs twice' if label.strip() in mapping else 'is not LABEL=CLASS'
            raise OptionError(
                f"{option('BuildFolderOptions.label_map')}: '{shown(entry)}' {reason}. Write LABEL=CLASS, "
                f'LABEL={IGNORED} for pixels to exclude, or LABEL= to leave out its shapes.'
            )
        mapping[label.strip()] = target.strip()
    return mapping


def _things(
    classes: Sequence[str], options: BuildFolderOptions, annotations: AnnotationSet, ignore: int
) -> tuple[int, ...] | None:
    """Returns the ids of the classes whose shapes are instances; None if instances are not wanted."""
    wanted = options.things or ((ALL,) if options.instances else ())
    if not wanted:
        return None
    if any(image.painted is not None and not image.painted.has_instances for image in annotations.images):
        given = (
            option('BuildFolderOptions.things', wanted) if options.things else option('BuildFolderOptions.instances')
        )
        raise DataError(
            f"'{shown(options.annotations or '')}' has masks of {annotations.format}, which do not separate the "
            f'instances of a class. Export shapes instead, or omit {given}.'
        )
    return things_of(wanted, classes, ignore)


def things_of(wanted: Sequence[str], classes: Sequence[str], ignore: int) -> tuple[int, ...]:
    """Returns the ids of classes of things.

    Args:
      wanted: their names, or 'all' alone.
      classes: names of all classes.
      ignore: id of the pixels that are excluded, which is none of them.

    Raises:
      OptionError: A name is not of a class, or is the background.
    """
    if tuple(wanted) == (ALL,):
        return tuple(number for number, name in enumerate(classes) if not is_background(name) and number != ignore)
    wrong = [name for name in wanted if name not in classes or is_background(name)]
    if wrong:
        raise OptionError(
            f'{option("BuildFolderOptions.things")} names {listed(wrong, _SHOWN)}, which can have no instances. The '
            f'classes are {listed(classes, _SHOWN)}; all but {BACKGROUND} are possible, also as {ALL}.'
        )
    return tuple(number for number, name in enumerate(classes) if name in wanted and number != ignore)


def _key(label: str) -> str:
    """Returns the label, or one name for all labels of the background."""
    return BACKGROUND if is_background(label) else label


def _is_of_data_set(options: BuildFolderOptions) -> bool:
    """Returns whether a data set names the classes, so that they cannot be renamed."""
    return options.dataset is not None and not options.class_names


def _named_by(options: BuildFolderOptions, names: str | None = None) -> str:
    """Returns the option that names the classes; with other `names` as its value, unless it is a data set."""
    if _is_of_data_set(options):
        return option('BuildFolderOptions.dataset', options.dataset)
    return option('BuildFolderOptions.class_names', *([] if names is None else [names]))


def _background_id(classes: Sequence[str], options: BuildFolderOptions) -> int:
    """Returns the id of the class of unlabeled pixels; raises `OptionError` if there is none."""
    for number, name in enumerate(classes):
        if is_background(name):
            return number
    more = f'{BACKGROUND},{",".join(classes)}'
    add = (
        f'Add it to {_named_by(options)}' if _is_of_data_set(options) else f'Add it, such as {_named_by(options, more)}'
    )
    raise OptionError(
        f'Pixels without a label become the class {BACKGROUND}, which is not among the classes. {add}, or exclude '
        f'these pixels with {option("BuildFolderOptions.unlabeled", IGNORED)}.'
    )


def _require_among(
    classes: Sequence[str], targets: Mapping[str, str], used: Mapping[str, int], options: BuildFolderOptions
) -> None:
    """Raises `DataError` if a label is mapped to something that is no class."""
    own = set(map(_key, classes))
    wrong = [
        label for label, target in targets.items() if target and not is_ignored(target) and _key(target) not in own
    ]
    if wrong:
        parts = [f'{shown(label)} ({used[label]} shapes)' for label in wrong]
        example = option('BuildFolderOptions.label_map', f'{wrong[0]}={classes[0]}')
        can_be_added = len(classes) + len(wrong) <= MOST_CLASSES
        fix = f'Add them to {_named_by(options)}, or map them' if can_be_added else 'Map them'
        raise DataError(
            f'{len(wrong)} labels are not among the classes ({listed(classes, _SHOWN)}): {listed(parts, _SHOWN)}. '
            f"{fix}: {example}, '{wrong[0]}={IGNORED}' to exclude their pixels, '{wrong[0]}=' to leave them out, "
            f"'{_ALL_OTHERS}=' for all others."
        )


def _colors(classes: Sequence[str], annotations: AnnotationSet, targets: Mapping[str, str]) -> tuple[Color | None, ...]:
    """Returns each class's color: of the label with the class's name, or else of the first label mapped to it."""
    by_label = {label.name: label.color for label in annotations.labels if label.color is not None}
    by_class = collections.defaultdict(list)
    for label, target in targets.items():
        if target:
            by_class[_key(target)].append(label)
    colors = []
    for name in classes:
        own = sorted(by_class[_key(name)], key=lambda label: label != name)
        color = next((by_label[label] for label in own if label in by_label), None)
        colors.append((0, 0, 0) if color is None and by_label and is_background(name) else color)
    return tuple(colors)
