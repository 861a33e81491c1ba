"""Estimate of the memory that a graph needs, from its operations and static shapes."""

from __future__ import annotations

import collections
import math
from collections.abc import Iterable, Sequence
from typing import Any

import tensorflow as tf

# Their outputs are their first inputs under another name or shape.
_ALIASES = {
    'Bitcast', 'ExpandDims', 'Identity', 'PreventGradient', 'RefIdentity', 'Reshape', 'Snapshot', 'Squeeze',
    'StopGradient',
}  # fmt: skip
# They write into the buffer of an input of the same size that no other operation needs.
_IN_PLACE = {
    'Add', 'AddN', 'AddV2', 'BiasAdd', 'Div', 'Elu', 'Exp', 'Log', 'Maximum', 'Minimum', 'Mul', 'Neg', 'RealDiv',
    'Relu', 'Relu6', 'Relu6Grad', 'ReluGrad', 'Rsqrt', 'Sigmoid', 'Softmax', 'Sqrt', 'Square', 'Sub',
}  # fmt: skip
# Their outputs are values that a variable or the graph holds.
_HELD = {'Const', 'Placeholder', 'ReadVariableOp', 'VarHandleOp', 'Variable', 'VariableV2', 'VarIsInitializedOp'}


def bytes_of(tensor: tf.Tensor | tf.Variable) -> int:
    """Returns the size of a tensor or variable; 0 if its static shape is unknown."""
    shape = tensor.shape
    if not shape.is_fully_defined() or tensor.dtype.base_dtype in (tf.string, tf.resource, tf.variant):
        return 0
    sides: list[int] = shape.as_list()
    return math.prod(sides) * int(tensor.dtype.base_dtype.size)


def needed_for(fetches: Iterable[tf.Tensor | tf.Operation]) -> list[tf.Operation]:
    """Returns all operations that run to compute `fetches`, in order of creation."""
    waiting = [fetch.op if isinstance(fetch, tf.Tensor) else fetch for fetch in fetches]
    seen = set(waiting)
    while waiting:
        operation = waiting.pop()
        for other in (*(tensor.op for tensor in operation.inputs), *operation.control_inputs):
            if other not in seen:
                seen.add(other)
                waiting.append(other)
    graph = next(iter(seen)).graph if seen else None
    return [operation for operation in graph.get_operations() if operation in seen] if graph else []


def peak(fetches: Sequence[tf.Tensor | tf.Operation]) -> int:
    """Returns the peak size in bytes of all live tensors when `fetches` are computed, without variables and constants.

    Operations run one at a time in the order of their creation. In a training graph, gradients come after the whole
    network, so that the peak includes all activations that the gradients need. A tensor lives until the
    last operation that reads it has run.
    """
    operations = needed_for(fetches)
    kept = {fetch.ref() for fetch in fetches if isinstance(fetch, tf.Tensor)}
    buffers = _Buffers(operations)
    for operation in operations:
        buffers.run(operation, kept)
    return buffers.most


class _Buffers:
    """The live buffers while operations run; several tensors may share one."""

    def __init__(self, operations: Sequence[tf.Operation]) -> None:
        self.most = self._now = 0  # bytes of all live buffers: most at the same time, and now
        # Number of operations still to run, by the tensor that they read.
        self._readers = collections.Counter(read for operation in operations for read in _inputs(operation))
        self._buffer_of: dict[object, int] = {}
        self._sizes: list[int] = []
        self._users: list[int] = []  # number of tensors still to be read, by buffer

    def run(self, operation: tf.Operation, kept: set[object]) -> None:
        """Allocates the outputs of `operation`, then releases the inputs that no other operation will read."""
        for output in operation.outputs:
            self._make(operation, output)
        self.most = max(self.most, self._now)
        for reference in _inputs(operation):
            self._readers[reference] -= 1
            if not self._readers[reference] and reference not in kept:
                self._release(reference)
        for output in operation.outputs:
            if not self._readers[output.ref()] and output.ref() not in kept:
                self._release(output.ref())

    def _make(self, operation: tf.Operation, output: tf.Tensor) -> None:
        if operation.type in _HELD:
            return
        shared = self._shared(operation, output)
        if shared is None:
            size = bytes_of(output)
            shared = len(self._sizes)
            self._sizes.append(size)
            self._users.append(0)
            self._now += size
        self._users[shared] += 1
        self._buffer_of[output.ref()] = shared

    def _shared(self, operation: tf.Operation, output: tf.Tensor) -> int | None:
        """Returns the buffer of an input that `output` reuses; None if it gets one of its own."""
        if operation.type in _ALIASES:
            return self._buffer_of.get(operation.inputs[0].ref())
        if operation.type in _IN_PLACE:
            size = bytes_of(output)
            for tensor in operation.inputs:
                buffer = self._buffer_of.get(tensor.ref())
                is_last = self._readers[tensor.ref()] == 1
                if buffer is not None and is_last and self._users[buffer] == 1 and self._sizes[buffer] == size:
                    return buffer
        return None

    def _release(self, reference: object) -> None:
        buffer = self._buffer_of.pop(reference, None)
        if buffer is None:
            return
        self._users[buffer] -= 1
        if not self._users[buffer]:
            self._now -= self._sizes[buffer]


def _inputs(operation: tf.Operation) -> set[Any]:
    """Returns references to the tensors that an operation reads, each once."""
    return {tensor.ref() for tensor in operation.inputs}
