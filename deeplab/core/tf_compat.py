"""Compatibility with versions and builds of TensorFlow and tf-slim.

Nothing here runs at import; each function asks the installed TensorFlow when it is called.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import tensorflow as tf
import tf_slim as slim

_Function = TypeVar('_Function', bound=Callable[..., Any])


def add_arg_scope(function: _Function) -> _Function:
    """Decorates a function so that tf-slim's `arg_scope` can set its arguments; slim's own decorator has no types."""
    scoped: _Function = slim.add_arg_scope(function)
    return scoped


def has_one_dnn() -> bool:
    """Returns whether oneDNN's kernels run: it depends on TF_ENABLE_ONEDNN_OPTS, the processor and the build.

    Its depthwise kernel takes dilations, but both of its gradients ignore them; TensorFlow's own kernel stops with
    "Unimplemented". With a visible GPU, the answer is no.
    """
    try:
        from tensorflow.python.util import _pywrap_util_port
    except ImportError:
        return False
    is_enabled = getattr(_pywrap_util_port, 'IsMklEnabled', lambda: False)()
    return bool(is_enabled) and not tf.config.list_physical_devices('GPU')


def folded_graph(graph_def: tf.compat.v1.GraphDef, kept: Sequence[str]) -> tf.compat.v1.GraphDef:
    """Returns `graph_def` with constants folded, without operations that nothing in `kept` needs.

    Attributes with their default value are omitted, too, so that older versions of TensorFlow read the graph.

    Args:
      graph_def: graph without variables; may have placeholders for weights.
      kept: names of inputs, outputs and other operations that stay as they are.
    """
    from tensorflow.core.protobuf import config_pb2, meta_graph_pb2, rewriter_config_pb2
    from tensorflow.python.grappler import tf_optimizer

    meta_graph = meta_graph_pb2.MetaGraphDef(graph_def=graph_def)
    meta_graph.collection_def['train_op'].node_list.value.extend(kept)
    configuration = config_pb2.ConfigProto()
    rewrite = configuration.graph_options.rewrite_options
    # Only rewrites that suit every machine: no fused or reordered operations.
    rewrite.meta_optimizer_iterations = rewriter_config_pb2.RewriterConfig.ONE
    rewrite.optimizers.extend(['pruning', 'constfold', 'dependency', 'pruning'])
    return tf_optimizer.OptimizeGraph(configuration, meta_graph, verbose=False, strip_default_attributes=True)
