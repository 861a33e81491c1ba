"""The rows of `python -m benchmarks`: what each runs, what it measures, and its goal."""

from __future__ import annotations

import dataclasses

# What a row measures.
STEPS = 'seconds per training step, input included'
FIRST_STEP = 'seconds from the start of the process to the first training step'
WHOLE = 'seconds from the start of the process to its end'
GRAPH = 'seconds of one image in a frozen graph'

_DATA = '--dataset=camvid --dataset_dir={records}'
_MOBILENET = '--model_variant=mobilenet_v2 --output_stride=16'
_HEAD = '--output_stride=16 --atrous_rates=6 --atrous_rates=12 --atrous_rates=18 --decoder_output_stride=4'
_XCEPTION = f'--model_variant=xception_65 {_HEAD}'
_RESNET = f'--model_variant=resnet_v1_50_beta {_HEAD}'
_TRAIN = (
    f'{_DATA} --train_split=train --train_logdir={{fresh}} --train_crop_size={{crop}} --training_number_of_steps=100000'
    ' --save_interval_secs=100000 --save_summaries_secs=100000'
)
CAMVID_NETWORK = f'{_MOBILENET} --depth_multiplier=0.5'
_TRAIN_CAMVID = (
    f'{_TRAIN} {CAMVID_NETWORK} --train_batch_size=8'
    ' --optimizer=adam --adam_learning_rate=0.001 --batch_norm_decay=0.99'
)
_EVAL = (
    f'{CAMVID_NETWORK} --dataset=camvid --eval_split=val --eval_crop_size=361,481 --eval_batch_size=1'
    ' --max_number_of_evaluations=1 --checkpoint_dir={checkpoint} --eval_logdir={fresh}'
)
_VIS = (
    f'{CAMVID_NETWORK} {_DATA} --vis_split=val --vis_crop_size=361,481 --vis_batch_size=1 --max_number_of_iterations=1'
    ' --also_save_raw_predictions --checkpoint_dir={checkpoint} --vis_logdir={fresh}'
)
_BUILD = (
    '--image_format=jpg --image_folder={data}/JPEGImages --list_folder={data}/ImageSets/Segmentation'
    ' --semantic_segmentation_folder={data}/SegmentationClass --output_dir={fresh}'
)
_EXPORT = '--checkpoint_path={weights} --export_path={fresh}/frozen_graph.pb --crop_size={crop}'
_FULL, _TINY = '513,513', '65,65'


@dataclasses.dataclass(frozen=True)
class Goal:
    """What a row must reach; None for what has no bound.

    Attributes:
      ratio: time of the original by ours, at least.
      seconds: at most.
      peak_bytes: peak resident memory, at most.
    """

    ratio: float | None = None
    seconds: float | None = None
    peak_bytes: float | None = None

    def __str__(self) -> str:
        parts = [f'{self.ratio:g} x'] if self.ratio else []
        parts += [f'{self.seconds:g} s'] if self.seconds else []
        parts += [f'{self.peak_bytes / 1e9:g} GB'] if self.peak_bytes else []
        return ', '.join(parts)


@dataclasses.dataclass(frozen=True)
class Row:
    """One row.

    Attributes:
      name: for `--rows`.
      title: in the table.
      measures: one of the constants of this module.
      program: of `deeplab`; empty for a command of its own.
      flags: of the program, or of Python where there is no program. {records}, {data}, {checkpoint}, {one} (records of
        a single image), {weights} (a checkpoint with random weights), {crop}, and {fresh}, a new folder for each run,
        are filled in.
      goal: what must be reached.
      crop: the crop size.
      quick_crop: that of `--quick`.
      log_steps: steps between two log lines of a training.
      weights: flags of the network that has random weights; empty where none is needed.
      has_original: whether the original has such a program.
      takes_engine: whether the program has the flag --engine.
    """

    name: str
    title: str
    measures: str
    program: str = ''
    flags: str | tuple[str, ...] = ''
    goal: Goal = Goal()
    crop: str = ''
    quick_crop: str = _TINY
    log_steps: int = 1
    weights: str = ''
    has_original: bool = True
    takes_engine: bool = False


ROWS = (
    Row(
        'train_mobilenet_v2',
        'training step, mobilenet_v2, 321x321, batch 4',
        STEPS,
        'train',
        f'{_TRAIN} {_MOBILENET} --train_batch_size=4',
        Goal(ratio=3.5),
        crop='321,321',
        log_steps=10,
    ),
    Row(
        'train_camvid',
        'training step, mobilenet_v2 x0.5, 241x321, batch 8, adam',
        STEPS,
        'train',
        _TRAIN_CAMVID,
        Goal(ratio=3.5),
        crop='241,321',
        log_steps=10,
    ),
    Row(
        'train_xception_65',
        'training step, xception_65, ASPP and decoder, 321x321, batch 2',
        STEPS,
        'train',
        f'{_TRAIN} {_XCEPTION} --train_batch_size=2',
        Goal(ratio=2.5),
        crop='321,321',
        log_steps=4,
    ),
    Row(
        'train_resnet_v1_50',
        'training step, resnet_v1_50_beta, ASPP and decoder, 321x321, batch 2',
        STEPS,
        'train',
        f'{_TRAIN} {_RESNET} --train_batch_size=2',
        Goal(ratio=2.5),
        crop='321,321',
        log_steps=4,
    ),
    Row(
        'graph_mobilenet_v2',
        'frozen export, mobilenet_v2, 513x513',
        GRAPH,
        'export_model',
        f'{_EXPORT} {_MOBILENET}',
        Goal(ratio=3.3),
        crop=_FULL,
        weights=_MOBILENET,
        takes_engine=True,
    ),
    Row(
        'graph_xception_65',
        'frozen export, xception_65, ASPP and decoder, 513x513',
        GRAPH,
        'export_model',
        f'{_EXPORT} {_XCEPTION}',
        Goal(ratio=3.3),
        crop=_FULL,
        weights=_XCEPTION,
        takes_engine=True,
    ),
    Row(
        'eval',
        'eval, 101 images, start to end',
        WHOLE,
        'eval',
        f'{_EVAL} --dataset_dir={{records}}',
        Goal(ratio=3.5),
        takes_engine=True,
    ),
    Row(
        'vis', 'vis, 101 images, raw predictions, start to end', WHOLE, 'vis', _VIS, Goal(ratio=3.5), takes_engine=True
    ),
    Row('build_records', 'building 468 records, start to end', WHOLE, 'build_voc2012_data', _BUILD, Goal(ratio=3.5)),
    Row('help', 'deeplab --help', WHOLE, flags=('-m', 'deeplab', '--help'), goal=Goal(seconds=0.3), has_original=False),
    Row('import', 'import deeplab', WHOLE, flags=('-c', 'import deeplab'), goal=Goal(seconds=0.1), has_original=False),
    Row(
        'first_step',
        'first training step, from process start',
        FIRST_STEP,
        'train',
        _TRAIN_CAMVID,
        Goal(seconds=8),
        crop='241,321',
    ),
    Row(
        'first_image',
        'eval of a single image, start to end',
        WHOLE,
        'eval',
        f'{_EVAL} --dataset_dir={{one}}',
        Goal(seconds=3.5),
        has_original=False,
    ),
    Row(
        'export_large',
        'export_model, xception_65, ASPP and decoder, 513x513, start to end',
        WHOLE,
        'export_model',
        f'{_EXPORT} {_XCEPTION}',
        Goal(seconds=15, peak_bytes=1.5e9),
        crop=_FULL,
        weights=_XCEPTION,
    ),
)


def chosen(names: str | None) -> list[Row]:
    """Returns the rows of comma-separated names, in the order of the table; all for None.

    Raises:
      ValueError: there is no such row; the message lists all.
    """
    known = {row.name: row for row in ROWS}
    wanted = list(known) if names is None else [name.strip() for name in names.split(',')]
    unknown = [name for name in wanted if name not in known]
    if unknown:
        raise ValueError(f'Unknown row {unknown[0]!r}. Known: {", ".join(known)}.')
    return [row for row in ROWS if row.name in wanted]
