"""Masks of ADE20K's full release, whose colors are indices of several thousand objects, as masks of the 150 classes.

Source: the description of the files of the release (groups.csail.mit.edu/vision/datasets/ADE20K): the index of the
object of a pixel is red / 10 (a whole number) * 256 + green, and 0 means no object; blue tells the instances apart; the
file objectInfo150.txt of the scene parsing challenge names the 150 classes.
"""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from deeplab.datasets import images, mask_sources
from deeplab.errors import DataError, OptionError
from deeplab.files import documents

MASK_SUFFIX = '_seg'
# The names of the classes 1 to 150 as the full release writes them: each with its synonyms, separated by semicolons.
_NAMES = """
wall; building, edifice; sky; floor, flooring; tree; ceiling; road, route; bed; windowpane, window; grass; cabinet;
sidewalk, pavement; person, individual, someone, somebody, mortal, soul; earth, ground; door, double door; table;
mountain, mount; plant, flora, plant life; curtain, drape, drapery, mantle, pall; chair; car, auto, automobile,
machine, motorcar; water; painting, picture; sofa, couch, lounge; shelf; house; sea; mirror; rug, carpet, carpeting;
field; armchair; seat; fence, fencing; desk; rock, stone; wardrobe, closet, press; lamp; bathtub, bathing tub, bath,
tub; railing, rail; cushion; base, pedestal, stand; box; column, pillar; signboard, sign; chest of drawers, chest,
bureau, dresser; counter; sand; sink; skyscraper; fireplace, hearth, open fireplace; refrigerator, icebox; grandstand,
covered stand; path; stairs, steps; runway; case, display case, showcase, vitrine; pool table, billiard table,
snooker table; pillow; screen door, screen; stairway, staircase; river; bridge, span; bookcase; blind, screen;
coffee table, cocktail table; toilet, can, commode, crapper, pot, potty, stool, throne; flower; book; hill; bench;
countertop; stove, kitchen stove, range, kitchen range, cooking stove; palm, palm tree; kitchen island; computer,
computing machine, computing device, data processor, electronic computer, information processing system; swivel chair;
boat; bar; arcade machine; hovel, hut, hutch, shack, shanty; bus, autobus, coach, charabanc, double-decker, jitney,
motorbus, motorcoach, omnibus, passenger vehicle; towel; light, light source; truck, motortruck; tower; chandelier,
pendant, pendent; awning, sunshade, sunblind; streetlight, street lamp; booth, cubicle, stall, kiosk; television,
television receiver, television set, tv, tv set, idiot box, boob tube, telly, goggle box; airplane, aeroplane, plane;
dirt track; apparel, wearing apparel, dress, clothes; pole; land, ground, soil; bannister, banister, balustrade,
balusters, handrail; escalator, moving staircase, moving stairway; ottoman, pouf, pouffe, puff, hassock; bottle;
buffet, counter, sideboard; poster, posting, placard, notice, bill, card; stage; van; ship; fountain; conveyer belt,
conveyor belt, conveyer, conveyor, transporter; canopy; washer, automatic washer, washing machine; plaything, toy;
swimming pool, swimming bath, natatorium; stool; barrel, cask; basket, handbasket; waterfall, falls; tent,
collapsible shelter; bag; minibike, motorbike; cradle; oven; ball; food, solid food; step, stair; tank, storage tank;
trade name, brand name, brand, marque; microwave, microwave oven; pot, flowerpot; animal, animate being, beast, brute,
creature, fauna; bicycle, bike, wheel, cycle; lake; dishwasher, dish washer, dishwashing machine; screen,
silver screen, projection screen; blanket, cover; sculpture; hood, exhaust hood; sconce; vase; traffic light,
traffic signal, stoplight; tray; ashcan, trash can, garbage can, wastebin, ash bin, ash-bin, ashbin, dustbin,
trash barrel, trash bin; fan; pier, wharf, wharfage, dock; crt screen; plate; monitor, monitoring device;
bulletin board, notice board; shower; radiator; glass, drinking glass; clock; flag
"""
_INDICES = 26 * 256  # red is at most 255
_SHOWN = 5  # number of names that a message lists


def _plain(name: str) -> str:
    return ' '.join(name.lower().split())


# The class of each of the 150 names, as the release writes them.
CLASS_IDS = {_plain(name): number for number, name in enumerate(_NAMES.split(';'), start=1)}


def load_map(path: str, names: Sequence[str]) -> dict[int, int]:
    """Reads a table of the class of each object.

    Args:
      path: a text; each line has the index of an object and the id or the name of a class, separated by a comma, a
        colon, a tab or a space. Objects that it does not list are of class 0.
      names: names of the classes.

    Raises:
      OptionError: The file cannot be read, or a line is not as described.
    """
    try:
        lines = documents.load_text(path).splitlines()
    except documents.DocumentError as error:
        raise OptionError(f"The class map '{path}' {error}.") from None
    class_map = {}
    for number, line in enumerate(map(str.strip, lines), start=1):
        if not line or line.startswith('#'):
            continue
        index, _, name = line.replace(',', ' ', 1).replace(':', ' ', 1).replace('\t', ' ').partition(' ')
        name = name.strip()
        class_id = int(name) if name.isdecimal() else names.index(name) if name in names else -1
        if not index.isdecimal() or not 0 < int(index) < _INDICES or not 0 <= class_id < len(names):
            raise OptionError(
                f"Line {number} of the class map '{path}' is '{line[:80]}'. Write the index of an object (1 to "
                f'{_INDICES - 1}) and the id (0 to {len(names) - 1}) or the name of a class, such as 2836 137.'
            )
        class_map[int(index)] = class_id
    if not class_map:
        raise OptionError(f"The class map '{path}' is empty.")
    return class_map


@dataclasses.dataclass(frozen=True)
class ReleaseMasks:
    """Makes masks of classes, and of the instances of things, of the files *_seg.png.

    Attributes:
      path: the mask.
      class_map: the class of each index; None to go by the names in the JSON file beside the mask.
      things: the classes whose objects are instances; None if no instances are wanted.
    """

    path: str
    class_map: Mapping[int, int] | None = None
    things: Sequence[int] | None = None

    @property
    def key(self) -> str:
        """Identifies the classes of the indices."""
        things = '' if self.things is None else f' {self.things}'
        if self.class_map is not None:
            return f'ade20k release {sorted(self.class_map.items())}{things}'
        return f'ade20k release {mask_sources.file_state(annotation_path(self.path))}{things}'

    def masks(self, path: str) -> mask_sources.Masks:
        """Returns the masks, as PNG files; 0 is the class of all other objects.

        The instances are numbered from 1 on. Parts of objects, which have files of their own, are no instances.
        """
        colors = images.read_colors(mask_sources.contents(path), 'objects').astype(np.int32)
        indices = colors[..., 0] // 10 * 256 + colors[..., 1]  # [h, w], the object of each pixel
        classes = self.class_map
        if classes is None:
            beside = annotation_path(path)
            named = _names_of(beside)
            lost = [int(index) for index in np.unique(indices) if index and int(index) not in named]
            if lost:
                raise DataError(f"its object {lost[0]} is not in '{beside}'; set a class map")
            classes = {index: CLASS_IDS.get(name, 0) for index, name in named.items()}
        table = np.zeros(_INDICES, np.uint8)
        for index, class_id in classes.items():
            table[index] = class_id
        class_ids = table[indices]
        if self.things is None:
            return mask_sources.Masks(images.encode_png(class_ids))
        blue = colors[..., 2]
        is_instance = np.isin(class_ids, self.things) & (blue > 0)
        numbers = np.zeros(class_ids.shape, np.uint16)
        numbers[is_instance] = np.unique((indices << 8 | blue)[is_instance], return_inverse=True)[1] + 1
        return mask_sources.Masks(images.encode_png(class_ids), images.encode_png(numbers))


def annotation_path(mask: str) -> str:
    """Returns the path of the JSON file that belongs to a mask."""
    return os.path.splitext(mask)[0].removesuffix(MASK_SUFFIX) + '.json'


def _names_of(path: str) -> dict[int, str]:
    """Returns the name of each index in a JSON file of the release."""
    content = mask_sources.contents(path)
    try:
        try:
            text = content.decode('utf-8-sig')
        except UnicodeDecodeError:
            text = content.decode('latin-1')  # the encoding of some files
        objects: Any = json.loads(text)['annotation']['object']
        return {int(entry['name_ndx']): _plain(str(entry['name'])) for entry in objects}
    except (ValueError, KeyError, TypeError, RecursionError):
        raise DataError(f"'{path}' is not an annotation of ADE20K: it needs objects with name and name_ndx") from None


def require_known_names(paths: Sequence[str]) -> None:
    """Raises `DataError` if none of the names in some JSON files is one of the 150."""
    names = {name for path in paths for name in _names_of(path).values()}
    if names and not names & CLASS_IDS.keys():
        shown = '; '.join(sorted(names)[:_SHOWN])
        raise DataError(
            f'None of the objects in the JSON files has a name of the 150 classes: {shown}. Set a class map.'
        )
