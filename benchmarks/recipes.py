"""Recipes and single changes of them on CamVid: mIoU on val, and on a sequence that was left out of training.

    python benchmarks/recipes.py --camvid=../shared/data/camvid --workdir=WORKDIR [--levers=small_data,stride_8,...]
        [--left_out=none,0006R0] [--seeds=0] [--steps=1500] [--stop_after=SECONDS]
    python benchmarks/recipes.py ... --levers=mine --flags='--recipe=small_data --weight_decay=0.05' [--scales]
    python benchmarks/recipes.py --list

A lever is a name and flags of train, on top of `SHARED`. All images of val are of the sequence 0016E5, which is also in
train: a recipe that is good on val may only remember its streets. Therefore `--left_out` names sequences: each is a
training on the images of all others, which is measured on val and on that sequence; `none` trains on all images.
`--scales` measures both with several scales and flips, too. Prints a line for each training and writes
benchmarks/results/recipes.json after each; it repeats nothing that is done, and continues a training that was stopped.
"""

import argparse
import json
import pathlib
import statistics
import subprocess

import _data
import _machine
import camvid
from _resumable import Clock, StoppedError, evaluate, minutes, train

SEQUENCES = ('0001TP', '0006R0', '0016E5')  # prefixes of the images; by their order, the folds of the records
EVERYTHING = 'none'
SHARED = ('--dataset=camvid', '--output_stride=16', '--train_batch_size=8')
MOBILE = ('--model_variant=mobilenet_v2', '--depth_multiplier=0.5')
CROPS = ('--train_crop_size=241,321',)
SMALL = ('--recipe=small_data', *MOBILE, *CROPS)
EVAL_CROP = '369,481'  # multiples of 16 plus 1; the images have 360x480
SEVERAL_SCALES = (*(f'--eval_scales={scale}' for scale in (0.75, 1, 1.25, 1.5, 1.75)), '--add_flipped_images')
SPLITS = ('val', 'left_out_sequence')
NARROW_DECODER = ('--decoder_filters=48', '--aspp_convs_filters=96')  # the recipe sets it at stride 8 alone
LEVERS = {
    'plain': (*camvid.NETWORK, *camvid.TRAINING),
    'small_data': SMALL,
    # Resolution of the features.
    'stride_8': (*SMALL, '--output_stride=8', '--decoder_output_stride=4'),
    'decoder_4': (*SMALL, '--decoder_output_stride=4', *NARROW_DECODER),
    'decoder_8_4': (*SMALL, '--decoder_output_stride=8,4', *NARROW_DECODER),
    'decoder_8_2': (*SMALL, '--decoder_output_stride=8,2', *NARROW_DECODER),
    'loss_stride_1': (*SMALL, '--loss_stride=1'),
    # Networks.
    'width_0.75': (*SMALL, '--depth_multiplier=0.75'),
    'width_1': (*SMALL, '--depth_multiplier=1.0'),
    'mobilenet_v3_large_seg': (*SMALL, '--model_variant=mobilenet_v3_large_seg', '--depth_multiplier=1.0'),
    'resnet_v1_18_half': (*SMALL, '--model_variant=resnet_v1_18', '--depth_multiplier=0.5'),
    'xception_41_quarter': (*SMALL, '--model_variant=xception_41', '--depth_multiplier=0.25'),
    'decoder_128': (*SMALL, '--decoder_filters=128', '--aspp_convs_filters=128'),
    # What the network sees.
    'whole_frames': ('--recipe=small_data', *MOBILE, '--train_crop_size=361,481', '--train_batch_size=4'),
    'scales_0.5_2': (*SMALL, '--min_scale_factor=0.5', '--max_scale_factor=2'),
    'strong_augmentation': (
        *SMALL, '--min_scale_factor=0.5', '--max_scale_factor=2', '--jitter_brightness=0.4', '--jitter_contrast=0.4',
        '--jitter_saturation=0.4', '--jitter_hue=0.05', '--jitter_gamma=0.3', '--blur_sigma=1', '--rotation_degrees=5',
    ),
    'colors': (*SMALL, '--jitter_brightness=0.4', '--jitter_contrast=0.4', '--jitter_saturation=0.4',
               '--jitter_hue=0.05', '--jitter_gamma=0.3'),
    'light': (*SMALL, '--jitter_brightness=0.8', '--jitter_gamma=1'),
    'cutmix': (*SMALL, '--cutmix_probability=0.5'),
    # Loss and optimization.
    'lovasz_1': (*SMALL, '--loss=softmax+lovasz'),
    'dice': (*SMALL, '--loss=softmax+2*dice'),
    'weight_decay_0.05': (*SMALL, '--weight_decay=0.05'),
    'weight_decay_0.001': (*SMALL, '--weight_decay=0.001'),
    'rate_0.0025': (*SMALL, '--base_learning_rate=0.0025'),
    'average_0.998': (*SMALL, '--moving_average_decay=0.998'),
    'batch_4': (*SMALL, '--train_batch_size=4'),
    'batch_16': (*SMALL, '--train_batch_size=16'),
    'bfloat16': (*SMALL, '--precision=bfloat16'),
}  # fmt: skip


def build(data: pathlib.Path, workdir: pathlib.Path) -> pathlib.Path:
    """Writes records of train, of val, and of each sequence of train as a fold; returns their folder."""
    records, lists, folders = workdir / 'tfrecord', workdir / 'lists', _data.layout(data)
    splits = {split: (folders['list_folder'] / f'{split}.txt').read_text().split() for split in ('train', 'val')}
    for number, sequence in enumerate(SEQUENCES, start=1):
        splits[f'fold{number}'] = [name for name in splits['train'] if name.startswith(sequence)]
    if (left := len(splits['train']) - sum(len(splits[f'fold{i + 1}']) for i in range(len(SEQUENCES)))) != 0:
        raise SystemExit(f'{left} images of train are of other sequences than {", ".join(SEQUENCES)}.')
    lists.mkdir(parents=True, exist_ok=True)
    for split, names in splits.items():
        (lists / f'{split}.txt').write_text('\n'.join(names) + '\n')
    words = [f'--{flag}={folder}' for flag, folder in {**folders, 'list_folder': lists}.items()]
    subprocess.run(
        camvid.program('build_voc2012_data', '--image_format=jpg', *words, f'--output_dir={records}'), check=True
    )
    return records


def measure(
    records: pathlib.Path, logdir: pathlib.Path, run: dict, flags: tuple[str, ...], clock: Clock, *, scales: bool
) -> dict:
    """Trains and evaluates `run`, which has lever, left_out, seed and steps; returns it with its figures."""
    steps, data = run['steps'], ('--dataset=camvid', f'--dataset_dir={records}')
    evaluated = (*data, f'--eval_crop_size={EVAL_CROP}')
    fold = None if run['left_out'] == EVERYTHING else SEQUENCES.index(run['left_out']) + 1
    split = 'train' if fold is None else f'folds_without_{fold}'
    train(logdir, steps, clock, *SHARED, *flags, *data[1:], f'--train_split={split}', f'--seed={run["seed"]}')
    figures = {}
    for name, split in zip(SPLITS, ['val'] if fold is None else ['val', f'fold{fold}'], strict=False):
        figures[name] = evaluate(logdir, steps, split, clock, *evaluated)
        if scales:
            words = (*evaluated, *SEVERAL_SCALES)
            figures[f'{name}_scales'] = evaluate(logdir, steps, split, clock, *words, name=f'{split}_scales')
    processor = _machine.describe()['processor']  # runs of one file may come from several machines
    facts = {'eval_crop_size': EVAL_CROP, 'minutes': minutes(logdir), 'processor': processor}
    return {**run, 'flags': flags, **facts, **figures}


def measured() -> list[dict]:
    """Returns what recipes.json holds; read again before each write, since several processes may train side by side."""
    path = _machine.RESULTS / 'recipes.json'
    return json.loads(path.read_text())['runs'] if path.exists() else []


def means(runs: list[dict]) -> dict:
    """Mean mIoU over seeds by lever, steps, left-out sequence and split."""
    grouped: dict[str, dict[str, list[float]]] = {}
    for run in runs:
        of_lever = grouped.setdefault(f'{run["lever"]}, {run["steps"]} steps', {})
        for split in (*SPLITS, *(f'{split}_scales' for split in SPLITS)):
            if split in run:
                of_lever.setdefault(f'without {run["left_out"]}: {split}', []).append(run[split]['miou'])
    return {
        lever: {what: {'miou': statistics.mean(values), 'seeds': len(values)} for what, values in of_lever.items()}
        for lever, of_lever in grouped.items()
    }


def shown(run: dict) -> str:
    parts = [f'{run["lever"]}, {run["steps"]} steps, without {run["left_out"]}, seed {run["seed"]}:']
    for split, name in zip(SPLITS, ('val', run['left_out']), strict=True):
        if split in run:
            several = f'{split}_scales'
            with_scales = f', with several scales {run[several]["miou"]:.4f}' if several in run else ''
            weakest = sorted(run[split]['class_iou'].items(), key=lambda item: item[1])[:3]
            least = ', '.join(f'{name} {value:.3f}' for name, value in weakest)
            parts.append(f'{name} mIoU {run[split]["miou"]:.4f} (least {least}){with_scales};')
    return ' '.join([*parts, f'{run["minutes"]} minutes'])


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--camvid', type=pathlib.Path, default=_data.CAMVID)
    parser.add_argument('--workdir', type=pathlib.Path)
    parser.add_argument('--levers', default='small_data')
    parser.add_argument('--flags', help='flags of train of the only lever, instead of those of the table')
    parser.add_argument('--left_out', default='0006R0')
    parser.add_argument('--seeds', default='0')
    parser.add_argument('--steps', type=int, default=1500)
    parser.add_argument('--scales', action='store_true', help='also evaluate with several scales and flips')
    parser.add_argument('--stop_after', type=float, help='seconds after which a training is stopped, to be continued')
    parser.add_argument('--list', action='store_true', help='only print the levers')
    arguments = parser.parse_args()
    arguments.levers, arguments.left_out = arguments.levers.split(','), arguments.left_out.split(',')
    if arguments.flags and len(arguments.levers) > 1:
        parser.error('--flags are of one lever: name it in --levers.')
    if unknown := [] if arguments.flags else [lever for lever in arguments.levers if lever not in LEVERS]:
        parser.error(f'--levers={unknown[0]}: there is no such lever. Known: {", ".join(LEVERS)}; or give --flags.')
    if unknown := [name for name in arguments.left_out if name not in (*SEQUENCES, EVERYTHING)]:
        parser.error(f'--left_out={unknown[0]}: allowed are {", ".join(SEQUENCES)} and {EVERYTHING}.')
    if not arguments.list and arguments.workdir is None:
        parser.error('--workdir is required.')
    return arguments


def main() -> None:
    arguments = parsed()
    if arguments.list:
        print('\n'.join(f'{lever}: {" ".join(flags)}' for lever, flags in LEVERS.items()))
        return
    records, clock = build(arguments.camvid, arguments.workdir), Clock(arguments.stop_after)
    keys = ('lever', 'left_out', 'seed', 'steps')
    wanted = [
        dict(zip(keys, (lever, left_out, seed, arguments.steps), strict=True))
        for seed in map(int, arguments.seeds.split(','))
        for lever in arguments.levers
        for left_out in arguments.left_out
    ]
    for run in wanted:
        done = [one for one in measured() if all(one[key] == run[key] for key in keys)]
        flags = tuple(arguments.flags.split()) if arguments.flags else LEVERS[run['lever']]
        if done and tuple(done[0]['flags']) != flags:
            raise SystemExit(f'{run} was measured with other flags: {" ".join(done[0]["flags"])}. Name another lever.')
        if done and arguments.scales and 'val_scales' not in done[0]:
            print(f'{run} was measured without --scales; to measure it again, remove it from recipes.json.')
        if not done:
            logdir = arguments.workdir / '_'.join(str(run[key]) for key in keys)
            try:
                done = [measure(records, logdir, run, flags, clock, scales=arguments.scales)]
            except StoppedError as stopped:
                print(f'{run}: {stopped}')
                raise
            runs = measured() + done
            _machine.write('recipes', {'shared_flags': SHARED, 'means': means(runs), 'runs': runs})
        print(shown(done[0]))


if __name__ == '__main__':
    main()
