"""Command lines that suit a data set and the memory of this machine, or repair the data set."""

from __future__ import annotations

import dataclasses
import math
import os
from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np

from deeplab.checks import sources, split_rules
from deeplab.checks.findings import Data, Finding
from deeplab.checks.label_rules import LABEL_WEIGHTS
from deeplab.core import preprocess_utils
from deeplab.datasets import description_file, folder_splits
from deeplab.names import shell_quoted
from deeplab.options import BuilderOptions, DoctorOptions, crop_sizes
from deeplab.system import memory, processors
from deeplab.zoo import catalog

# Of a training of mobilenet_v2 with output stride 16: `memory.Need` of a graph of 513 x 513, batch 100.
_BYTES_PER_PIXEL = 1600
_BYTES_ANYWAY = 500 << 20
_MEMORY_SHARE = 0.8
_BATCH_SIZES = (16, 12, 8, 6, 4, 2, 1)
_LARGEST_CROP = 513
_OF_CLASSIFICATION = (224, 224)  # to which images of a classifier are resized
# Linear scaling of the published rate: 0.007 for 16 images, with momentum and the poly policy (arXiv:1802.02611).
_RATE, _OF_BATCH = 0.007, 16
# Validations of a training, and the largest fraction of its time that they may take. An image takes a third of its time
# in a training step, which also computes gradients.
_VALIDATIONS, _VALIDATION_SHARE, _TIME_WITHOUT_GRADIENTS = 10, 0.1, 1 / 3
_EPOCHS, _FEWEST_STEPS, _MOST_STEPS = 100, 2000, 30000
_FEWEST_FOR_STATISTICS = 12  # images in a batch whose statistics batch norm can be trained with
_INITIAL = 'mobilenetv2_coco_voc_trainaug'
_FEW_IMAGES = 5000  # that the recipes from scratch are for
_NARROW = '0.5'  # depth multiplier of the network that the recipes from scratch were measured with
# Operations of a matrix product in the time of a training step, for each pixel of its crops at output stride 16:
# 0.331 s for 4 crops of 321 x 321 with mobilenet_v2, at 207e9 operations a second.
_OPERATIONS_PER_PIXEL = 166e3
_OF_STRIDE = 16
_CHECKPOINTS = 'checkpoints'
_RECORDS = 'records'
# Tables of colors that tools write beside masks; without one, the user has to write the last.
_COLORS = ('labelmap.txt', 'label_colors.txt', 'colors.txt')
# Options of the doctor that do not matter to a repaired copy, and the one that is named without a flag.
_NOT_REPEATED = ('data', 'output', 'html', 'fix', 'minutes')


class _Scratch(NamedTuple):
    """A training without a checkpoint.

    Attributes:
      recipe: name of the recipe.
      operations: as `_OPERATIONS_PER_PIXEL`.
      epochs: passes over the images, if the time suffices.
      fewest_steps: steps for which the time must suffice.
    """

    recipe: str
    operations: float
    epochs: int
    fewest_steps: int


# 0.233 s for 8 crops of 241 x 321; the long one takes 1.2 times the time and was measured with 165 and 218 epochs.
_SHORT = _Scratch('small_data', 78e3, _EPOCHS, 0)
_LONG = _Scratch('small_data_long', 94e3, 280, 3000)


@dataclasses.dataclass(frozen=True)
class Suggestion:
    """Suggested sizes and command lines.

    Attributes:
      crop_size: height and width of training.
      batch_size: images of a step.
      learning_rate: base learning rate for the optimizer momentum.
      steps: number of training steps.
      eval_crop_size: height and width into which every image fits.
      free: free memory, in bytes; None if unknown.
      lines: commands, in order; the training begins with a published checkpoint.
      from_scratch: command of a training without a checkpoint; empty if no recipe suits the data.
      from_scratch_steps: its number of steps; 0 without one.
      steps_in_time: whether the limited time determines both numbers of steps.
    """

    crop_size: tuple[int, int]
    batch_size: int
    learning_rate: float
    steps: int
    eval_crop_size: tuple[int, int]
    free: int | None
    lines: tuple[str, ...]
    from_scratch: str = ''
    from_scratch_steps: int = 0
    steps_in_time: bool = False


def suggest(data: Data, findings: Iterable[Finding]) -> Suggestion | None:
    """Returns sizes and command lines for a data set with these findings; None without an image to train on."""
    facts = data.splits.get(data.train)
    if facts is None or not facts.images:
        return None
    # No description is named that lies beside the records, or that the builder writes there.
    dataset = data.options.dataset or (None if data.has_description else description_file.FILE_NAME)
    is_uneven = any(finding.rule == 'uneven' for finding in findings)
    crop, eval_crop, resizing = _sizes(data)
    free = memory.free()
    batch = _batch_size(crop[0] * crop[1], len(facts.images), free)
    rate = float(f'{_RATE * batch / _OF_BATCH:.2g}')
    lines, splits = _build_lines(data, dataset)
    directory = _RECORDS if lines else data.options.data
    split, images = _validation_split(data, splits)
    pixels = batch * crop[0] * crop[1]
    possible = _steps_in_time(data.options, pixels * (1 + _VALIDATION_SHARE if split else 1))
    steps = min(_wanted_steps(len(facts.images), batch, _EPOCHS), possible(_OPERATIONS_PER_PIXEL))
    validated_steps = images * eval_crop[0] * eval_crop[1] * _TIME_WITHOUT_GRADIENTS / pixels
    # Of the classes or planes in place of class ids.
    has_several = any(len(set(image.class_ids)) > 1 for image in facts.images)
    task = 'classification' if data.is_classification else '+'.join(data.planes_alone(data.train))
    train = {
        **({'dataset': dataset} if dataset else {}),
        **({'task': task} if task else {}),
        **({'several_labels': 'true'} if data.is_classification and has_several else {}),
        'dataset_dir': directory,
        'train_split': splits[data.train],
        'train_logdir': 'logs/train',
        'model_variant': 'mobilenet_v2',  # of _INITIAL, whose preset would set --dataset, too
        **(
            {}
            if data.is_classification
            else {'output_stride': str(data.options.output_stride), 'train_crop_size': f'{crop[0]},{crop[1]}'}
        ),
        **resizing,
        'train_batch_size': str(batch),
    }
    lines.append(f'deeplab download {_INITIAL} --cache_dir={_CHECKPOINTS}')
    start = _steps(steps, split, validated_steps) | _from_checkpoint(bool(task), rate, batch)
    lines.append(_line('train', train | start) + (f' {LABEL_WEIGHTS}' if is_uneven else ''))
    from_scratch, scratch_steps = '', 0
    if not task and len(facts.images) <= _FEW_IMAGES:
        has_time = data.options.minutes is not None and possible(_LONG.operations) >= _LONG.fewest_steps
        scratch = _LONG if has_time else _SHORT
        scratch_steps = min(_wanted_steps(len(facts.images), batch, scratch.epochs), possible(scratch.operations))
        flags = {'depth_multiplier': _NARROW, **_steps(scratch_steps, split, validated_steps)}
        from_scratch = _line('train', train | flags | {'recipe': scratch.recipe})
    if split:
        kept: dict[str, str] = {key: value for key, value in train.items() if key in ('dataset', 'dataset_dir')}
        kept |= {'eval_split': split, 'checkpoint_dir': 'logs/train', 'eval_logdir': 'logs/eval'}
        kept |= {} if data.is_classification else {'eval_crop_size': f'{eval_crop[0]},{eval_crop[1]}'}
        kept |= {**resizing, 'max_number_of_evaluations': '1'}
        lines.append(_line('eval', kept))
    return Suggestion(
        crop, batch, rate, steps, eval_crop, free, tuple(lines),
        from_scratch, scratch_steps, data.options.minutes is not None,
    )  # fmt: skip


def _sizes(data: Data) -> tuple[tuple[int, int], tuple[int, int], dict[str, str]]:
    """Returns crop sizes of training and evaluation, and flags that resize large photos before."""
    if data.is_classification:
        return _OF_CLASSIFICATION, _OF_CLASSIFICATION, {}
    stride, facts = data.options.output_stride, data.splits[data.train]
    sizes = np.array(list(facts.image_sizes))
    common = np.array(facts.image_sizes.most_common(1)[0][0])
    if (evaluated := data.splits.get(data.evaluated)) is not None and evaluated.image_sizes:
        sizes = np.array(list(evaluated.image_sizes))
    resizing: dict[str, str] = {}
    if common.max() > split_rules.LARGEST_UNRESIZED:
        common, sizes = _resized(common), _resized(sizes)
        resizing = {name: str(value) for name, value in split_rules.RESIZING.items()}
    height, width = (min(side, *crop_sizes.below([_LARGEST_CROP], stride)) for side in crop_sizes.above(common, stride))
    return (height, width), crop_sizes.above(sizes.max(axis=0), stride), resizing


def _resized(sizes: np.ndarray) -> np.ndarray:
    """Returns sizes [..., 2] as the flags of `split_rules.RESIZING` make them."""
    return np.stack(preprocess_utils.size_in_range(sizes[..., 0], sizes[..., 1], *split_rules.RESIZING.values()), -1)


def _from_checkpoint(has_task: bool, rate: float, batch: int) -> dict[str, str]:
    """Returns the flags of a training that begins with the published checkpoint.

    The recipe is for masks of class ids; other tasks have further outputs, which its losses are not made for.
    """
    flags = {'tf_initial_checkpoint': f'{_CHECKPOINTS}/{catalog.get(_INITIAL).folder}'}
    if not has_task:
        return {**flags, 'recipe': 'fine_tune'}
    return {
        **flags,
        'initialize_last_layer': 'false',
        'base_learning_rate': f'{rate:g}',
        'fine_tune_batch_norm': str(batch >= _FEWEST_FOR_STATISTICS).lower(),
    }


def _validation_split(data: Data, splits: dict[str, str]) -> tuple[str, int]:
    """Returns the split to evaluate on, as programs read it, and its number of images; ('', 0) if there is none."""
    if data.train == sources.WHOLE and splits[data.train] != sources.WHOLE:  # the builder will split it
        images = round(len(data.splits[data.train].images) * folder_splits.DEFAULT_VAL_FRACTION)
        return DoctorOptions.eval_split, images
    evaluated = data.splits.get(data.evaluated)
    return ('', 0) if evaluated is None else (splits[data.evaluated], len(evaluated.images))


def _steps(steps: int, split: str, validated_steps: float) -> dict[str, str]:
    """Returns the flags of the number of training steps and of validations on `split`, if there is one.

    Args:
      steps: number of training steps.
      split: the split to evaluate on; '' for none.
      validated_steps: training steps that take as long as a validation.
    """
    flags = {'training_number_of_steps': str(steps)}
    if not split:
        return flags
    every = max(-(-steps // _VALIDATIONS), math.ceil(validated_steps / _VALIDATION_SHARE))
    return {'eval_split': split, 'eval_every': str(min(every, steps)), **flags}


def _wanted_steps(images: int, batch: int, epochs: int) -> int:
    """Returns the number of steps for some epochs, at least `_FEWEST_STEPS` and at most `_MOST_STEPS`."""
    return int(min(max(-(-images * epochs // batch), _FEWEST_STEPS), _MOST_STEPS))


def _steps_in_time(options: DoctorOptions, pixels: float) -> Callable[[float], int]:
    """Returns the number of steps that this machine does in the limited time, as a function of operations per pixel.

    Args:
      options: the time and the output stride; without a time, the function returns the largest number of steps.
      pixels: number of pixels of the crops of a step, and of its part of the validations.

    The estimate takes the speed of a matrix product. The size of the last feature maps follows from the output stride;
    half of the time is spent on them.
    """
    if options.minutes is None:
        return lambda operations: _MOST_STEPS
    pixels = round(pixels * (1 + (_OF_STRIDE / options.output_stride) ** 2) / 2)
    products = options.minutes * 60 * processors.product_speed()
    return lambda operations: max(int(products / (pixels * operations)), 1)


def _batch_size(pixels: int, images: int, free: int | None) -> int:
    """Returns the largest usual batch size that fits; 8 at most if the memory is unknown."""
    usable = 8 * _BYTES_PER_PIXEL * pixels if free is None else free * _MEMORY_SHARE - _BYTES_ANYWAY
    fitting = (size for size in _BATCH_SIZES if size <= images and size * pixels * _BYTES_PER_PIXEL <= usable)
    return next(fitting, 1)


def _build_lines(data: Data, dataset: str | None) -> tuple[list[str], dict[str, str]]:
    """Returns the commands that build records of files, and the names of the splits as programs read them.

    There are no commands if programs read the data set as it is.
    """
    source, options = data.source, data.options
    unchanged = {name: name for name in data.splits}
    if source.is_records:
        return [], unchanged
    lines, splits = [], _splits_of_builder(data)
    if source.is_described:  # read by the rules of the builder; the doctor's splits differ if a file is missing
        return [], splits or unchanged
    kinds = ('image', 'mask', 'list')
    flags: dict[str, str | None]
    if source.image_folder is None or splits is None:  # the copy brings folders together, and has lists
        lines, splits = [repair_line(data)], unchanged
        flags = {f'{kind}_folder': f'{_copy(options)}/{kind}s' for kind in kinds}
    else:
        flags = {f'{kind}_folder': getattr(source, f'{kind}_folder') for kind in kinds}
        flags['mask_suffix'] = options.mask_suffix or source.mask_suffix
        flags['allow_unmatched'] = 'true' if source.has_unmatched else None
    given = {name: value for name, value in flags.items() if value}
    if dataset is None and options.num_classes is None:
        dataset = description_file.beside(options.data)
    if dataset:
        given['dataset'] = dataset
    elif colors := _color_table(data):
        given['colors'] = colors
    else:
        given['num_classes'] = str(data.descriptor.num_classes)
        if data.descriptor.ignore_label != BuilderOptions.ignore_label:
            given['ignore_label'] = str(data.descriptor.ignore_label)
    return [*lines, _line('build_folder_data', {**given, 'output_dir': _RECORDS})], splits


def _splits_of_builder(data: Data) -> dict[str, str] | None:
    """Returns the name that `build_folder_data` gives each split; None if it would make other splits."""
    if data.source.list_folder is not None:
        return {name: name for name in data.splits}
    # The folders of splits count only if they have all images.
    if any(remark.kind == folder_splits.UNLISTED for remark in data.source.remarks):
        return None
    if sources.WHOLE in data.splits:
        return {sources.WHOLE: DoctorOptions.train_split}
    names = {name: split for name in data.splits if (split := folder_splits.usual_split(name)) is not None}
    is_same = len(set(names.values())) == len(data.splits) and DoctorOptions.train_split in names.values()
    return names if is_same else None


def _copy(options: DoctorOptions) -> str:
    """Returns the folder for a repaired copy of a data set, in the current folder."""
    return f'{os.path.basename(os.path.abspath(description_file.folder_of(options.data)))}_repaired'


def _color_table(data: Data) -> str:
    """Returns the path of the table that gives the colors of masks their meaning; '' if none is needed.

    It is given by the user or in the folder of the data set; else it is the path of one to write.
    """
    if data.options.dataset is not None or not data.mask_colors():
        return ''
    if data.options.colors is not None:
        return data.options.colors
    folder = description_file.folder_of(data.options.data)
    paths = [os.path.normpath(os.path.join(folder, name)) for name in _COLORS]
    return next(filter(os.path.isfile, paths), _COLORS[-1])


def repair_line(data: Data) -> str:
    """Returns the command that writes a repaired copy of the data set, into the current folder."""
    options = data.options
    flags = {
        field.name: str(value)
        for field in dataclasses.fields(options)
        if field.name not in _NOT_REPEATED and (value := getattr(options, field.name)) != field.default
    }
    flags['fix'] = _copy(options)
    if colors := _color_table(data):
        flags['colors'] = colors
    return _line(f'doctor {shell_quoted(options.data)}', flags)


def _line(program: str, flags: dict[str, str]) -> str:
    return ' '.join(['deeplab', program, *(f'--{name}={shell_quoted(value)}' for name, value in flags.items())])
