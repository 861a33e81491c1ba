"""Registry of augmentations: random changes of training images."""

from __future__ import annotations

import dataclasses
import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from deeplab.registry.records import Record, Registry

BEFORE_CROP = 'before_crop'
CROP = 'crop'
MIX = 'mix'
AFTER_CROP = 'after_crop'
AFTER_PADDING = 'after_padding'
STAGES = (BEFORE_CROP, CROP, MIX, AFTER_CROP, AFTER_PADDING)
# The steps of preprocessing that are no augmentations of the registry.
RESIZE, SCALE_AND_CROP, NUMBERS, PAD = 'resize_to_range', 'scale_and_crop', 'to_numbers', 'pad'
JOIN_PLANES, SPLIT_PLANES, TARGETS, PREPROCESS = 'join_planes', 'split_planes', 'targets', 'preprocess'
FIXED_STEPS = (RESIZE, SCALE_AND_CROP, NUMBERS, PAD, JOIN_PLANES, SPLIT_PLANES, TARGETS, PREPROCESS)
# Purposes of seeds: of the fixed steps; others of less than the last are chosen, in the records of the package.
SCALE_SEED, CROP_SEED, _FIRST_DERIVED_SEED = 0, 1, 1000
PREPROCESS_SEED = SCALE_SEED  # never in one pipeline


class AugmentContext(NamedTuple):
    """What an augmentation knows besides the sample.

    Attributes:
      crop_size: rows and columns of the network's input.
      mean_pixel: one value for each channel, 0 to 255: the pixel that the network normalizes to 0.
      ignore_label: label of pixels that are excluded from the loss.
      class_pixels: pixels of each class in the split; None if unknown.
      fill: what each plane of the label has beyond the image; empty for a label of class ids alone.
      id_planes: which planes of the label are ids of instances.
      scaled_size: rows and columns of the image after random scaling, integers or int32 scalars; for `CROP` only.
      crop_seed: seed of the plain random crop; for `CROP` only.
      points: the points of the sample before scaling, by key; for `corner` of `CROP` only.
    """

    crop_size: tuple[int, int]
    mean_pixel: Sequence[float]
    ignore_label: int
    class_pixels: Sequence[int] | None = None
    fill: tuple[int, ...] = ()
    id_planes: tuple[int, ...] = ()
    scaled_size: tuple[Any, Any] | None = None
    crop_seed: Any = None
    points: Mapping[str, Any] = {}

    @property
    def label_fill(self) -> tuple[int, ...]:
        """What each plane of the label has beyond the image."""
        return self.fill or (self.ignore_label,)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Augmentation(Record):
    """A random change of training images.

    Attributes:
      function: `function(image, label, seed, context, **parameters)` returns image and label. image: [h, w, channels],
        0 to 255; label: [h, w, 1] integer, or None; seed: [2] int64, the source of all random numbers, drawn with
        `tf.random.stateless_*`; context: an `AugmentContext`. Rows and columns may be unknown when the graph is built,
        and `deeplab preview` calls it with whole images.
      stage: where it runs.
      order: its place among the augmentations of its stage, from the lowest; equal ones run by name.
      is_on: returns whether it is on, given the values of its parameters by name; None: if the first one is not 0.
      check: called if it is on, with the values of its parameters and `crop_size`; raises `OptionError` if they do not
        fit. None for no check.
      title: heading of its column in `deeplab preview`; empty for its name.
      details: returns the line below it, given the values of its parameters; None for a list of them.
      preview: values of parameters for that column; they must change every image.
      takes_planes: whether `function` takes a label of several planes, [h, w, planes] int32, too: the class ids first,
        then what else the tasks of the network need. `context.label_fill` has a value for each.
      move_points: moves points as `function` moves pixels: takes points [n, 2] float32 (rows and columns), the size of
        the image, seed, context and parameters, and returns points. None if it cannot.
      others: of `MIX`: the number of other samples that `function` takes.
      corner: of `CROP`: returns row and column of the window in the image of `context.scaled_size`; takes label, seed,
        context and parameters. None if `function` does not tell.
      not_per_image: returns why it cannot change the images of a task with a result for the whole image; takes their
        size, rows and columns. Empty if it can.
      strongest: values of parameters with which it changes images most in a random set (`random_set`), in which the
        others keep their `preview` or their defaults; empty if it cannot be in one, because it changes sizes or needs
        another stage.
      seed_number: purpose for which the seed is drawn from the sample's seed, unique; None to derive it from the name.

    The values of `stage`:

    - BEFORE_CROP: the image as it is decoded and resized, of its own type; may return float32.
    - CROP: instead of the random scale and crop, at most one: returns a window of at most `crop_size` out of the image
      of `context.scaled_size`. Off with the defaults of its parameters.
    - MIX: images are float32, labels int32, both at most as large as the crop. `function` takes a list of images and a
      list of labels (or None) instead of one of each: the sample's own first, then `others` random ones of the split
      after the stages before. Ids of instances differ between them. It runs for a fraction of the samples, its first
      parameter, and returns an image of at most the size of the crop. For a task with a result for the whole image,
      labels are the places of the images in the list.
    - AFTER_CROP: the image is float32, the label int32; both may be smaller than the crop.
    - AFTER_PADDING: as before, padded to the crop size.
    """

    function: Callable[..., Any]
    stage: str = AFTER_CROP
    order: int = 100
    is_on: Callable[[Mapping[str, Any]], bool] | None = None
    check: Callable[[Mapping[str, Any], Sequence[int]], None] | None = None
    title: str = ''
    details: Callable[[Mapping[str, Any]], str] | None = None
    preview: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    takes_planes: bool = False
    move_points: Callable[..., Any] | None = None
    others: int = 0
    corner: Callable[..., Any] | None = None
    not_per_image: Callable[[Sequence[int]], str] = lambda size: ''
    strongest: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    seed_number: int | None = None

    def __post_init__(self) -> None:
        if self.stage not in STAGES:
            raise ValueError(f"The augmentation '{self.name}' has the stage '{self.stage}'; allowed: {STAGES}.")
        if self.name in FIXED_STEPS:
            raise ValueError(f"'{self.name}' is a step of every training; give the augmentation another name.")
        if (self.stage == MIX) != (self.others > 0):
            raise ValueError(f"The augmentation '{self.name}' needs both or neither: the stage '{MIX}', and `others`.")
        if self.is_on is None and not self.parameters:
            raise ValueError(f"The augmentation '{self.name}' needs a parameter that switches it on, or is_on.")
        if self.strongest and not (self.takes_planes and self.move_points):
            raise ValueError(f"The augmentation '{self.name}' with `strongest` needs takes_planes and move_points.")

    def is_enabled(self, values: Mapping[str, Any]) -> bool:
        """Returns whether it is on, given the values of its parameters by name."""
        return bool(values[self.parameters[0].name]) if self.is_on is None else self.is_on(values)

    @property
    def seed_purpose(self) -> int:
        """`seed_number`, or a number that follows from the name alone."""
        if self.seed_number is not None:
            return self.seed_number
        return _FIRST_DERIVED_SEED + zlib.crc32(self.name.encode()) % (2**31 - _FIRST_DERIVED_SEED)

    def caption(self, values: Mapping[str, Any]) -> str:
        """Returns the line below the title in `deeplab preview`."""
        if self.details is not None:
            return self.details(values)
        return ', '.join(f'{name} {value}' for name, value in values.items())


class _Augmentations(Registry[Augmentation]):
    """Augmentations in the order in which they run."""

    def add(self, record: Augmentation, origin: Mapping[str, Any] | None = None) -> None:
        """Adds a record, see `Registry.add`.

        Raises:
          ValueError: for the reasons of `Registry.add`; or it draws from the seeds of another random change.
        """
        self._load()
        taken = {SCALE_SEED: SCALE_AND_CROP, CROP_SEED: SCALE_AND_CROP}
        taken |= {other.seed_purpose: other.name for other in self._records.values() if other.name != record.name}
        if record.seed_purpose in taken:
            raise ValueError(
                f"The augmentation '{record.name}' has the seed_number {record.seed_purpose} of "
                f"'{taken[record.seed_purpose]}'. Omit it, or use another number."
            )
        super().add(record, origin)

    def records(self) -> tuple[Augmentation, ...]:
        """Returns all records, sorted by stage, order and name."""
        return tuple(sorted(super().records(), key=lambda record: (STAGES.index(record.stage), record.order)))


def keep_points(points: Any, *_: Any, **parameters: Any) -> Any:
    """Returns the points: `Augmentation.move_points` of what moves no pixels."""
    return points


def percent(share: float) -> str:
    """Formats a share for a caption, such as '50%'."""
    if 0 < share < 0.0005:
        return '<0.1%'
    return f'{100 * share:.1f}%' if share < 0.0995 else f'{100 * share:.0f}%'


AUGMENTATIONS = _Augmentations('augmentation', 'AugmentOptions.settings', 'deeplab.core.augmentations')
