"""Time of one image in an inference engine.

    python -m benchmarks.time_engine --engine=openvino [--precision=bfloat16] [--runs=20] [--warm_up=5] [--cache=DIR]
        --checkpoint_path=CHECKPOINT [network flags of deeplab export_model]

Prints a line of JSON: the median, and every single time.
"""

import argparse
import json
import statistics
import time

import numpy as np


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--engine', required=True)
    parser.add_argument('--precision', default='float32')
    parser.add_argument('--runs', type=int, default=20)
    parser.add_argument('--warm_up', type=int, default=5)
    parser.add_argument('--cache', help='folder for the converted network')
    arguments, flags = parser.parse_known_args()
    from deeplab import export_model
    from deeplab.cli.parse import options_of
    from deeplab.inference import opening
    from deeplab.inference.network import InferenceNetwork
    from deeplab.options import EngineOptions

    options = options_of('export_model', ['--export_path=none', *flags])
    network = InferenceNetwork(options.model, options.prediction, 1)
    weights = opening.Weights(export_model.find_checkpoint(options.checkpoint_path))
    engine = EngineOptions(arguments.engine, arguments.precision)
    shape = [1, *options.model.crop_size, options.model.input_channels]
    image = np.random.default_rng(0).uniform(0, 255, shape).astype(np.float32)
    seconds = []
    with opening.opened(network, weights, engine, [arguments.cache] if arguments.cache else []) as predict:
        for _ in range(arguments.warm_up + arguments.runs):
            started = time.perf_counter()
            predict(image)
            seconds.append(time.perf_counter() - started)
    seconds = seconds[arguments.warm_up :]
    print(json.dumps({'seconds': statistics.median(seconds), 'all': seconds}))


if __name__ == '__main__':
    main()
