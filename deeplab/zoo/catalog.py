"""The published checkpoints, with the flags that their networks need, and the published data sets.

The facts are in the same folder. presets.json has names and metrics as published, `megabytes` of the archive, `miou`
and `pixel_accuracy` in percent, `multiply_adds` in billions for all scales and flips together. data_sets.json has size
and checksum of some archives; others are noted at the first download, and compared from then on.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import pathlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from deeplab import names
from deeplab.errors import OptionError
from deeplab.files import documents
from deeplab.wording import did_you_mean, option

_FOLDER = pathlib.Path(__file__).parent
_SERVER = 'https://storage.googleapis.com/download.tensorflow.org/models'

# The flag of the crop size, by program. Training has its own crop size, as large as memory allows.
_CROP_FLAGS = {
    'eval': 'eval_crop_size',
    'verify': 'eval_crop_size',
    'vis': 'vis_crop_size',
    'export_model': 'crop_size',
    'networks': 'crop_size',
}
_BACKBONE_PROGRAMS = ('train', 'preview', 'networks', 'checkpoint')

Settings = dict[str, Sequence[str]]  # values by flag, one for each occurrence on a command line


@dataclasses.dataclass(frozen=True)
class Published:
    """One published evaluation.

    Attributes:
      output_stride: output stride of the evaluated network.
      scales: scales of the images; the predictions were averaged.
      flips: whether flipped images were averaged too.
      split: the split that it was evaluated on.
      miou: mean intersection over union, in percent.
      pixel_accuracy: share of correct pixels, in percent; None if not published.
      multiply_adds: multiply-adds in billions; None if not published.
    """

    output_stride: int
    scales: tuple[float, ...]
    flips: bool
    split: str
    miou: float
    pixel_accuracy: float | None = None
    multiply_adds: float | None = None


@dataclasses.dataclass(frozen=True)
class Preset:
    """One published checkpoint.

    Attributes:
      name: name, such as mobilenetv2_coco_voc_trainaug.
      archive: the file that it was published as.
      flags: flags that its network needs.
      megabytes: size of the archive in 10^6 bytes; None if not published.
      dataset: the data set that it was trained on; None for a backbone, from which a training starts.
      num_classes: number of classes of that data set.
      crop_size: height and width for evaluation, '513,513'.
      output_stride: default output stride.
      flags_at_output_stride: flags that depend on the output stride.
      published: the published evaluations.
    """

    name: str
    archive: str
    flags: Settings
    megabytes: float | None = None
    dataset: str | None = None
    num_classes: int | None = None
    crop_size: str | None = None
    output_stride: int | None = None
    flags_at_output_stride: Mapping[int, Settings] = dataclasses.field(default_factory=dict)
    published: tuple[Published, ...] = ()

    @property
    def is_backbone(self) -> bool:
        """Whether it has only a backbone."""
        return self.dataset is None

    @property
    def size(self) -> float | None:
        """Size of the archive in bytes; None if not published."""
        return None if self.megabytes is None else 1e6 * self.megabytes

    @property
    def address(self) -> str:
        """Address of the archive."""
        return f'{_SERVER}/{self.archive}'

    @property
    def folder(self) -> str:
        """Name of the folder for the unpacked files: the archive's name without its extension."""
        return self.archive.removesuffix('.tar.gz')


def _published(rows: Iterable[Mapping[str, Any]]) -> tuple[Published, ...]:
    return tuple(Published(**{**row, 'scales': tuple(row['scales'])}) for row in rows)


@functools.cache
def all_presets() -> dict[str, Preset]:
    """Returns all presets by name, in the order of the list."""
    presets = {}
    for facts in json.loads((_FOLDER / 'presets.json').read_text(encoding='utf-8')):
        by_stride = {int(stride): flags for stride, flags in facts.pop('flags_at_output_stride', {}).items()}
        published = _published(facts.pop('published', ()))
        presets[facts['name']] = Preset(**facts, flags_at_output_stride=by_stride, published=published)
    return presets


def get(name: str) -> Preset:
    """Returns the preset named `name`.

    Raises:
      OptionError: there is none; the message suggests similar names.
    """
    presets = all_presets()
    if name in presets:
        return presets[name]
    by_archive = {preset.folder: preset.name for preset in presets.values()}
    plain = name.rpartition('/')[2].removesuffix('.tar.gz')
    hint = did_you_mean(by_archive.get(plain, plain), presets)
    raise OptionError(
        f"There is no published checkpoint '{names.shown(name)}'. {hint}`deeplab presets` lists all {len(presets)}."
    )


@dataclasses.dataclass(frozen=True)
class DataSet:
    """A data set.

    Attributes:
      name: what `deeplab download` calls it.
      title: name in texts.
      address: address of the archive; empty if it cannot be downloaded without an account.
      archive: file name of the archive.
      size: size of the archive in bytes; None if it is not certain.
      checksum: checksum of the archive, such as 'md5:...'; empty if it is not certain.
      root: folder in the archive that the builder reads.
      by_hand: what users do who have to fetch it themselves.
    """

    name: str
    title: str
    address: str = ''
    archive: str = ''
    size: int | None = None
    checksum: str = ''
    root: str = ''
    by_hand: str = ''

    @property
    def folder(self) -> str:
        """Name of the folder for the unpacked files."""
        return f'data_{self.name}'


@functools.cache
def all_data_sets() -> dict[str, DataSet]:
    """Returns all data sets by name."""
    facts = json.loads((_FOLDER / 'data_sets.json').read_text(encoding='utf-8'))
    return {of_one['name']: DataSet(**of_one) for of_one in facts}


def split_of(preset: Preset, split: str) -> str:
    """Returns the name of a published split in the records."""
    return f'{split}_fine' if preset.dataset == 'cityscapes' else split


def read_published(path: str) -> tuple[Published, ...]:
    """Reads published evaluations from a JSON or YAML file: a list of objects with the attributes of `Published`.

    Raises:
      OptionError: the file cannot be read, or is something else.
    """
    try:
        rows = _published(documents.load(path))
        good = rows and all(0 <= row.miou <= 100 and row.output_stride > 0 for row in rows)
        reason = 'its figures are not percentages'
    except FileNotFoundError:
        raise OptionError(f'There is no file {path} with published figures.') from None
    except documents.DocumentError as error:
        raise OptionError(f'{path} {error}.') from None
    except (TypeError, KeyError, AttributeError):
        good, reason = False, 'it is no list of objects with these keys and values'
    if not good:
        example = '[{"output_stride": 16, "scales": [1.0], "flips": false, "split": "val", "miou": 75.32}]'
        raise OptionError(f'{path} does not hold published figures ({reason}). Write them like {example}.')
    return rows


def settings(preset: Preset, program: str, given: Mapping[str, Any]) -> Settings:
    """Returns the flags that `preset` sets for a program.

    Args:
      preset: the preset.
      program: name of the program; the caller must remove flags that it does not have.
      given: values of the flags on the command line; its output stride selects the flags that depend on one.

    Returns:
      Values by flag, without the flags on the command line.

    Raises:
      OptionError: the program cannot use the checkpoint, or the preset has no flags for the output stride.
    """
    if preset.is_backbone and program not in _BACKBONE_PROGRAMS:
        raise OptionError(
            f'{option("PredictOptions.preset", preset.name)} is a backbone without head and logits, but {program} '
            f'needs a trained network. Train from it: `deeplab presets {preset.name}` shows how.'
        )
    flags = dict(preset.flags)
    if not preset.is_backbone:
        stride = given.get('output_stride', preset.output_stride)
        flags |= {'output_stride': (str(stride),), 'dataset': (str(preset.dataset),)}
        flags |= {'num_classes': (str(preset.num_classes),)} if program == 'export_model' else {}
        flags |= {_CROP_FLAGS[program]: (str(preset.crop_size),)} if program in _CROP_FLAGS else {}
        flags |= {'eval_split': (split_of(preset, 'val'),)} if program == 'verify' else {}
        flags |= _at_output_stride(preset, stride, given)
    return {name: texts for name, texts in flags.items() if name not in given}


def _at_output_stride(preset: Preset, stride: int, given: Mapping[str, Any]) -> Settings:
    """Returns the flags that depend on the output stride; raises `OptionError` if they are neither known nor given."""
    rows = preset.flags_at_output_stride
    if stride in rows or not rows:
        return dict(rows.get(stride, {}))
    missing = sorted({name for row in rows.values() for name in row if name not in given})
    if missing:
        strides, flags = ', '.join(map(str, sorted(rows))), ' and '.join(f'--{name}' for name in missing)
        raise OptionError(
            f'{option("PredictOptions.preset", preset.name)} is for output strides {strides}. With '
            f'{option("ModelOptions.output_stride", stride)}, set {flags} too.'
        )
    return {}
