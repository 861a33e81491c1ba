"""Row C of the main job: the time of a training step, input included, against a 4096-cubed float32 matmul.

    python benchmarks/step_against_matmul.py --records=TFRECORDS [--rounds=10] [--name=step_against_matmul]

In one process and in turn: ten training steps of row C's command line, each with its input, and ten products of two
4096x4096 float32 matrices. The bound is the median step over the median product, at most 1.0 (the original: 1.9).
Run it on an idle machine. Prints one line, writes benchmarks/results/NAME.json.
"""

import argparse
import pathlib
import statistics
import tempfile
import time

import _machine

WARM_UP_STEPS = 5


def command_line(records: pathlib.Path, logdir: str) -> list[str]:
    return [
        '--dataset=camvid', '--train_split=train', '--model_variant=mobilenet_v2', '--depth_multiplier=0.5',
        '--output_stride=16', '--train_crop_size=241,321', '--train_batch_size=8',
        '--training_number_of_steps=1500', '--optimizer=adam', '--adam_learning_rate=0.001',
        '--batch_norm_decay=0.99', f'--dataset_dir={records}', f'--train_logdir={logdir}',
    ]  # fmt: skip
