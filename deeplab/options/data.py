"""Options of the input: data set, resizing, augmentation."""

from __future__ import annotations

import dataclasses

from deeplab.errors import OptionError
from deeplab.options.fields import Options, PathText, declared
from deeplab.options.parameters import OptionsWithSettings, Settings
from deeplab.registry.augmentations import AUGMENTATIONS, CROP, Augmentation
from deeplab.registry.datasets import DATASETS, Dataset
from deeplab.wording import option

IMAGE_FORMATS = ('jpg', 'jpeg', 'png', 'npy', 'jfif', 'jpe')
LABEL_FORMATS = ('png',)
ALL_FOLDS = 'folds'  # the split of all folds, which has no shards of its own


def split_of_fold(fold: int) -> str:
    """Returns the split of a fold, which is numbered from 1."""
    return f'fold{fold}'


def split_without_fold(fold: int) -> str:
    """Returns the split of all other folds, which has no shards of its own."""
    return f'folds_without_{fold}'


@dataclasses.dataclass(frozen=True)
class DatasetOptions(Options):
    """The records to read."""

    split: str = declared(meaning='The split to read: its shards are named SPLIT-*.', flag=None)
    directory: PathText = declared(meaning='Folder of the TFRecord shards that a builder wrote.', flag='dataset_dir')
    name: PathText = declared(
        'pascal_voc_seg',
        lambda: (
            f'The data set: a known name ({", ".join(DATASETS.names())}), a Python module that defines DATASET, or a '
            'JSON or YAML file.'
        ),
        flag='dataset',
    )
    skip_corrupt_records: bool = declared(
        False,
        'Skip and count records that cannot be read, instead of stopping at the first.',
    )
    # A name and its description, so that the description is loaded once in a run; disregarded once `name` is another.
    loaded: tuple[str, Dataset] | None = dataclasses.field(default=None, repr=False, compare=False)

    @property
    def description(self) -> Dataset | None:
        """The description of the data set, if it has been loaded."""
        return self.loaded[1] if self.loaded is not None and self.loaded[0] == self.name else None


@dataclasses.dataclass(frozen=True)
class ResizeOptions(Options):
    """Resizing of images to a range of sizes; all None for no resizing."""

    min_value: int | None = declared(
        None,
        'Resize each image so that its shorter side has this many pixels.',
        flag='min_resize_value',
        range='(0, inf)',
    )
    max_value: int | None = declared(
        None,
        'Largest length, in pixels, of the longer side after resizing.',
        flag='max_resize_value',
        range='(0, inf)',
    )
    factor: int | None = declared(
        None,
        'Round the sides of resized images up to a multiple of this plus 1; use the value of '
        '{ModelOptions.output_stride}.',
        flag='resize_factor',
        range='(0, inf)',
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.min_value is not None and self.max_value is not None:
            self._require(
                self.min_value <= self.max_value,
                'min_value',
                f'it must be at most {option("ResizeOptions.max_value", self.max_value)}',
            )

    @property
    def is_set(self) -> bool:
        """Whether images are resized."""
        return self.min_value is not None or self.max_value is not None


@dataclasses.dataclass(frozen=True)
class AugmentOptions(OptionsWithSettings, registries=(AUGMENTATIONS,)):
    """Random augmentation of training images.

    `settings` has the parameters of all augmentations, such as `rotation_degrees`; random scaling, which is part of
    every training, has fields.
    """

    min_scale_factor: float = declared(0.5, 'Smallest random scale of an image.', range='(0, inf)')
    max_scale_factor: float = declared(2.0, 'Largest random scale of an image.')
    scale_factor_step_size: float = declared(
        0.25,
        'Approximate step between the possible scales; 0: any scale in the range.',
        range='[0, inf)',
    )
    settings: Settings = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        self._require(
            self.min_scale_factor <= self.max_scale_factor,
            'min_scale_factor',
            f'it must be at most {option("AugmentOptions.max_scale_factor", self.max_scale_factor)}',
        )
        crops = [record for record in self.active if record.stage == CROP]
        if len(crops) > 1:
            names = ' and '.join(crop.name for crop in crops)
            raise OptionError(f'The augmentations {names} cannot be combined: each places the crop. Omit all but one.')

    @property
    def active(self) -> tuple[Augmentation, ...]:
        """The augmentations that are on, in the order of their execution."""
        return tuple(record for record in AUGMENTATIONS.records() if record.is_enabled(self.settings_of(record)))

    def check_crop_size(self, crop_size: tuple[int, int]) -> None:
        """Raises `OptionError` if an augmentation that is on does not fit the size of the network's input."""
        for record in self.active:
            if record.check is not None:
                record.check(self.settings_of(record), crop_size)
