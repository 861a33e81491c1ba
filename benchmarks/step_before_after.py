"""Time and memory of a plain training step in two versions of this project, in turn, on one machine.

    python benchmarks/step_before_after.py --records=TFRECORDS --before=CHECKOUT [--after=CHECKOUT] [--rounds=10]
    python benchmarks/step_before_after.py --records=TFRECORDS --recipe=small_data

Both versions train with row C's command line, each in its own process, and take turns: one waits while the other runs.
In each turn the first steps, whose input was prepared while waiting, are not timed. The bound is on the ratios of the
medians of time and of the peaks of resident memory, at most 1.03. Run it on an idle machine. Prints one line, writes
benchmarks/results/step_before_after.json.

With --recipe both are this version, and the second one trains with the recipe in place of the optimizer of row C:
benchmarks/results/step_of_recipe.json.
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

WANTED = 1.03
OF_OPTIMIZER = '--optimizer=', '--adam_learning_rate=', '--batch_norm_decay='
STEPS_UNTIMED = 6  # more batches than queue and prefetch hold
STEPS_TIMED = 6
ROOT = pathlib.Path(__file__).resolve().parents[1]


def work(records: pathlib.Path, rounds: int, recipe: str | None) -> None:
    """Trains; runs the steps of a turn for each line on standard input, and prints the result as a line of JSON."""
    import step_against_matmul

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
    step_against_matmul.STEPS_UNTIMED, step_against_matmul.STEPS_TIMED = STEPS_UNTIMED, STEPS_TIMED
    with tempfile.TemporaryDirectory() as logdir:
        flags = step_against_matmul.command_line(records, logdir, rounds)
        if recipe:
            flags = [flag for flag in flags if not flag.startswith(OF_OPTIMIZER)] + [f'--recipe={recipe}']
        sys.exit(cli.main(['train', *flags]))


def start(checkout: pathlib.Path, records: pathlib.Path, rounds: int, recipe: str | None) -> subprocess.Popen:
    """Returns a process that trains with the package in `checkout`, after its first turn, which warms up."""
    command = [sys.executable, __file__, '--worker', f'--records={records}', f'--rounds={rounds}']
    command += [f'--recipe={recipe}'] if recipe else []
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--records', type=pathlib.Path, required=True)
    parser.add_argument('--before', type=pathlib.Path, default=ROOT)
    parser.add_argument('--after', type=pathlib.Path, default=ROOT)
    parser.add_argument('--rounds', type=int, default=10)
    parser.add_argument('--recipe')
    parser.add_argument('--worker', action='store_true')
    arguments = parser.parse_args()
    if arguments.worker:
        work(arguments.records, arguments.rounds, arguments.recipe)
    checkouts = {'before': arguments.before.resolve(), 'after': arguments.after.resolve()}
    recipes = {'before': None, 'after': arguments.recipe}
    processes = {
        name: start(path, arguments.records, arguments.rounds, recipes[name]) for name, path in checkouts.items()
    }
    turns: dict[str, list[dict]] = {name: [] for name in processes}
    for _ in range(arguments.rounds):
        for name, process in processes.items():
            turns[name].append(take_turn(process))
    for process in processes.values():
        process.kill()
    seconds = {name: statistics.median(turn['seconds'] for turn in found) for name, found in turns.items()}
    peaks = {name: found[-1]['peak_bytes'] for name, found in turns.items()}
    result = {
        'ratio_of_seconds': round(seconds['after'] / seconds['before'], 4),
        'ratio_of_peak_memory': round(peaks['after'] / peaks['before'], 4),
        'wanted_ratio': WANTED,
        'revisions': {name: revision(path) for name, path in checkouts.items()},
        'recipe_of_after': arguments.recipe,
        'turns': turns,
    }
    path = _machine.write('step_of_recipe' if arguments.recipe else 'step_before_after', result)
    after, before = (f'with --recipe={arguments.recipe}', 'without') if arguments.recipe else ('after', 'before')
    print(
        f'a step {after} takes {result["ratio_of_seconds"]} times the time of one {before}, and '
        f'{result["ratio_of_peak_memory"]} times its memory, wanted {WANTED}: {path}'
    )


if __name__ == '__main__':
    main()
