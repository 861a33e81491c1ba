"""Presets: the published checkpoints, their data sets and metrics, and the flags that they need (`deeplab presets`).

`--preset=NAME` sets these flags of a program; those on the command line take precedence. `run` lists the presets, or
shows one with command lines to copy.
"""

from __future__ import annotations

if __name__ == '__main__':  # `python -m deeplab.presets`; first, so that help does not wait for TensorFlow
    from deeplab import start

    start.run_program('presets')

import dataclasses
import json

from deeplab import names
from deeplab.options import PresetsOptions
from deeplab.zoo.catalog import Preset, Published, all_presets, get, settings, split_of


@dataclasses.dataclass(frozen=True)
class PresetsReport:
    """What `deeplab presets` prints."""

    report: str


def run(options: PresetsOptions) -> PresetsReport:
    """Lists the presets, or shows the one named in `options`."""
    chosen = [get(options.name)] if options.name else list(all_presets().values())
    if options.json:
        facts = [dataclasses.asdict(preset) | {'command_lines': command_lines(preset)} for preset in chosen]
        return PresetsReport(json.dumps(facts, indent=1))
    return PresetsReport(_one(chosen[0]) if options.name else _list(chosen))


def _list(presets: list[Preset]) -> str:
    """Returns a table of evaluations, and one of backbones."""
    networks = [preset for preset in presets if not preset.is_backbone]
    backbones = [preset for preset in presets if preset.is_backbone]
    rows = [('name', 'data set', 'mIoU', 'split', 'stride', 'scales, flips', 'archive')]
    for preset in networks:
        for i, row in enumerate(preset.published):
            name, dataset, archive = ('', '', '') if i else (preset.name, str(preset.dataset), _archive(preset))
            stride = str(row.output_stride)
            rows.append((name, dataset, f'{row.miou:.2f}', row.split, stride, _scales(row), archive))
    lines = ['Published checkpoints; --preset=NAME sets the flags that one needs in train, eval, vis and export_model:']
    lines += ['', *names.aligned(rows, left=(0, 1, 3, 5, 6))]
    lines += ['', 'Backbones to train from (deeplab train --preset=NAME --tf_initial_checkpoint=...):', '']
    lines += names.aligned([(preset.name, _archive(preset)) for preset in backbones], left=(0, 1))
    lines += ['', 'mIoU in percent. `deeplab presets NAME` shows the flags of a preset, and command lines to copy.']
    return '\n'.join(lines)


def _archive(preset: Preset) -> str:
    return preset.archive + ('' if preset.size is None else f' ({names.byte_size(preset.size)})')


def _scales(row: Published) -> str:
    scales = f'{row.scales[0]:g}'
    if len(row.scales) > 1:
        scales += f' to {row.scales[-1]:g} ({len(row.scales)})'
    return scales + (', flips' if row.flips else '')


def _one(preset: Preset) -> str:
    lines = [preset.name, f'archive: {_archive(preset)}']
    if not preset.is_backbone:
        lines.append(f'data set: {preset.dataset} ({preset.num_classes} classes), crop {preset.crop_size}')
        for row in preset.published:
            accuracy = f', pixel accuracy {row.pixel_accuracy:g} %' if row.pixel_accuracy else ''
            cost = f', {row.multiply_adds:g} billion multiply-adds' if row.multiply_adds else ''
            lines.append(
                f'published: mIoU {row.miou:g} %{accuracy} on {row.split} at output stride {row.output_stride}, '
                f'scales {_scales(row)}{cost}'
            )
    flags = settings(preset, 'train' if preset.is_backbone else 'eval', {})
    words = [f'--{name}={text}' for name, texts in flags.items() for text in texts]
    lines += ['', 'The preset is equivalent to', f'  {" ".join(words)}']
    order = ', in the order of the evaluations above' if preset.published else ''
    lines += [
        '',
        f'Unpack the archive into the folder {preset.folder}, or take the path that `deeplab download {preset.name}` '
        f'prints; then{order}:',
    ]
    return '\n'.join([*lines, '', *(f'  {line}' for line in command_lines(preset))])


def command_lines(preset: Preset) -> list[str]:
    """Returns command lines with a preset: one for each published evaluation, then vis, export and training."""
    folder = preset.folder
    if preset.is_backbone:
        return [_train_line(preset), f'deeplab checkpoint {folder} --preset={preset.name}']
    lines = []
    for row in preset.published:
        words = [f'--preset={preset.name} --dataset_dir=tfrecord --checkpoint_dir={folder} --eval_logdir=eval']
        words += [f'--eval_split={split_of(preset, row.split)}']
        words += [f'--output_stride={row.output_stride}'] if row.output_stride != preset.output_stride else []
        words += [f'--eval_scales={scale:g}' for scale in row.scales if row.scales != (1.0,)]
        words += ['--add_flipped_images'] if row.flips else []
        lines.append(f'deeplab eval {" ".join(words)} --max_number_of_evaluations=1')
    lines.append(
        f'deeplab vis --preset={preset.name} --dataset_dir=tfrecord --vis_split={split_of(preset, "val")} '
        f'--checkpoint_dir={folder} --vis_logdir=vis --max_number_of_iterations=1'
    )
    lines.append(
        f'deeplab export_model --preset={preset.name} --checkpoint_path={folder} '
        '--export_path=frozen_inference_graph.pb'
    )
    return [*lines, _train_line(preset)]


def _train_line(preset: Preset) -> str:
    """Returns a training that starts from the checkpoint, with frozen batch norms, as batches will be small."""
    words = [f'--preset={preset.name} --tf_initial_checkpoint={preset.folder} --fine_tune_batch_norm=false']
    # The crop must be as large as the area over which the image-level feature pools.
    words += [f'--train_crop_size={size}' for size in preset.flags.get('image_pooling_crop_size', ())]
    words += [f'--train_split={split_of(preset, "train")} --dataset_dir=tfrecord --train_logdir=train']
    return f'deeplab train {" ".join(words)}'
