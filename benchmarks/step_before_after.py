"""Time and memory of a training step in two versions of this project, in turn, on one machine.

    python benchmarks/step_before_after.py --records=TFRECORDS --before=CHECKOUT [--after=CHECKOUT] [--rounds=10]
    python benchmarks/step_before_after.py --records=TFRECORDS --recipe=small_data
    python benchmarks/step_before_after.py --records=TFRECORDS --before=CHECKOUT --precision=bfloat16 --rounds=5

Both versions train with row C's command line, each in its own process, and take turns: one waits while the other runs.
In each turn the first steps, whose input was prepared while waiting, are not timed. The bound is on the ratios of the
medians of time and of the peaks of resident memory, at most 1.03. Run it on an idle machine. Prints one line, writes
benchmarks/results/step_before_after.json.

With --recipe both are this version, and the second one trains with the recipe in place of the optimizer of row C:
benchmarks/results/step_of_recipe.json.

With --precision the second one trains in that type. Each training row of `python -m benchmarks` is measured, or those
of --rows, with a bound of 0.6: benchmarks/results/step_PRECISION.json, which keeps rows that were measured before.
"""

import argparse
import json
import os
import pathlib
import resource
import statistics
import subprocess
import sys
import tempfile
import time

import _machine

WANTED, WANTED_OF_PRECISION = 1.03, 0.6
OF_OPTIMIZER = '--optimizer=', '--adam_learning_rate=', '--batch_norm_decay='
STEPS_UNTIMED = 6  # more batches than queue and prefetch hold
STEPS_TIMED = 6
ROOT = pathlib.Path(__file__).resolve().parents[1]


def work(flags: list[str]) -> None:
    """Trains; runs the steps of a turn for each line on standard input, and prints the result as a line of JSON."""
    from deeplab import cli
    from deeplab.training import train_loop, train_run

    class TurnHook(train_loop.Hook):
        times: list[float] = []

        def after_step(self, result: train_loop.StepResult, fetched: dict) -> None:
            self.times.append(time.perf_counter())
            if len(self.times) < STEPS_UNTIMED + STEPS_TIMED:
                return
            seconds = (self.times[-1] - self.times[STEPS_UNTIMED - 1]) / STEPS_TIMED
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
            print(json.dumps({'seconds': seconds, 'peak_bytes': peak}), flush=True)
            sys.stdin.readline()
            self.times.clear()

    hooks_of_training = train_run._hooks
    train_run._hooks = lambda *given: [*hooks_of_training(*given), TurnHook()]
    with tempfile.TemporaryDirectory() as logdir:
        sys.exit(cli.main(['train', *flags, f'--train_logdir={logdir}']))


def start(checkout: pathlib.Path, flags: list[str]) -> subprocess.Popen:
    """Returns a process that trains with the package in `checkout`, after its first turn, which warms up."""
    process = subprocess.Popen(
        [sys.executable, __file__, '--worker', '--', *flags], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        env=dict(os.environ, PYTHONPATH=str(checkout)),
    )  # fmt: skip
    process.stdout.readline()
    return process


def take_turn(process: subprocess.Popen) -> dict:
    process.stdin.write('\n')
    process.stdin.flush()
    return json.loads(process.stdout.readline())


def revision(checkout: pathlib.Path) -> str:
    return subprocess.check_output(['git', 'rev-parse', '--short', 'HEAD'], cwd=checkout, text=True).strip()


def measure(checkouts: dict[str, pathlib.Path], flags: dict[str, list[str]], rounds: int) -> dict:
    """Lets both versions take turns; returns the ratios and what was measured."""
    processes = {name: start(path, flags[name]) for name, path in checkouts.items()}
    turns: dict[str, list[dict]] = {name: [] for name in processes}
    for _ in range(rounds):
        for name, process in processes.items():
            turns[name].append(take_turn(process))
    for process in processes.values():
        process.kill()
        process.wait()
    seconds = {name: statistics.median(turn['seconds'] for turn in found) for name, found in turns.items()}
    peaks = {name: found[-1]['peak_bytes'] for name, found in turns.items()}
    return {
        'ratio_of_seconds': round(seconds['after'] / seconds['before'], 4),
        'ratio_of_peak_memory': round(peaks['after'] / peaks['before'], 4),
        'revisions': {name: revision(path) for name, path in checkouts.items()},
        'turns': turns,
    }


def flags_of_row(name: str, records: pathlib.Path) -> list[str]:
    """Returns the flags of a training row of `python -m benchmarks`, without the folder of its logs."""
    sys.path.insert(0, str(ROOT))
    from benchmarks import rows

    (row,) = rows.chosen(name)
    words = str(row.flags).format(records=records, crop=row.crop, fresh='')
    return [word for word in words.split() if not word.startswith('--train_logdir')]


def main() -> None:
    import step_against_matmul

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--records', type=pathlib.Path, required=True)
    parser.add_argument('--before', type=pathlib.Path, default=ROOT)
    parser.add_argument('--after', type=pathlib.Path, default=ROOT)
    parser.add_argument('--rounds', type=int, default=10)
    parser.add_argument('--recipe')
    parser.add_argument('--precision')
    parser.add_argument('--rows', default='train_mobilenet_v2,train_camvid,train_xception_65,train_resnet_v1_50')
    arguments = parser.parse_args()
    checkouts = {'before': arguments.before.resolve(), 'after': arguments.after.resolve()}
    if arguments.precision:
        name = f'step_{arguments.precision}'
        stored = _machine.RESULTS / f'{name}.json'
        rows = json.loads(stored.read_text())['rows'] if stored.exists() else {}
        for row in arguments.rows.split(','):
            plain = flags_of_row(row, arguments.records)
            of_both = {'before': plain, 'after': [*plain, f'--precision={arguments.precision}']}
            rows[row] = measure(checkouts, of_both, arguments.rounds)
            path = _machine.write(name, {'wanted_ratio': WANTED_OF_PRECISION, 'rows': rows})
        shown = ', '.join(f'{row} {found["ratio_of_seconds"]}' for row, found in rows.items())
        print(f'a step in {arguments.precision} takes {shown} times the time, wanted {WANTED_OF_PRECISION}: {path}')
        sys.exit(any(found['ratio_of_seconds'] > WANTED_OF_PRECISION for found in rows.values()))
    words = step_against_matmul.command_line(arguments.records, '', arguments.rounds * 2)
    plain = [word for word in words if not word.startswith('--train_logdir')]
    flags = {'before': plain, 'after': plain}
    if arguments.recipe:
        kept = [flag for flag in plain if not flag.startswith(OF_OPTIMIZER)]
        flags['after'] = [*kept, f'--recipe={arguments.recipe}']
    result = {'wanted_ratio': WANTED, 'recipe_of_after': arguments.recipe}
    result |= measure(checkouts, flags, arguments.rounds)
    path = _machine.write('step_of_recipe' if arguments.recipe else 'step_before_after', result)
    after, before = (f'with --recipe={arguments.recipe}', 'without') if arguments.recipe else ('after', 'before')
    print(
        f'a step {after} takes {result["ratio_of_seconds"]} times the time of one {before}, and '
        f'{result["ratio_of_peak_memory"]} times its memory, wanted {WANTED}: {path}'
    )


if __name__ == '__main__':
    if sys.argv[1:2] == ['--worker']:
        work(sys.argv[3:])
    main()
