"""A checkpoint with random weights of a network, for measurements that need no trained one.

python -m benchmarks.random_weights --path=model.ckpt --crop_size=513,513 [network flags of deeplab export_model]
"""

import argparse
import pathlib


def write(options, path: str) -> str:
    """Writes a checkpoint of the network of `options` (ModelOptions) and returns its path."""
    import tensorflow as tf

    from deeplab.benchmarking import inference
    from deeplab.export import export_graph
    from deeplab.options import ExportOptions

    graph = export_graph.with_variables(ExportOptions(options, '', ''))
    with graph.as_default():  # a trained checkpoint has it, and the original's export reads it
        tf.Variable(0, name='global_step', dtype=tf.int64, trainable=False)
    inference.write_random_weights(graph, path)
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
