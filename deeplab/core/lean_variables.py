"""Variables of a graph with the operations that a training needs, and no others."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import tensorflow as tf
from tensorflow.python.ops import resource_variable_ops

# Arguments of a variable creator that nothing in this package uses.
_UNUSED = ('caching_device', 'constraint', 'variable_def', 'import_scope')


def scope() -> AbstractContextManager[None]:
    """Creates variables with fewer operations, in less time, with the same names, devices and values.

    TensorFlow's variables have an operation that tells whether they are initialized, which nothing here runs. Their
    creation also searches the initial value for other variables, on which no variable of this package depends.
    """
    creator_scope: AbstractContextManager[None] = tf.compat.v1.variable_creator_scope(_create)
    return creator_scope


def _create(next_creator: Callable[..., tf.Variable], **arguments: Any) -> tf.Variable:
    """Creates a variable; see `tf.compat.v1.variable_creator_scope`."""
    first_value, shape = arguments.get('initial_value'), tf.TensorShape(arguments.get('shape'))
    graph = tf.compat.v1.get_default_graph()
    is_plain = shape.is_fully_defined() and not graph.building_function
    if not callable(first_value) or not is_plain or any(arguments.get(name) is not None for name in _UNUSED):
        return next_creator(**arguments)
    with tf.name_scope(arguments['name']) as name_scope:
        name = name_scope.rstrip('/')
        handle = tf.raw_ops.VarHandleOp(dtype=arguments['dtype'], shape=shape, shared_name=name, name=name_scope)
        with graph.colocate_with(handle.op):
            with tf.name_scope('Initializer'):
                value = tf.convert_to_tensor(first_value(), dtype=arguments['dtype'])
            assign = tf.raw_ops.AssignVariableOp(resource=handle, value=value, name='Assign')
            with tf.name_scope('Read'):
                read = tf.raw_ops.ReadVariableOp(resource=handle, dtype=arguments['dtype'])
    trainable = bool(arguments.get('trainable'))
    variable = resource_variable_ops.BaseResourceVariable(
        trainable=trainable,
        shape=shape,
        dtype=value.dtype,
        handle=handle,
        synchronization=arguments.get('synchronization'),
        aggregation=arguments.get('aggregation'),
        name=name,
        unique_id=name,
        handle_name=name,
        graph_element=read,
        initial_value=value,
        initializer_op=assign,
        in_graph_mode=True,
    )
    collections = list(arguments.get('collections') or [tf.compat.v1.GraphKeys.GLOBAL_VARIABLES])
    if trainable and tf.compat.v1.GraphKeys.TRAINABLE_VARIABLES not in collections:
        collections.append(tf.compat.v1.GraphKeys.TRAINABLE_VARIABLES)
    tf.compat.v1.add_to_collections(collections, variable)
    return variable
