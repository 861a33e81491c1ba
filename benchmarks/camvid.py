"""CamVid from scratch: mean val mIoU over seeds, and memory during training (docs/acceptance.md, rows C and G).

    python benchmarks/camvid.py --camvid=../shared/data/camvid --workdir=WORKDIR [--seeds=0,1,2] [--steps=1500]

Runs the programs as a user does: builder, then for each seed train, eval and vis. Prints one line, writes
benchmarks/results/camvid.json after each seed, so that an interrupted run keeps what it has.
"""

import argparse
import json
import pathlib
import re
import subprocess
import sys
import time

import _machine

NETWORK = ['--dataset=camvid', '--model_variant=mobilenet_v2', '--depth_multiplier=0.5', '--output_stride=16']
TRAINING = [
    '--train_crop_size=241,321',
    '--train_batch_size=8',
    '--optimizer=adam',
    '--adam_learning_rate=0.001',
    '--batch_norm_decay=0.99',
]
STEP_LINE = re.compile(r'global step (\d+): loss = (\S+) \((\S+) sec/step\)')


def program(name: str, *flags: str) -> list[str]:
    return [sys.executable, '-m', 'deeplab', name, *flags]


def resident_bytes(pid: int, field: str) -> int:
    """`VmRSS` (now) or `VmHWM` (peak) of a process, in bytes."""
    text = pathlib.Path(f'/proc/{pid}/status').read_text()
    return int(re.search(rf'{field}:\s+(\d+) kB', text).group(1)) * 1024


def build(data: pathlib.Path, workdir: pathlib.Path) -> pathlib.Path:
    """Writes the records of CamVid and returns their folder."""
    records = workdir / 'tfrecord'
    builder = program(
        'build_voc2012_data', '--image_format=jpg', f'--image_folder={data / "JPEGImages"}',
        f'--list_folder={data / "ImageSets" / "Segmentation"}',
        f'--semantic_segmentation_folder={data / "SegmentationClass"}', f'--output_dir={records}',
    )  # fmt: skip
    subprocess.run(builder, check=True)
    return records


def train(records: pathlib.Path, logdir: pathlib.Path, seed: int, steps: int, *flags: str) -> dict:
    """Trains one seed and measures its memory at the log lines; `flags` come on top of `TRAINING`."""
    command = program(
        'train', *NETWORK, *TRAINING, '--train_split=train', f'--dataset_dir={records}', f'--train_logdir={logdir}',
        f'--training_number_of_steps={steps}', f'--seed={seed}', *flags,
    )  # fmt: skip
    started = time.time()
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    resident, seconds, peak = {}, [], 0
    for line in process.stderr:
        match = STEP_LINE.search(line)
        if match:
            resident[int(match[1])] = resident_bytes(process.pid, 'VmRSS')
            peak = resident_bytes(process.pid, 'VmHWM')
            seconds.append(float(match[3]))
    if process.wait() != 0:
        raise SystemExit(f'training of seed {seed} failed with status {process.returncode}')
    return {
        'minutes': round((time.time() - started) / 60, 2),
        'median_seconds_per_step': sorted(seconds)[len(seconds) // 2],
        'peak_resident_gb': round(peak / 1e9, 3),
        'resident_gb_by_step': {k: round(v / 1e9, 3) for k, v in resident.items() if k % 200 == 0 or k == steps},
    }


def measure_seed(records: pathlib.Path, workdir: pathlib.Path, seed: int, steps: int) -> dict:
    logdir = workdir / f'seed{seed}'
    result = {'seed': seed, **train(records, logdir, seed, steps)}
    shared = [*NETWORK, f'--dataset_dir={records}', f'--checkpoint_dir={logdir}']
    evaluation = program(
        'eval', *shared, '--eval_crop_size=361,481', '--eval_batch_size=1', '--max_number_of_evaluations=1',
        f'--eval_logdir={logdir / "eval"}',
    )  # fmt: skip
    subprocess.run(evaluation, check=True)
    visualization = program(
        'vis', *shared, '--vis_crop_size=361,481', '--max_number_of_iterations=1', f'--vis_logdir={logdir / "vis"}'
    )
    subprocess.run(visualization, check=True)
    metrics = json.loads((logdir / 'eval' / f'metrics-{steps}.json').read_text())
    pictures = len(list((logdir / 'vis' / 'segmentation_results').glob('*_prediction.png')))
    return {**result, 'miou': metrics['miou'], 'class_iou': metrics['class_iou'], 'pictures': pictures}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--camvid', type=pathlib.Path, required=True)
    parser.add_argument('--workdir', type=pathlib.Path, required=True)
    parser.add_argument('--seeds', default='0,1,2')
    parser.add_argument('--steps', type=int, default=1500)
    parser.add_argument('--name', default='camvid')
    arguments = parser.parse_args()
    records = build(arguments.camvid, arguments.workdir)
    seeds = []
    for seed in (int(text) for text in arguments.seeds.split(',')):
        seeds.append(measure_seed(records, arguments.workdir, seed, arguments.steps))
        mean = sum(row['miou'] for row in seeds) / len(seeds)
        summary = {'mean_miou': mean, 'wanted_mean_miou': 0.385, 'original_miou': [0.389, 0.406], 'seeds': seeds}
        path = _machine.write(arguments.name, {'steps': arguments.steps, 'flags': NETWORK + TRAINING, **summary})
    print(f'mean val mIoU {mean:.4f} over seeds {[row["seed"] for row in seeds]}, wanted 0.385: {path}')


if __name__ == '__main__':
    main()
