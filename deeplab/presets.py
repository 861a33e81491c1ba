"""Presets: the published checkpoints, their data sets and metrics, and the flags that they need (`deeplab presets`).

`--preset=NAME` sets these flags of a program; those on the command line take precedence. `run` lists the presets, or
shows one with command lines to copy. The data are in presets.json in the same folder: names and metrics as published,
`megabytes` of the archive, `miou` and `pixel_accuracy` in percent, `multiply_adds` in billions for all scales and flips
together.
"""

from __future__ import annotations

if __name__ == '__main__':  # first, so that help and usage errors do not wait for TensorFlow
    import os
    import sys

    if not __package__:  # run as a file: replace the folder of this file by that of the package
        sys.path[0] = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
    from deeplab import start

    sys.exit(start.main(['presets', *sys.argv[1:]]))

import dataclasses
import difflib
import functools
import json
import pathlib
from collections.abc import Mapping
from typing import Any

from deeplab.errors import OptionError
from deeplab.options import PresetsOptions

_FACTS = pathlib.Path(__file__).with_suffix('.json')

# The flag of the crop size, by program. Training has its own crop size, as large as memory allows.
_CROP_FLAGS = {'eval': 'eval_crop_size', 'vis': 'vis_crop_size', 'export_model': 'crop_size', 'networks': 'crop_size'}
_BACKBONE_PROGRAMS = ('train', 'preview', 'networks', 'checkpoint')

Settings = dict[str, tuple[str, ...]]


@dataclasses.dataclass(frozen=True)
class Published:
    """One published evaluation.

    Attributes:
      output_stride: of the network that was evaluated.
      scales: whose predictions were averaged.
      flips: whether flipped images were averaged too.
      split: the split that it was evaluated on.
      miou: mean intersection over union, in percent.
      pixel_accuracy: share of correct pixels, in percent; None if not published.
      multiply_adds: in billions; None if not published.
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
      name: the value of --preset.
      archive: the file that it was published as.
      flags: values of each flag that its network needs, one for each occurrence of the flag on a command line.
      megabytes: size of the archive; None if not published.
      dataset: the data set that it was trained on; None for a backbone, from which a training starts.
      num_classes: number of classes of that data set.
      crop_size: height and width for evaluation, '513,513'.
      output_stride: default output stride.
      flags_at_output_stride: flags that depend on the output stride.
      published: the published evaluations.
    """

    name: str
    archive: str
    flags: Mapping[str, tuple[str, ...]]
    megabytes: float | None = None
    dataset: str | None = None
    num_classes: int | None = None
    crop_size: str | None = None
    output_stride: int | None = None
    flags_at_output_stride: Mapping[int, Mapping[str, tuple[str, ...]]] = dataclasses.field(default_factory=dict)
    published: tuple[Published, ...] = ()

    @property
    def is_backbone(self) -> bool:
        """Whether it has only a backbone."""
        return self.dataset is None


@dataclasses.dataclass(frozen=True)
class Result:
    """Result of `deeplab presets`."""

    report: str


def _texts(flags: Mapping[str, list[str]]) -> Settings:
    return {name: tuple(texts) for name, texts in flags.items()}


def _preset(facts: dict[str, Any]) -> Preset:
    """Creates a preset from its object in the JSON file."""
    facts = dict(facts)
    facts['flags'] = _texts(facts['flags'])
    by_stride = facts.get('flags_at_output_stride', {})
    facts['flags_at_output_stride'] = {int(stride): _texts(flags) for stride, flags in by_stride.items()}
    rows = facts.get('published', ())
    facts['published'] = tuple(Published(**{**row, 'scales': tuple(row['scales'])}) for row in rows)
    return Preset(**facts)


@functools.cache
def all_presets() -> dict[str, Preset]:
    """Returns all presets by name, in the order of the list."""
    presets = [_preset(facts) for facts in json.loads(_FACTS.read_text(encoding='utf-8'))]
    return {preset.name: preset for preset in presets}


def get(name: str) -> Preset:
    """Returns the preset named `name`.

    Raises:
      OptionError: there is none; the message suggests similar names.
    """
    known = all_presets()
    if name in known:
        return known[name]
    by_archive = {_folder(preset): preset.name for preset in known.values()}
    plain = name.rpartition('/')[2].removesuffix('.tar.gz')
    near = [by_archive[plain]] if plain in by_archive else [other for other in known if plain.lower() in other][:3]
    near = near or difflib.get_close_matches(plain.lower(), known, 3, 0.4)
    hint = f'Did you mean {" or ".join(near)}? ' if near else ''
    raise OptionError(f'--preset={name} is unknown. {hint}`deeplab presets` lists all {len(known)}.')


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
            f'--preset={preset.name} is a backbone without head and logits, but {program} needs a trained network. '
            f'Train from it: `deeplab presets {preset.name}` shows how.'
        )
    found = dict(preset.flags)
    if not preset.is_backbone:
        stride = given.get('output_stride', preset.output_stride)
        found |= {'output_stride': (str(stride),), 'dataset': (str(preset.dataset),)}
        found |= {'num_classes': (str(preset.num_classes),)} if program == 'export_model' else {}
        found |= {_CROP_FLAGS[program]: (str(preset.crop_size),)} if program in _CROP_FLAGS else {}
        found |= _at_output_stride(preset, stride, given)
    return {name: texts for name, texts in found.items() if name not in given}


def _at_output_stride(preset: Preset, stride: int, given: Mapping[str, Any]) -> Settings:
    """Returns the flags that depend on the output stride; raises `OptionError` if they are neither known nor given."""
    rows = preset.flags_at_output_stride
    if stride in rows or not rows:
        return dict(rows.get(stride, {}))
    missing = sorted({name for row in rows.values() for name in row if name not in given})
    if missing:
        raise OptionError(
            f'--preset={preset.name} is for output strides {", ".join(str(row) for row in sorted(rows))}. With '
            f'--output_stride={stride}, set {" and ".join(f"--{name}" for name in missing)} too.'
        )
    return {}


# --- deeplab presets -------------------------------------------------------------------------------------------------


def run(options: PresetsOptions) -> Result:
    """Lists the presets, or shows the one named in `options`."""
    chosen = [get(options.name)] if options.name else list(all_presets().values())
    if options.json:
        return Result(json.dumps([as_json(preset) for preset in chosen], indent=1))
    return Result(_one(chosen[0]) if options.name else _list(chosen))


def as_json(preset: Preset) -> dict[str, Any]:
    """Returns the data of a preset, with its command lines, as JSON values."""
    facts = dataclasses.asdict(preset)
    return facts | {'command_lines': command_lines(preset)}


def _list(presets: list[Preset]) -> str:
    """Returns a table of evaluations, and one of backbones."""
    networks = [preset for preset in presets if not preset.is_backbone]
    backbones = [preset for preset in presets if preset.is_backbone]
    width = max(len(preset.name) for preset in presets)
    lines = ['Published checkpoints; --preset=NAME sets the flags that one needs in train, eval, vis and export_model:']
    lines += ['', f'{"name":{width}}  data set        mIoU   split  stride  scales, flips           archive']
    for preset in networks:
        for i, row in enumerate(preset.published):
            head = f'{preset.name:{width}}  {preset.dataset:14}' if not i else ' ' * (width + 16)
            tail = f'  {preset.archive}{_size(preset)}' if not i else ''
            scales = _scales(row)
            lines.append(f'{head}  {row.miou:5.2f}  {row.split:5}  {row.output_stride:6}  {scales:22}{tail}'.rstrip())
    lines += ['', 'Backbones to train from (deeplab train --preset=NAME --tf_initial_checkpoint=...):', '']
    lines += [f'{preset.name:{width}}  {preset.archive}{_size(preset)}' for preset in backbones]
    lines += ['', 'mIoU in percent. `deeplab presets NAME` shows the flags of a preset, and command lines to copy.']
    return '\n'.join(lines)


def _size(preset: Preset) -> str:
    return '' if preset.megabytes is None else f' ({preset.megabytes:g} MB)'


def _scales(row: Published) -> str:
    """Abbreviates the scales."""
    scales = f'{row.scales[0]:g}'
    if len(row.scales) > 1:
        scales += f' to {row.scales[-1]:g} ({len(row.scales)})'
    return scales + (', flips' if row.flips else '')


def _one(preset: Preset) -> str:
    """Returns the details of one preset."""
    lines = [preset.name, f'archive: {preset.archive}{_size(preset)}']
    if not preset.is_backbone:
        lines.append(f'data set: {preset.dataset} ({preset.num_classes} classes), crop {preset.crop_size}')
        for row in preset.published:
            accuracy = f', pixel accuracy {row.pixel_accuracy:g} %' if row.pixel_accuracy else ''
            cost = f', {row.multiply_adds:g} billion multiply-adds' if row.multiply_adds else ''
            lines.append(
                f'published: mIoU {row.miou:g} %{accuracy} on {row.split} at output stride {row.output_stride}, '
                f'scales {_scales(row)}{cost}'
            )
    lines += ['', 'The preset is equivalent to', f'  {" ".join(spelled(settings(preset, _some_program(preset), {})))}']
    lines += [
        '',
        f'Unpack the archive into the folder {_folder(preset)}; then, in the order of the evaluations above:',
    ]
    return '\n'.join([*lines, '', *(f'  {line}' for line in command_lines(preset))])


def _some_program(preset: Preset) -> str:
    return 'train' if preset.is_backbone else 'eval'


def _folder(preset: Preset) -> str:
    return preset.archive.removesuffix('.tar.gz')


def spelled(flags: Mapping[str, tuple[str, ...]]) -> list[str]:
    """Formats flags as words of a command line."""
    return [f'--{name}={text}' for name, texts in flags.items() for text in texts]


def command_lines(preset: Preset) -> list[str]:
    """Returns command lines with a preset: one for each published evaluation, then vis, export and training."""
    folder = _folder(preset)
    if preset.is_backbone:
        return [_train_line(preset), f'deeplab checkpoint {folder} --preset={preset.name}']
    lines = []
    for row in preset.published:
        words = [f'--preset={preset.name} --dataset_dir=tfrecord --checkpoint_dir={folder} --eval_logdir=eval']
        words += [f'--eval_split={_split(preset, row.split)}']
        words += [f'--output_stride={row.output_stride}'] if row.output_stride != preset.output_stride else []
        words += [f'--eval_scales={scale:g}' for scale in row.scales if row.scales != (1.0,)]
        words += ['--add_flipped_images'] if row.flips else []
        lines.append(f'deeplab eval {" ".join(words)} --max_number_of_evaluations=1')
    lines.append(
        f'deeplab vis --preset={preset.name} --dataset_dir=tfrecord --vis_split={_split(preset, "val")} '
        f'--checkpoint_dir={folder} --vis_logdir=vis --max_number_of_iterations=1'
    )
    lines.append(
        f'deeplab export_model --preset={preset.name} --checkpoint_path={folder} '
        '--export_path=frozen_inference_graph.pb'
    )
    return [*lines, _train_line(preset)]


def _split(preset: Preset, split: str) -> str:
    """Returns the name of a split in the records."""
    return f'{split}_fine' if preset.dataset == 'cityscapes' else split


def _train_line(preset: Preset) -> str:
    """Returns a training that starts from the checkpoint, with frozen batch norms, as batches will be small."""
    words = [f'--preset={preset.name} --tf_initial_checkpoint={_folder(preset)} --fine_tune_batch_norm=false']
    # The crop must be as large as the area over which the image-level feature pools.
    words += [f'--train_crop_size={size}' for size in preset.flags.get('image_pooling_crop_size', ())]
    words += [f'--train_split={_split(preset, "train")} --dataset_dir=tfrecord --train_logdir=train']
    return f'deeplab train {" ".join(words)}'
