"""A frozen graph of the original's operations: atrous convolutions as SpaceToBatchND, batch norms not folded.

    python -m benchmarks.original_operations --path=GRAPH.pb --checkpoint_path=CHECKPOINT [flags of export_model]

It stands in for an export of the original where there is no checkout of it. TensorFlow 1.15 reads the graph.
"""

import argparse
import collections
import pathlib


def write(options, path: pathlib.Path) -> collections.Counter:
    """Writes the graph of `options` (ExportOptions), and returns how often each type of operation occurs."""
    import tf_slim as slim
    from tensorflow.python.framework import convert_to_constants

    from deeplab import export_model
    from deeplab.core import checkpoints, sessions, tf_compat
    from deeplab.export import export_graph
    from deeplab.export.tensor_names import IMAGE, PREDICTIONS

    graph = export_graph.with_variables(options)
    with sessions.open_session(graph) as session:
        with graph.as_default():
            variables = slim.get_model_variables()
        checkpoints.restore_all(session, export_model.find_checkpoint(options.checkpoint_path), variables)
        frozen = convert_to_constants.convert_variables_to_constants_from_session_graph(
            session, graph.as_graph_def(), [PREDICTIONS]
        )
    frozen = tf_compat.folded_graph(frozen, [IMAGE, PREDICTIONS])
    path.write_bytes(frozen.SerializeToString())
    return collections.Counter(node.op for node in frozen.node)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--path', type=pathlib.Path, required=True)
    arguments, flags = parser.parse_known_args()
    from deeplab.cli.parse import options_of

    arguments.path.parent.mkdir(parents=True, exist_ok=True)
    counts = write(options_of('export_model', ['--export_path=none', *flags]), arguments.path)
    print(', '.join(f'{kind} {count}' for kind, count in sorted(counts.items())))


if __name__ == '__main__':
    main()
