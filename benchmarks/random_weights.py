"""A checkpoint with random weights of a network, for measurements that need no trained one.

python -m benchmarks.random_weights --path=model.ckpt --crop_size=513,513 [network flags of deeplab export_model]
"""

import argparse
import pathlib

import numpy as np

_CENTERS = {'beta': 0.0, 'moving_mean': 0.0, 'biases': 0.0, 'gamma': 1.0, 'moving_variance': 1.0}


def write(options, path: str) -> str:
    """Writes a checkpoint of the network of `options` (ModelOptions) and returns its path.

    Batch norms and biases are random too, as those of a trained network are not 0 and 1: TensorFlow omits what adds 0.
    """
    import tensorflow as tf

    from deeplab.core import sessions
    from deeplab.export import export_graph
    from deeplab.options import ExportOptions

    export = export_graph.build(ExportOptions(options, '', ''))
    rng = np.random.default_rng(0)
    with export.graph.as_default(), sessions.open_session(export.graph) as session:
        # As a trained checkpoint has it; the network itself has none.
        step = tf.Variable(0, name='global_step', dtype=tf.int64, trainable=False)
        session.run(tf.compat.v1.variables_initializer([*export.variables, step]))
        for variable in export.variables:
            center = _CENTERS.get(variable.op.name.rpartition('/')[2])
            if center is not None:
                value = rng.normal(center, 0.1, variable.shape.as_list())
                variable.load(value.astype(np.float32), session)
        return tf.compat.v1.train.Saver([*export.variables, step]).save(session, path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--path', type=pathlib.Path, required=True)
    arguments, flags = parser.parse_known_args()
    from deeplab.cli.parse import options_of

    options = options_of('export_model', ['--checkpoint_path=none', '--export_path=none', *flags])
    arguments.path.parent.mkdir(parents=True, exist_ok=True)
    write(options.model, str(arguments.path))


if __name__ == '__main__':
    main()
