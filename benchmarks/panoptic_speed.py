"""Time and memory of the targets of Panoptic-DeepLab and of the merge of its outputs, on drawn instances.

    python benchmarks/panoptic_speed.py [--rounds=7] [--name=panoptic_speed]

Ellipses that cover 40 % of the image are the instances; the merge takes their targets with noise as the outputs of a
network of 19 classes, with probabilities. The best round is used; memory is the peak above the inputs, in a round of
its own. Prints one line, writes benchmarks/results/NAME.json.
"""

import argparse
import time
import tracemalloc
from collections.abc import Callable

import _machine
import numpy as np

from deeplab.core import panoptic_merge, panoptic_targets

THINGS = tuple(range(11, 19))
CASES = ((513, 513, 30), (1025, 2049, 100), (1025, 2049, 400))  # height, width, instances
NOISE = 3.0  # standard deviation of the offsets, in pixels


def draw(height: int, width: int, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Class ids and instance ids of ellipses on a ground of two classes, until 40 % is covered."""
    rng = np.random.default_rng(0)
    rows, columns = np.ogrid[:height, :width]
    scale = 1.0
    while True:
        class_ids, instance_ids = np.zeros((height, width), np.uint8), np.zeros((height, width), np.uint16)
        class_ids[height // 2 :] = 1
        for number, (y, x, *radii) in enumerate(rng.random((count, 4)), start=1):
            sides = scale * np.sqrt(0.4 * height * width / count / np.pi) * (0.5 + np.array(radii))
            inside = ((rows - y * height) / sides[0]) ** 2 + ((columns - x * width) / sides[1]) ** 2 < 1
            class_ids[inside], instance_ids[inside] = THINGS[number % len(THINGS)], number
        if (instance_ids > 0).mean() >= 0.4:
            return class_ids, instance_ids
        scale *= 1.05


def measure(call: Callable[[], object], rounds: int) -> dict[str, float]:
    seconds = []
    for _ in range(rounds):
        started = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - started)
    tracemalloc.start()
    call()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return {'milliseconds': round(1e3 * min(seconds), 1), 'megabytes': round(peak / 1e6, 1)}


def run(height: int, width: int, count: int, rounds: int) -> dict[str, object]:
    rng = np.random.default_rng(1)
    class_ids, instance_ids = draw(height, width, count)
    target_rule = panoptic_targets.TargetRule(THINGS, 255)
    targets = panoptic_targets.compute_targets(class_ids, instance_ids, target_rule)
    offsets = targets.offsets + rng.normal(0, NOISE, targets.offsets.shape).astype(np.float32)
    probabilities = rng.random((height, width, 19), np.float32)
    rule = panoptic_merge.MergeRule(THINGS, 255, top_k=400)
    outputs = (class_ids, targets.heatmap[..., 0], offsets, rule, probabilities)
    return {
        'image': [height, width],
        'instances': len(panoptic_merge.merge(*outputs).instances),
        'pixels_of_things': round(float((instance_ids > 0).mean()), 3),
        'targets': measure(lambda: panoptic_targets.compute_targets(class_ids, instance_ids, target_rule), rounds),
        'merge': measure(lambda: panoptic_merge.merge(*outputs), rounds),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--rounds', type=int, default=7)
    parser.add_argument('--name', default='panoptic_speed')
    arguments = parser.parse_args()
    load = _machine.load()
    cases = [run(*case, arguments.rounds) for case in CASES]
    path = _machine.write(arguments.name, {'cases': cases, 'load_before': load})
    texts = (
        f'{case["instances"]} instances: {case["targets"]["milliseconds"]}, {case["merge"]["milliseconds"]} ms'
        for case in cases
    )
    print(f'targets and merge of {"; ".join(texts)}; {path}')


if __name__ == '__main__':
    main()
