"""The demo: records, training, evaluation and visualization on drawn street scenes, with a result image.

Its network predicts classes, or, with --task=panoptic, classes and instances of crowded scenes. The demo runs four
programs with the command lines that it reports at its end. The caller passes the function that runs a program
(`run_program`), so that this module does not depend on the command line.
"""

from __future__ import annotations

import dataclasses
import json
import os
import pathlib
import re
import shlex
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from absl import logging

from deeplab import names
from deeplab.errors import DataError, OptionError
from deeplab.files import documents, folder_lock, output_files, writing
from deeplab.options import DemoOptions
from deeplab.pictures import drawing
from deeplab.programs.demo import dataset, instances, scenes, sheet
from deeplab.registry.tasks import SEMANTIC
from deeplab.wording import option

# Runs a program in this process: (its name, its flags as on a command line) -> its result.
RunProgram = Callable[[str, Sequence[str]], Any]

SETTINGS_FILE = 'demo.json'
_WORKDIR = 'DemoOptions.workdir'
SHEET_FILE = 'sheet.png'
RAW_PREDICTIONS = 'raw_segmentation_results'  # folder of class ids that vis writes
_BACKBONE = (
    '--model_variant=mobilenet_v2',
    '--depth_multiplier=0.5',
    '--output_stride=16',
    '--aspp_convs_filters=64',
)


@dataclasses.dataclass(frozen=True)
class Settings:
    """Settings of the data set and the training.

    Attributes:
      train_scenes: number of training scenes.
      val_scenes: number of validation scenes.
      height: height of a scene in pixels.
      width: width of a scene in pixels.
      steps: default number of training steps.
      rows: number of validation scenes on the result image.
      network: flags of the network, for train, eval and vis.
      training: flags of train only.
    """

    train_scenes: int = 300
    val_scenes: int = 60
    height: int = 128
    width: int = 176
    steps: int = 800
    rows: int = 6
    network: tuple[str, ...] = (*_BACKBONE, '--decoder_output_stride=4', '--decoder_filters=64')
    training: tuple[str, ...] = (
        '--train_batch_size=6',
        '--optimizer=adam',
        '--adam_learning_rate=0.003',
        '--batch_norm_decay=0.9',
        '--min_scale_factor=1.0',
        '--max_scale_factor=1.0',
        '--scale_factor_step_size=0',
        '--log_steps=50',
    )

    @property
    def is_panoptic(self) -> bool:
        """Whether the network predicts instances; the scenes are then crowded."""
        return '--task=panoptic' in self.network

    @property
    def crop(self) -> str:
        """The scenes' size, rounded up to a multiple of 16 plus 1, as suits an output stride of 16."""
        return f'{-(-self.height // 16) * 16 + 1},{-(-self.width // 16) * 16 + 1}'


_SEMANTIC = Settings()
# The median of the instances has 264 pixels, and offsets are short: peaks are narrow, areas small, and offsets have a
# larger weight than in large images. In a short training, each pixel counts in the loss of the classes.
_PANOPTIC = dataclasses.replace(
    _SEMANTIC,
    network=(
        '--task=panoptic',
        *_BACKBONE,
        '--center_sigma=4',
        '--small_instance_area=400',
        '--semantic_top_k_percent=1.0',
        '--offset_loss_weight=0.1',
        '--center_threshold=0.3',
        '--stuff_area=64',
    ),
)
SETTINGS = {SEMANTIC: _SEMANTIC, 'panoptic': _PANOPTIC}  # by task


class Paths(NamedTuple):
    """Paths of the demo's files in the working folder."""

    scenes: pathlib.Path
    records: pathlib.Path
    train: pathlib.Path
    eval: pathlib.Path
    vis: pathlib.Path
    sheet: pathlib.Path


class Command(NamedTuple):
    """A program and its flags."""

    program: str
    flags: tuple[str, ...]

    def line(self) -> str:
        """Returns the command line for a shell."""
        return shlex.join([*launcher(), self.program, *self.flags])


@dataclasses.dataclass(frozen=True)
class DemoReport:
    """How the demo ended.

    Attributes:
      report: text for the user: paths of the files, and what was run.
      miou: mean intersection over union on the validation scenes; None if the demo was stopped before.
      sheet: path of the result image; None if the demo was stopped before.
      commands: the commands that were run, in order.
      status: exit status for the command line.
      pq: panoptic quality on the validation scenes; None without instances, or if the demo was stopped before.
      baseline_pq: the same without predicted instances, see `instances.components_quality`.
    """

    report: str
    miou: float | None
    sheet: str | None
    commands: tuple[Command, ...]
    status: int = 0
    pq: float | None = None
    baseline_pq: float | None = None


def run(options: DemoOptions, run_program: RunProgram, settings: Settings | None = None) -> DemoReport:
    """Runs the demo, or resumes one that was stopped in the same folder.

    Args:
      options: folder, steps, seed and task.
      run_program: runs 'build_voc2012_data', 'train', 'eval' or 'vis' with flags, in this process.
      settings: data set and training; None for the settings of the task.

    Raises:
      OptionError: the folder has other files, or a demo with another seed, task or number of steps.
      UserError: errors of the programs.
    """
    started = time.monotonic()
    settings = settings or SETTINGS[options.task]
    if options.steps is not None:
        settings = dataclasses.replace(settings, steps=options.steps)
    workdir = pathlib.Path(options.workdir).expanduser().resolve()
    with folder_lock.held(str(workdir), 'demo', _WORKDIR):
        paths = paths_in(workdir)
        with output_files.writing_to(str(workdir), _WORKDIR):
            task = {'task': options.task} if settings.is_panoptic else {}
            _claim(workdir, {'seed': options.seed, **dataclasses.asdict(settings), **task}, options)
            _draw(paths.scenes, settings, options.seed)
        commands = commands_for(paths, settings, options.seed)
        for number, command in enumerate(commands, start=1):
            logging.info('Demo, command %d of %d: deeplab %s', number, len(commands), command.program)
            result = run_program(command.program, command.flags)
            if status := getattr(result, 'status', 0):
                words = [*launcher(), 'demo', f'--workdir={workdir}', f'--seed={options.seed}']
                words += [] if options.steps is None else [f'--steps={options.steps}']
                words += [f'--task={options.task}'] if settings.is_panoptic else []
                report = f'The demo was stopped. The same command resumes it: {shlex.join(words)}'
                return DemoReport(report, None, None, commands[:number], status)
        metrics = _metrics(paths, settings)
        with output_files.writing_to(str(workdir), _WORKDIR):
            _write_sheet(paths, settings, options.seed, metrics)
    pq = baseline = None
    if settings.is_panoptic:
        pq = metrics['metrics']['panoptic']['pq']
        baseline = instances.components_quality(paths.scenes, paths.vis / RAW_PREDICTIONS)
    result = DemoReport('', metrics['miou'], str(paths.sheet), commands, pq=pq, baseline_pq=baseline)
    return dataclasses.replace(result, report=_report(paths, settings, result, time.monotonic() - started))


def paths_in(workdir: pathlib.Path) -> Paths:
    """Returns the paths of the demo's files in `workdir`."""
    return Paths(*(workdir / name for name in ('voc', 'tfrecord', 'train', 'eval', 'vis', SHEET_FILE)))


def commands_for(paths: Paths, settings: Settings, seed: int) -> tuple[Command, ...]:
    """Returns the four commands: build the records, train, evaluate, visualize."""
    data = (f'--dataset={paths.scenes / dataset.DESCRIPTION}', f'--dataset_dir={paths.records}')
    train = (
        f'--train_logdir={paths.train}',
        '--train_split=train',
        f'--train_crop_size={settings.crop}',
        f'--training_number_of_steps={settings.steps}',
        f'--seed={seed}',
        *settings.training,
    )

    def on_val(program: str, *further: str) -> Command:
        facts = {'logdir': getattr(paths, program), 'split': 'val', 'crop_size': settings.crop}
        own = (f'--{program}_{name}={value}' for name, value in facts.items())
        return Command(program, (*data, *settings.network, f'--checkpoint_dir={paths.train}', *own, *further))

    return (
        _build_command(paths, settings),
        Command('train', (*data, *settings.network, *train)),
        on_val('eval', '--max_number_of_evaluations=1'),
        on_val('vis', '--also_save_raw_predictions', '--max_number_of_iterations=1'),
    )


def _build_command(paths: Paths, settings: Settings) -> Command:
    images = f'--image_folder={paths.scenes / dataset.IMAGES}'
    masks = paths.scenes / dataset.MASKS
    more = (
        f'--list_folder={paths.scenes / dataset.LISTS}',
        *(() if settings.is_panoptic else ('--image_format=jpg',)),
        f'--num_classes={len(scenes.CLASS_NAMES)}',
        f'--output_dir={paths.records}',
    )
    if not settings.is_panoptic:
        return Command('build_voc2012_data', (images, f'--semantic_segmentation_folder={masks}', *more))
    instance_masks = f'--instance_folder={paths.scenes / dataset.INSTANCES}'
    return Command('build_folder_data', (images, f'--mask_folder={masks}', instance_masks, *more))


def launcher() -> list[str]:
    """Returns the words that start the `deeplab` command, from any folder if possible."""
    beside_python = pathlib.Path(sys.executable).with_name('deeplab')
    if not beside_python.exists():
        return [sys.executable, '-m', 'deeplab']
    in_path = shutil.which('deeplab')
    if in_path and pathlib.Path(in_path).resolve() == beside_python.resolve():
        return ['deeplab']
    return [str(beside_python)]


def _claim(workdir: pathlib.Path, wanted: dict[str, Any], options: DemoOptions) -> None:
    """Creates the folder and writes the settings to it, or checks that it is of a demo with the same settings.

    Raises:
      OptionError: the folder has other files, or is of another demo.
    """
    note = workdir / SETTINGS_FILE
    workdir.mkdir(parents=True, exist_ok=True)
    if note.exists():
        _require_same(note, wanted)
        logging.info('Resuming the demo in %s; existing files are reused.', workdir)
        return
    writing.remove_leftovers(str(workdir), re.escape(SETTINGS_FILE))
    lock = os.path.basename(folder_lock.path_of('', 'demo'))
    if any(path.name != lock for path in workdir.iterdir()):
        raise OptionError(
            f'{option(_WORKDIR, options.workdir)}: the folder is not empty, and its files are not from a demo. Pass a '
            'folder that is empty or does not exist yet.'
        )
    writing.write(note, json.dumps(wanted, indent=2) + '\n')


def _require_same(note: pathlib.Path, wanted: dict[str, Any]) -> None:
    """Raises `OptionError` if the folder's demo has other settings."""
    fix = f'Use another {option(_WORKDIR)}, or remove that folder to restart.'
    try:
        noted = documents.load(note)
    except documents.DocumentError as error:
        raise OptionError(f'{note} {error}. {fix}') from None
    noted = {'task': SEMANTIC, **(noted if isinstance(noted, dict) else {})}
    wanted = {'task': SEMANTIC, **json.loads(json.dumps(wanted))}  # tuples become lists, as in the file
    differing = [key for key in wanted if noted.get(key) != wanted[key]]
    if differing:
        shown = [f'{key} {noted.get(key)} (not {wanted[key]})' for key in differing if key in ('seed', 'steps', 'task')]
        what = ' and '.join(shown) or 'other settings, from another version of deeplab'
        raise OptionError(f'{note.parent} has a demo with {what}. {fix}')


def _draw(folder: pathlib.Path, settings: Settings, seed: int) -> None:
    """Draws the scenes unless they exist."""
    splits = {'train': settings.train_scenes, 'val': settings.val_scenes}
    if folder.exists():
        logging.info('Using the %d scenes in %s.', sum(splits.values()), folder)
        return
    logging.info('Drawing %d scenes into %s', sum(splits.values()), folder)
    dataset.write_dataset(folder, seed, splits, (settings.height, settings.width), settings.is_panoptic)


def _metrics(paths: Paths, settings: Settings) -> dict[str, Any]:
    """Reads the metrics that eval has written."""
    path = paths.eval / f'metrics-{settings.steps}.json'
    if not path.exists():
        raise DataError(
            f'eval has not written {path}. There may be a newer checkpoint in {paths.train}: remove that folder.'
        )
    metrics: dict[str, Any] = documents.load(path)
    return metrics


def _write_sheet(paths: Paths, settings: Settings, seed: int, metrics: dict[str, Any]) -> None:
    """Draws some validation scenes, evenly distributed, on one image."""
    stems = (paths.scenes / dataset.LISTS / 'val.txt').read_text('utf-8').split()
    chosen = sorted(set(np.linspace(0, len(stems) - 1, settings.rows).astype(int).tolist()))
    rows = [_row(paths, stems[number], settings.is_panoptic) for number in chosen]
    if settings.is_panoptic:
        title, name = f'PQ {metrics["metrics"]["panoptic"]["pq"]:.3f}', 'PQ'
        figures = metrics['class_metrics']['panoptic']['pq']
    else:
        title, name, figures = f'mIoU {metrics["miou"]:.3f}', 'IoU', metrics['class_iou']
    title = f'deeplab demo: {title} on {len(stems)} scenes after {settings.steps} steps, seed {seed}'
    of_classes = [figures[name] for name in scenes.CLASS_NAMES]
    legend = sheet.Legend(scenes.CLASS_NAMES, scenes.PALETTE, of_classes, name)
    drawing.write(paths.sheet, sheet.compose(rows, legend, title))


def _row(paths: Paths, stem: str, is_panoptic: bool) -> list[np.ndarray]:
    """Returns a row of the result image: a scene, and what is true and predicted, [h, w, 3] uint8 each."""
    image = dataset.pixels(paths.scenes / dataset.IMAGES / f'{stem}.jpg')
    kinds = instances.KINDS if is_panoptic else (RAW_PREDICTIONS,)
    predicted = [dataset.pixels(paths.vis / kind / f'{stem}.png') for kind in kinds]
    both = (dataset.true_ids(paths.scenes, stem), predicted)
    if is_panoptic:
        return [image, *(instances.drawn(image, *ids) for ids in both)]
    return [image, *(drawing.colored(ids[0], scenes.PALETTE) for ids in both)]


def _report(paths: Paths, settings: Settings, figures: DemoReport, seconds: float) -> str:
    """Returns the figures, the paths of the files, and the command lines."""
    of_classes = 'IoU' if figures.pq is None else 'IoU and PQ'
    places = (
        ('sheet', str(paths.sheet), 'image, ground truth and prediction side by side: look at this first'),
        ('scenes', str(paths.scenes), 'images and masks, in the layout of PASCAL VOC'),
        ('records', str(paths.records), 'TFRecord shards'),
        ('checkpoints', str(paths.train), 'with event files for TensorBoard'),
        ('metrics', str(paths.eval / f'metrics-{settings.steps}.json'), f'{of_classes} of every class'),
        ('predictions', str(paths.vis / 'segmentation_results'), 'colored'),
    )
    quality = '' if figures.pq is None else f'PQ {figures.pq:.3f} and '
    validation = f'{quality}mIoU {figures.miou:.3f} on {settings.val_scenes} validation scenes'
    lines = [f'The demo took {names.duration(seconds)}: {validation}.']
    if figures.baseline_pq is not None:
        lines += [f'PQ of the predicted classes alone, whose connected components count: {figures.baseline_pq:.3f}.']
    lines += ['']
    lines += [f'  {line}' for line in names.aligned(places, left=(0, 1, 2))]
    lines += ['', 'The four command lines that it ran, to copy:']
    for command in figures.commands:
        lines += ['', command.line()]
    return '\n'.join(lines)
