"""Compatibility with versions and builds of TensorFlow and tf-slim.

Nothing here runs at import; each function asks the installed TensorFlow when it is called.
"""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf


def has_one_dnn() -> bool:
    """Returns whether TensorFlow's CPU kernels come from oneDNN (TF_ENABLE_ONEDNN_OPTS, the processor, the build)."""
    try:
        from tensorflow.python.util import _pywrap_util_port
    except ImportError:
        return False
    return bool(getattr(_pywrap_util_port, 'IsMklEnabled', lambda: False)())


def has_native_dilated_depthwise() -> bool:
    """Returns whether the depthwise kernel that will run takes dilations.

    oneDNN's forward kernel does; the plain CPU kernel stops with "Unimplemented", and GPU kernels differ, so with a
    visible GPU the answer is no.
    """
    return has_one_dnn() and not tf.config.list_physical_devices('GPU')


def folded_graph(graph_def: tf.compat.v1.GraphDef, kept: Sequence[str]) -> tf.compat.v1.GraphDef:
    """Returns `graph_def` with constants folded, without operations that nothing in `kept` needs.

    Attributes that have their default value are left out too, so that older versions of TensorFlow read it.

    Args:
      graph_def: without variables; may have placeholders for weights.
      kept: names of operations that stay as they are; inputs and outputs.
    """
    from tensorflow.core.protobuf import config_pb2, meta_graph_pb2, rewriter_config_pb2
    from tensorflow.python.grappler import tf_optimizer

    meta_graph = meta_graph_pb2.MetaGraphDef(graph_def=graph_def)
    meta_graph.collection_def['train_op'].node_list.value.extend(kept)
    configuration = config_pb2.ConfigProto()
    rewrite = configuration.graph_options.rewrite_options
    # Only what gives a graph for any machine: no fused or reordered operations.
    rewrite.meta_optimizer_iterations = rewriter_config_pb2.RewriterConfig.ONE
    rewrite.optimizers.extend(['pruning', 'constfold', 'dependency', 'pruning'])
    return tf_optimizer.OptimizeGraph(configuration, meta_graph, verbose=False, strip_default_attributes=True)
