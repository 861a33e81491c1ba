"""Time of eval with all figures against that of its network alone (docs/acceptance.md, evaluation, row G).

    python -m benchmarks.eval_against_network --records=TFRECORDS --checkpoint=CHECKPOINT [--rounds=7]
        [further flags of deeplab eval]

Both take turns in one process. eval reads and decodes the images, predicts them and computes all figures
(`--metrics=all`), bootstrap included. The network alone predicts the same images, which wait in memory, with the same
outputs. Loading the checkpoint is counted in neither. Run it on an idle machine. Prints one line, writes
benchmarks/results/eval_against_network.json.
"""

import argparse
import dataclasses
import json
import tempfile
import time

import numpy as np

from benchmarks import _machine, figures, rows

WANTED = 1.25


def measure(line: list[str], rounds: int) -> dict[str, list[float]]:
    """Times eval and its network in turns; the first turn warms up and is not returned.

    Args:
      line: flags of eval.
      rounds: number of turns.
    """
    from deeplab.cli import early

    early.use_one_dnn()  # as the program does
    from deeplab import eval as eval_program
    from deeplab import export_model
    from deeplab.cli.parse import options_of
    from deeplab.evaluation import evaluation_rounds, runner
    from deeplab.inference import opening
    from deeplab.options import EngineOptions

    options = options_of('eval', line)
    split = eval_program._open_split(options)
    options = dataclasses.replace(options, model=dataclasses.replace(options.model, crop_size=split.crop_size))
    task = eval_program._task(options, split)
    batches = _batches(runner.reading_of(split, task.network, task.resize, ()))
    checkpoint = export_model.find_checkpoint(options.checkpoint_dir)
    weights = opening.Weights(checkpoint, bool(options.use_moving_average))
    found: dict[str, list[float]] = {'eval': [], 'network': []}
    run_batches = runner.run_batches
    begun = 0.0

    def noted(*arguments: object) -> None:
        nonlocal begun
        begun = time.perf_counter()
        run_batches(*arguments)

    runner.run_batches = noted
    try:
        with opening.opened(task.network, weights, EngineOptions()) as predict:
            for _ in range(1 + rounds):
                evaluation_rounds.evaluate(checkpoint, task)
                found['eval'].append(time.perf_counter() - begun)
                started = time.perf_counter()
                for images in batches:
                    predict(images)
                found['network'].append(time.perf_counter() - started)
    finally:
        runner.run_batches = run_batches
    return {name: seconds[1:] for name, seconds in found.items()}


def _batches(reading: object) -> list[np.ndarray]:
    """Returns all batches of images as the network takes them."""
    from deeplab.evaluation import engine_run, runner
    from deeplab.options import EngineOptions
    from deeplab.registry import Outputs

    found: list[np.ndarray] = []

    def keep(images: np.ndarray) -> Outputs:
        found.append(images)
        return Outputs(np.zeros(images.shape[:3], np.int32))

    network = engine_run.EngineNetwork(engine_run.EngineReport(EngineOptions()), keep)
    runner.run_batches(network, reading, lambda batch: None, 'reading')
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--records', required=True)
    parser.add_argument('--checkpoint', required=True)
    parser.add_argument('--rounds', type=int, default=7)
    arguments, flags = parser.parse_known_args()
    with tempfile.TemporaryDirectory() as folder:
        line = [
            *rows.CAMVID_NETWORK.split(), '--dataset=camvid', '--eval_crop_size=361,481', '--metrics=all',
            f'--dataset_dir={arguments.records}', f'--checkpoint_dir={arguments.checkpoint}', f'--eval_logdir={folder}',
        ]  # fmt: skip
        seconds = measure([*line, *flags], arguments.rounds)
    ratio = figures.paired(seconds['eval'], seconds['network'])
    result = {'ratio': ratio._asdict(), 'wanted_ratio': WANTED, 'seconds': seconds}
    path = _machine.write('eval_against_network', json.loads(json.dumps(result)))
    print(f'eval with all figures takes {ratio} times its network alone, wanted at most {WANTED}: {path}')


if __name__ == '__main__':
    main()
