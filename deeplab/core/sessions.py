"""Creation and configuration of TensorFlow sessions."""

from __future__ import annotations

import contextlib
import re
import threading
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import tensorflow as tf
from tensorflow.core.protobuf import config_pb2, rewriter_config_pb2

from deeplab.files import writing

# Errors of a step whose batch is missing because the input has ended.
INPUT_ENDED = (tf.errors.OutOfRangeError, tf.errors.CancelledError)
# Name of the operation that takes the next batch of a pipeline; its errors name it as "[[{{node next_batch}}]]" or
# "[[next_batch_1]]", but "[[next_batch/_3]]" passes on an error of another operation.
NEXT_BATCH = 'next_batch'
_NEXT_BATCH_FAILED = re.compile(rf'\[\[({{{{node )?{NEXT_BATCH}(_\d+)?(}}}})?\]\]')
_CLOSE_SECS = 30.0  # how long a session may take to close after an error


def is_of_input(error: BaseException) -> bool:
    """Returns whether a step failed because its batch is missing; such a step has updated no variable."""
    if isinstance(error, INPUT_ENDED):
        return True
    return isinstance(error, tf.errors.OpError) and _NEXT_BATCH_FAILED.search(error.message) is not None


class Server(NamedTuple):
    """What runs a session.

    Attributes:
      address: address of a TensorFlow server, empty for this process.
      device_filters: jobs and tasks of the server's cluster to which a session keeps; empty for all.
      collective_leader: see `config`.
    """

    address: str = ''
    device_filters: Sequence[str] = ()
    collective_leader: str | None = None


THIS_PROCESS = Server()


def config(
    cpu_devices: int = 1, keeps_sums: bool = False, collective_leader: str | None = None
) -> tf.compat.v1.ConfigProto:
    """Returns the configuration of every session.

    Args:
      cpu_devices: number of CPU devices, 1 or more; several let clones run on one CPU.
      keeps_sums: whether the graph optimizer must keep the pairwise sums of `summation`, for repeatable results.
        TensorFlow would merge them into AddN, and do other things from which a training step gains nothing.
      collective_leader: the task that knows the participants of sums over workers (`collectives`); None without them.
    """
    proto = tf.compat.v1.ConfigProto(allow_soft_placement=True, device_count={'CPU': cpu_devices})
    proto.gpu_options.allow_growth = True
    # TensorFlow does not know which tensors of a queue or pipeline go to a GPU. Without this, they are not in pinned
    # memory, which takes one more copy.
    proto.gpu_options.force_gpu_compatible = True
    if keeps_sums:
        proto.graph_options.rewrite_options.arithmetic_optimization = rewriter_config_pb2.RewriterConfig.OFF
        # Sums over GPUs must begin in the same order on each of them.
        proto.experimental.collective_deterministic_sequential_execution = True
    if collective_leader is not None:
        proto.experimental.collective_group_leader = collective_leader
    return proto


def _omit_idle_optimizers(proto: tf.compat.v1.ConfigProto) -> None:
    """Switches off graph optimizers that delay the first step and improve no training step on a CPU.

    The layout optimizer converts to the layouts of GPUs, the memory optimizer swaps tensors out of a GPU's memory and
    splits AddN, which `keeps_sums` avoids. TensorFlow runs all optimizers twice; in the graph of a training step, the
    second time finds nothing.
    """
    rewrite = proto.graph_options.rewrite_options
    rewrite.layout_optimizer = rewriter_config_pb2.RewriterConfig.OFF
    rewrite.memory_optimization = rewriter_config_pb2.RewriterConfig.NO_MEM_OPT
    rewrite.meta_optimizer_iterations = rewriter_config_pb2.RewriterConfig.ONE


@contextlib.contextmanager
def open_session(
    graph: tf.Graph | None = None,
    cpu_devices: int = 1,
    server: Server = THIS_PROCESS,
    places_what_it_runs: bool = False,
    keeps_sums: bool = False,
    runs_once: bool = False,
) -> Iterator[tf.compat.v1.Session]:
    """Opens a session on `graph` (the current one if None) that closes with the `with` block.

    Args:
      graph: the graph to run.
      cpu_devices: see `config`.
      server: what runs it.
      places_what_it_runs: whether operations that never run here may be on devices that are not here.
      keeps_sums: see `config`.
      runs_once: whether to omit all changes of the graph for speed: they take longer than one run, and TensorFlow
        copies the weights several times for them.
    """
    graph = graph or tf.compat.v1.get_default_graph()
    proto = config(cpu_devices, keeps_sums, server.collective_leader)
    if keeps_sums and (not server.address or server.collective_leader) and not tf.config.list_physical_devices('GPU'):
        _omit_idle_optimizers(proto)
    if runs_once:
        proto.graph_options.rewrite_options.disable_meta_optimizer = True
        proto.graph_options.optimizer_options.opt_level = config_pb2.OptimizerOptions.L0
    proto.device_filters.extend(server.device_filters)
    proto.graph_options.place_pruned_graph = places_what_it_runs
    session = tf.compat.v1.Session(server.address, graph=graph, config=proto)
    try:
        with graph.as_default(), session.as_default():
            yield session
    except BaseException:
        _close_after_error(session)
        raise
    session.close()


def connect(graph: tf.Graph, server: Server, timeout_secs: float) -> tf.compat.v1.Session:
    """Returns a session of a server that may stop to answer; the caller closes it.

    Args:
      graph: the graph to run.
      server: the server.
      timeout_secs: time after which its calls fail; `run` has a limit of its own, in the options of a run.
    """
    proto = config()
    proto.device_filters.extend(server.device_filters)
    proto.operation_timeout_in_ms = round(1000 * timeout_secs)
    return tf.compat.v1.Session(server.address, graph=graph, config=proto)


def _close_after_error(session: tf.compat.v1.Session) -> None:
    """Closes a session without a further error: if its server has stopped, closing fails, or takes forever."""

    def close() -> None:
        with contextlib.suppress(tf.errors.OpError):
            session.close()

    thread = threading.Thread(target=close, name='deeplab-close', daemon=True)
    thread.start()
    thread.join(_CLOSE_SECS)


def write_graph(graph: tf.Graph, path: str) -> None:
    """Writes a graph as text, for people and for other tools."""
    # tf.io.write_graph has temporary files of its own, which stay if the disk is full.
    text = str(graph.as_graph_def())  # as text_format.MessageToString, in a seventh of the time
    writing.write(path, text)
