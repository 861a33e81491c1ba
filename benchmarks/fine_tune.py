"""The recipe for fine-tuning beside the recipe from scratch, after few steps on CamVid with other classes.

    python benchmarks/fine_tune.py --camvid=../shared/data/camvid --checkpoint=CHECKPOINT --workdir=WORKDIR
        [--seeds=0,1,2] [--steps=300] [--stop_after=SECONDS]

The checkpoint is the original's of CamVid, ../shared/goldens/checkpoints/mobilenet_v2_camvid. In the records, six of
the eleven classes, every second one, have changed places in a cycle: the outputs of the checkpoint mean other classes.
As the classes are the same, the mIoU of both trainings can be compared. Prints one line and writes
benchmarks/results/fine_tune.json after each seed; it repeats nothing that is done, and continues a training that
was stopped.
"""

import argparse
import pathlib
import statistics

import _data
import _machine
import camvid
import numpy as np
from _resumable import Clock, evaluate, minutes, train
from PIL import Image

RENAMED = range(0, _data.CLASSES, 2)
SHARED = (*camvid.NETWORK, '--train_crop_size=241,321', '--train_batch_size=8', '--train_split=train')
WANTED_GAIN = 0.1


def renamed_ids() -> np.ndarray:
    """Returns the new id of each id of 8 bits: classes of `RENAMED` change places in a cycle, all others stay."""
    table = np.arange(256, dtype=np.uint8)
    table[list(RENAMED)] = [*RENAMED[1:], RENAMED[0]]
    return table


def write_renamed(data: pathlib.Path, folder: pathlib.Path) -> None:
    """Writes the data set with its new ids, in the layout of PASCAL VOC; images and lists are links."""
    source, target, table = _data.layout(data), _data.layout(folder), renamed_ids()
    for kind in ('image_folder', 'list_folder'):
        target[kind].parent.mkdir(parents=True, exist_ok=True)
        if not target[kind].exists():
            target[kind].symlink_to(source[kind].resolve())
    target['semantic_segmentation_folder'].mkdir(exist_ok=True)
    for mask in sorted(source['semantic_segmentation_folder'].glob('*.png')):
        ids = np.asarray(Image.open(mask))  # [h, w] uint8
        Image.fromarray(table[ids]).save(target['semantic_segmentation_folder'] / mask.name)


def measure(records: pathlib.Path, logdir: pathlib.Path, steps: int, clock: Clock, *flags: str) -> dict:
    """Trains and evaluates on val; returns mIoU, the IoU of each class by its true name, and the time."""
    data = f'--dataset_dir={records}'
    train(logdir, steps, clock, *SHARED, data, *flags)
    figures = evaluate(logdir, steps, 'val', clock, data, '--dataset=camvid', '--eval_crop_size=361,481')
    names = list(figures['class_iou'])
    by_name = {name: figures['class_iou'][names[renamed_ids()[i]]] for i, name in enumerate(names)}
    return {'miou': figures['miou'], 'class_iou': by_name, 'minutes': minutes(logdir)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--camvid', type=pathlib.Path, required=True)
    parser.add_argument('--checkpoint', type=pathlib.Path, required=True)
    parser.add_argument('--workdir', type=pathlib.Path, required=True)
    parser.add_argument('--seeds', default='0,1,2')
    parser.add_argument('--steps', type=int, default=300)
    parser.add_argument('--stop_after', type=float)
    arguments = parser.parse_args()
    steps, workdir, clock = arguments.steps, arguments.workdir, Clock(arguments.stop_after)
    write_renamed(arguments.camvid, workdir / 'renamed')
    records, runs = camvid.build(workdir / 'renamed', workdir), []
    kinds = {
        'scratch': ('--recipe=small_data',),
        'fine_tune': ('--recipe=fine_tune', f'--tf_initial_checkpoint={arguments.checkpoint}'),
    }
    for seed in map(int, arguments.seeds.split(',')):
        run: dict = {'seed': seed}
        for kind, flags in kinds.items():
            run[kind] = measure(records, workdir / f'{kind}_{seed}', steps, clock, f'--seed={seed}', *flags)
        runs.append({**run, 'gain': run['fine_tune']['miou'] - run['scratch']['miou']})
        means = {kind: statistics.mean(row[kind]['miou'] for row in runs) for kind in kinds}
        gain = means['fine_tune'] - means['scratch']
        result = {'steps': steps, 'flags': SHARED, 'recipes': list(kinds), 'renamed_ids': list(RENAMED)}
        summary = {'mean_miou': means, 'mean_gain': gain, 'wanted_gain': WANTED_GAIN}
        path = _machine.write('fine_tune', {**result, **summary, 'seeds': runs})
    print(
        f'val mIoU after {steps} steps: {means["fine_tune"]:.4f} fine-tuned, {means["scratch"]:.4f} from scratch, gain '
        f'{gain:.4f} (wanted {WANTED_GAIN}), seeds {[row["seed"] for row in runs]}: {path}'
    )


if __name__ == '__main__':
    main()
