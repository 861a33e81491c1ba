"""Time of a training step, input included, against a 4096-cubed float32 matmul (docs/acceptance.md, row C).

    python benchmarks/step_against_matmul.py --records=TFRECORDS [--rounds=10] [--name=step_against_matmul]

Runs in one process and in turn training steps of row C's command line, input included, and products of two 4096x4096
float32 matrices. In each turn the first steps, whose input was prepared during the product, are not timed. The bound is
the median step over the median product, at most 1.0 (the original: 1.9). Run it on an idle machine. Prints one line,
writes benchmarks/results/NAME.json.
"""

import argparse
import pathlib
import statistics
import tempfile
import time

import _machine
import tensorflow as tf

from deeplab import cli
from deeplab.training import train_loop, train_run

STEPS_UNTIMED = 6  # more batches than queue and prefetch hold
STEPS_TIMED = 4
SECONDS_OF_REST = 1.0  # the input fills its queues meanwhile


def command_line(records: pathlib.Path, logdir: str, rounds: int) -> list[str]:
    steps = (rounds + 1) * (STEPS_UNTIMED + STEPS_TIMED)
    return [
        '--dataset=camvid', '--train_split=train', '--model_variant=mobilenet_v2', '--depth_multiplier=0.5',
        '--output_stride=16', '--train_crop_size=241,321', '--train_batch_size=8',
        f'--training_number_of_steps={steps}', '--optimizer=adam', '--adam_learning_rate=0.001',
        '--batch_norm_decay=0.99', f'--dataset_dir={records}', f'--train_logdir={logdir}',
    ]  # fmt: skip


class Product:
    """A product of two 4096x4096 float32 matrices in a session of its own."""

    def __init__(self) -> None:
        graph = tf.Graph()
        with graph.as_default():
            factors = [tf.random.stateless_uniform([4096, 4096], [0, i]) for i in range(2)]
            variables = [tf.compat.v1.get_variable(f'v{i}', initializer=f) for i, f in enumerate(factors)]
            self._product = tf.linalg.matmul(*variables).op
            start = tf.compat.v1.global_variables_initializer()
        self._session = tf.compat.v1.Session(graph=graph)
        self._session.run(start)

    def seconds(self) -> float:
        started = time.perf_counter()
        self._session.run(self._product)
        return time.perf_counter() - started


class TurnsHook(train_loop.Hook):
    """After every few steps, rests and runs one product; keeps the times of both."""

    def __init__(self) -> None:
        self.steps: list[float] = []
        self.products: list[float] = []
        self._product = Product()
        self._times: list[float] = []

    def after_step(self, result: train_loop.StepResult, fetched: dict) -> None:
        self._times.append(time.perf_counter())
        if len(self._times) < STEPS_UNTIMED + STEPS_TIMED:
            return
        # From the end of one step to the end of a later one: all that happens in between counts.
        self.steps.append((self._times[-1] - self._times[STEPS_UNTIMED - 1]) / STEPS_TIMED)
        time.sleep(SECONDS_OF_REST)
        self.products.append(self._product.seconds())
        self._times.clear()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--records', type=pathlib.Path, required=True)
    parser.add_argument('--rounds', type=int, default=10)
    parser.add_argument('--name', default='step_against_matmul')
    arguments = parser.parse_args()
    turns = TurnsHook()
    hooks_of_training = train_run._hooks
    train_run._hooks = lambda *given: [*hooks_of_training(*given), turns]
    with tempfile.TemporaryDirectory() as logdir:
        status = cli.main(['train', *command_line(arguments.records, logdir, arguments.rounds)])
    if status:
        raise SystemExit(status)
    steps, products = turns.steps[1:], turns.products[1:]  # the first turn warms up
    ratio = statistics.median(steps) / statistics.median(products)
    result = {
        'ratio': round(ratio, 3),
        'wanted_ratio': 1.0,
        'ratio_of_the_original': 1.9,
        'seconds_per_step': [round(value, 4) for value in steps],
        'seconds_per_product': [round(value, 4) for value in products],
    }
    path = _machine.write(arguments.name, result)
    print(f'a step takes {ratio:.3f} times a 4096-cubed matmul, wanted 1.0: {path}')


if __name__ == '__main__':
    main()
