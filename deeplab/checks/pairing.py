"""The mask of each image among files by name: the same name, or one in another case or with a common ending."""

from __future__ import annotations

import collections
from collections.abc import Collection, Iterable, Mapping

_SEPARATORS = '_-. '  # what an ending such as _mask begins with


def partners(stems: Iterable[str], masks: Collection[str]) -> dict[str, str]:
    """Returns the name of the mask for each image that has one.

    Args:
      stems: names of the images without extension.
      masks: names of the masks without extension.

    Returns:
      The mask by image; where no mask has the name of the image, one whose name differs in case alone, or that ends in
      a text, such as _mask, which at least half of these images need.
    """
    wanted = list(dict.fromkeys(stems))
    found = {stem: stem for stem in wanted if stem in masks}
    rest = [stem for stem in wanted if stem not in found]
    if not rest:
        return found
    unused = [mask for mask in masks if mask not in found]
    by_lower = _by_lower(unused)
    found |= {stem: by_lower[stem.lower()] for stem in rest if stem.lower() in by_lower}
    rest = [stem for stem in rest if stem not in found]
    if ending := _common_ending(rest, by_lower):
        found |= {stem: by_lower[stem.lower() + ending] for stem in rest if stem.lower() + ending in by_lower}
    return found


def ending(found: Mapping[str, str]) -> str:
    """Returns the text that all masks have behind the name of their image; '' if there is no such text.

    Args:
      found: the mask by image, as from `partners`.
    """
    endings = {mask[len(stem) :] if mask.startswith(stem) else '' for stem, mask in found.items()}
    return endings.pop() if len(endings) == 1 else ''


def _by_lower(names: Iterable[str]) -> dict[str, str]:
    """Returns names by their lower case, without those that are equal in lower case."""
    found = collections.defaultdict(list)
    for name in names:
        found[name.lower()].append(name)
    return {lower: same[0] for lower, same in found.items() if len(same) == 1}


def _common_ending(stems: Collection[str], masks: Mapping[str, str]) -> str:
    """Returns the ending, in lower case, that most of the names need to be those of masks; '' if there is none."""
    lower = {stem.lower() for stem in stems}
    endings: collections.Counter[str] = collections.Counter()
    for mask in masks:
        for place, sign in enumerate(mask):
            if sign in _SEPARATORS and mask[:place] in lower:
                endings[mask[place:]] += 1
    if not endings:
        return ''
    ending, count = endings.most_common(1)[0]
    return ending if 2 * count >= len(stems) else ''
