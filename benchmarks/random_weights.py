"""A checkpoint with random weights of a network, for measurements that need no trained one.

python -m benchmarks.random_weights --path=DIR/model.ckpt-0 --crop_size=513,513 [network flags of deeplab export_model]
"""

import argparse
import pathlib


def write(options, path: str) -> str:
    """Writes a checkpoint of the network of `options` (ModelOptions) and returns its path."""
    from deeplab.inference.network import InferenceNetwork
    from deeplab.options import PredictionOptions
    from deeplab.programs.benchmark import inference

    inference.write_random_weights(InferenceNetwork(options, PredictionOptions(), 1), path)
    state = pathlib.Path(path).with_name('checkpoint')  # with which the original finds it
    state.write_text(f'model_checkpoint_path: "{pathlib.Path(path).name}"\n')
    return path


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--path', type=pathlib.Path, required=True)
    arguments, flags = parser.parse_known_args()
    from deeplab.cli.parse import options_of

    options = options_of('export_model', ['--checkpoint_path=none', '--export_path=none', *flags])
    write(options.model, str(arguments.path))


if __name__ == '__main__':
    main()
