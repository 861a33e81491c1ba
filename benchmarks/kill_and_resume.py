"""Training killed at random moments logs the losses of an uninterrupted run (docs/acceptance.md, row F).

    python benchmarks/kill_and_resume.py --records=TFRECORDS --workdir=WORKDIR [--kills=5] [--steps=200]

Runs training once without interruption, then with the same seed again, killed with SIGKILL `kills` times at random
moments and restarted each time, until it ends. Compares the loss of every logged step with the uninterrupted run, and
reads every checkpoint to verify that it is complete. Prints one line, writes benchmarks/results/kill_and_resume.json.
"""

import argparse
import pathlib
import random
import re
import signal
import subprocess
import sys
import time

import _machine

STEP_LINE = re.compile(r'global step (\d+): loss = (\S+) \(')


def command(arguments: argparse.Namespace, logdir: pathlib.Path) -> list[str]:
    return [
        sys.executable, '-m', 'deeplab', 'train', '--dataset=camvid', '--train_split=train', '--seed=7',
        '--model_variant=mobilenet_v2', '--depth_multiplier=0.5', '--train_crop_size=129,161', '--train_batch_size=4',
        '--optimizer=adam', '--log_steps=1', f'--save_interval_secs={arguments.save_interval_secs}',
        f'--training_number_of_steps={arguments.steps}', f'--dataset_dir={arguments.records}',
        f'--train_logdir={logdir}',
    ]  # fmt: skip


def run(call: list[str], kill_after: float | None, log: pathlib.Path) -> tuple[dict[int, str], int]:
    """Runs `call`, killed `kill_after` seconds after its first step; gives losses by step and the exit status."""
    losses: dict[int, str] = {}
    deadline = None
    process = subprocess.Popen(call, stderr=subprocess.PIPE, text=True)
    with log.open('a') as file:
        for line in process.stderr:
            file.write(line)
            match = STEP_LINE.search(line)
            if match:
                losses[int(match[1])] = match[2]
                if kill_after is not None:
                    deadline = deadline or time.time() + kill_after
                    if time.time() > deadline:
                        process.send_signal(signal.SIGKILL)
    return losses, process.wait()


def unreadable_checkpoints(logdir: pathlib.Path) -> list[str]:
    """Names of checkpoints in `logdir` that cannot be read to the last tensor."""
    import tensorflow as tf

    bad = []
    for index in sorted(logdir.glob('model.ckpt-*.index')):
        try:
            reader = tf.train.load_checkpoint(str(index.with_suffix('')))
            for name in reader.get_variable_to_shape_map():
                reader.get_tensor(name)
        except Exception as error:  # any failure to read is the finding
            bad.append(f'{index.name}: {error}')
    return bad


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--records', type=pathlib.Path, required=True)
    parser.add_argument('--workdir', type=pathlib.Path, required=True)
    parser.add_argument('--kills', type=int, default=5)
    parser.add_argument('--steps', type=int, default=200)
    parser.add_argument('--save_interval_secs', type=int, default=20)
    parser.add_argument('--random_seed', type=int, default=0)
    arguments = parser.parse_args()
    arguments.workdir.mkdir(parents=True, exist_ok=True)
    undisturbed, status = run(
        command(arguments, arguments.workdir / 'straight'), None, arguments.workdir / 'straight.log'
    )
    if status != 0:
        raise SystemExit(f'the undisturbed run ended with status {status}')
    draw = random.Random(arguments.random_seed)
    killed = arguments.workdir / 'killed'
    rounds, differing, rerun = [], {}, 0
    seen: set[int] = set()
    for kill in range(arguments.kills + 1):
        wait = draw.uniform(3, 1.6 * arguments.save_interval_secs) if kill < arguments.kills else None
        losses, status = run(command(arguments, killed), wait, arguments.workdir / 'killed.log')
        rerun += len(seen & set(losses))
        seen |= set(losses)
        differing |= {
            step: (loss, undisturbed.get(step)) for step, loss in losses.items() if loss != undisturbed.get(step)
        }
        rounds.append(
            {'first_step': min(losses, default=None), 'last_step': max(losses, default=None), 'status': status}
        )
    result = {
        'rounds': rounds,
        'steps_run_again': rerun,
        'steps_compared': len(seen),
        'steps_whose_loss_differs': len(differing),
        'examples': dict(list(differing.items())[:5]),
        'unreadable_checkpoints': unreadable_checkpoints(killed),
    }
    path = _machine.write('kill_and_resume', result)
    print(f'{len(differing)} of {len(seen)} logged losses differ, {rerun} steps were run again: {path}')


if __name__ == '__main__':
    main()
