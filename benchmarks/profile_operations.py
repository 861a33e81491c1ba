"""Time of a training step or of an inference by type of operation, from TensorFlow's own trace.

    python benchmarks/profile_operations.py train --dataset_dir=TFRECORDS [flags of deeplab train]
    python benchmarks/profile_operations.py eval [--checkpoint_dir=CHECKPOINT] [--batch=1] [flags of deeplab eval]
    python benchmarks/profile_operations.py export [--checkpoint_path=CHECKPOINT] [flags of deeplab export_model]

`train` profiles the steps of a training, `eval` the network of eval and vis without input and metrics, `export` an
exported frozen graph. Without a checkpoint, eval and export have random weights; without --dataset_dir, training has
generated images of 360 x 480 pixels. Operations run side by side in several threads, so that their sum is larger than
the time of the step; an operation that waits for others is not in the sum. Prints a table; --json=FILE writes all
operations.
"""

import argparse
import collections
import dataclasses
import json
import os
import pathlib
import re
import statistics
import sys
import tempfile
import time

import numpy as np

if not __package__:  # run as a file
    sys.path[0] = str(pathlib.Path(__file__).resolve().parents[1])
    os.environ.setdefault('TF_ENABLE_ONEDNN_OPTS', '1')  # as the programs do

import tensorflow as tf

from benchmarks import _data, random_weights
from deeplab import cli, export_model
from deeplab.cli.parse import options_of
from deeplab.core import sessions
from deeplab.export import tensor_names
from deeplab.inference import network
from deeplab.training import train_loop, train_run

# The first pattern that is found in the type of an operation gives its kind.
KINDS = (
    ('waiting', r'Dequeue|Enqueue|Iterator|Recv|Send'),
    ('call', r'^(If|StatelessIf|While|StatelessWhile|PartitionedCall|StatefulPartitionedCall)$'),  # contains others
    ('depthwise convolution, gradient', r'Depthwise.*Backprop'),
    ('depthwise convolution', r'Depthwise'),
    ('convolution, gradient', r'Conv.*Backprop'),
    ('convolution', r'Conv2D|Conv3D'),
    ('batch norm, gradient', r'BatchNormGrad'),
    ('batch norm', r'BatchNorm'),
    ('matrix product', r'MatMul|Einsum'),
    ('resize', r'Resize'),
    ('cast', r'Cast'),
    ('update of variables', r'Apply|Assign|ReadVariable'),
    ('softmax and loss', r'Softmax|SparseSoftmax|TopK|CrossEntropy'),
    ('move or pad', r'Transpose|Pad|SpaceToBatch|BatchToSpace|Concat|Slice|Split|Pack|Gather|Tile|Reverse|Mirror'),
    ('reduction', r'Sum|Mean|Max$|Min$|ArgMax|L2Loss|Pool|Prod|All$|Any$'),
    ('element by element', r'.'),
)
OUTSIDE_THE_SUM = ('waiting', 'call')


@dataclasses.dataclass(frozen=True)
class Operation:
    """One operation of one traced run: its node, type, seconds, and the bytes of its largest output."""

    name: str
    type: str
    seconds: float
    output_bytes: int

    @property
    def kind(self) -> str:
        return next(kind for kind, pattern in KINDS if re.search(pattern, self.type))


@dataclasses.dataclass
class Trace:
    """Traced runs: the operations of all of them, and the seconds of each run with and without tracing."""

    operations: list[Operation] = dataclasses.field(default_factory=list)
    seconds: list[float] = dataclasses.field(default_factory=list)
    seconds_untraced: list[float] = dataclasses.field(default_factory=list)


class Tracer:
    """Runs a session's calls; after some that warm up and some that are timed, traces some."""

    def __init__(self, run, untraced: int, traced: int) -> None:
        self.trace = Trace()
        self._run, self._untraced, self._traced = run, untraced, traced
        self._calls = 0

    @property
    def is_done(self) -> bool:
        return len(self.trace.seconds) >= self._traced

    def __call__(self, *given):
        """Runs the session with the given arguments."""
        self._calls += 1
        started = time.perf_counter()
        if self._calls <= 2 * self._untraced or self.is_done:
            result = self._run(*given)
            if self._untraced < self._calls <= 2 * self._untraced:
                self.trace.seconds_untraced.append(time.perf_counter() - started)
            return result
        options = tf.compat.v1.RunOptions(trace_level=tf.compat.v1.RunOptions.FULL_TRACE)
        metadata = tf.compat.v1.RunMetadata()
        result = self._run(*given, options=options, run_metadata=metadata)
        self.trace.seconds.append(time.perf_counter() - started)
        self.trace.operations += operations_of(metadata.step_stats)
        return result


def operations_of(step_stats) -> list[Operation]:
    """Returns what ran in one step."""
    found = []
    for device in step_stats.dev_stats:
        for node in device.node_stats:
            label = re.search(r'= (\w+)\(', node.timeline_label)
            seconds = (node.op_end_rel_micros - node.op_start_rel_micros) / 1e6
            sizes = [out.tensor_description.allocation_description.requested_bytes for out in node.output]
            kind = label[1] if label else node.timeline_label or node.node_name
            found.append(Operation(node.node_name, kind, max(seconds, 0.0), max(sizes, default=0)))
    return found


class TraceHook(train_loop.Hook):
    """Traces the steps of a training."""

    def __init__(self, untraced: int, traced: int) -> None:
        self._sizes = untraced, traced
        self.tracer = None

    def begin(self, session, step):
        self.tracer = Tracer(session.run, *self._sizes)
        session.run = self.tracer


def profile_training(flags: list[str], untraced: int, traced: int, folder: str) -> Trace:
    """Trains with the flags of deeplab train."""
    hook = TraceHook(untraced, traced)
    hooks_of_training = train_run._hooks
    train_run._hooks = lambda *given: [*hooks_of_training(*given), hook]
    if not any(re.match('--?dataset_dir=', flag) for flag in flags):
        data = _data.generate(pathlib.Path(folder, 'data'), {'train': 24})
        flags = [*flags, '--dataset=camvid', f'--dataset_dir={_data.build(data, pathlib.Path(folder, "records"))}']
    steps = 2 * untraced + traced
    flags = [
        *flags, f'--train_logdir={folder}/logs', f'--training_number_of_steps={steps}', '--save_interval_secs=100000',
    ]  # fmt: skip
    status = cli.main(['train', *flags])
    if status or hook.tracer is None:
        raise SystemExit(status or 1)
    return hook.tracer.trace


def profile_network(flags: list[str], batch: int, untraced: int, traced: int, folder: str) -> Trace:
    """Runs the network of eval and vis on noise."""
    options = options_of('eval', [*_needed(flags, 'checkpoint_dir', 'eval_logdir', 'dataset_dir'), *flags])
    path = _checkpoint(options.checkpoint_dir, options, folder)
    frozen = network.InferenceNetwork(options.model, options.prediction, batch).frozen(path)
    with tf.Graph().as_default(), sessions.open_session() as session:
        shape = [batch, *options.model.crop_size, options.model.input_channels]
        images = tf.compat.v1.placeholder(tf.float32, shape)
        labels = network.in_graph(frozen, images).labels
        tracer = Tracer(session.run, untraced, traced)
        pixels = np.random.default_rng(0).uniform(0, 255, shape).astype(np.float32)
        while not tracer.is_done:
            tracer(labels, {images: pixels})
    return tracer.trace


def profile_export(flags: list[str], untraced: int, traced: int, folder: str) -> Trace:
    """Exports a frozen graph and runs it on noise."""
    flags = [*_needed(flags, 'checkpoint_path'), *flags, f'--export_path={folder}/frozen_graph.pb']
    options = options_of('export_model', flags)
    options = dataclasses.replace(options, checkpoint_path=_checkpoint(options.checkpoint_path, options, folder))
    export_model.run(options)
    graph_def = tf.compat.v1.GraphDef.FromString(pathlib.Path(options.export_path).read_bytes())
    with tf.Graph().as_default(), sessions.open_session() as session:
        tf.graph_util.import_graph_def(graph_def, name='')
        tracer = Tracer(session.run, untraced, traced)
        shape = [1, *options.model.crop_size, options.model.input_channels]
        pixels = np.random.default_rng(0).integers(0, 256, shape, np.uint8)
        while not tracer.is_done:
            tracer(f'{tensor_names.PREDICTIONS}:0', {f'{tensor_names.IMAGE}:0': pixels})
    return tracer.trace


def _checkpoint(path: str, options, folder: str) -> str:
    """Returns the checkpoint at a path; a new one with random weights if none is given."""
    if path == 'none':
        return random_weights.write(options.model, f'{folder}/model.ckpt-0')
    return export_model.find_checkpoint(path)


def _needed(flags: list[str], *names: str) -> list[str]:
    """Returns required flags that are not given and not used, with the value none."""
    return [f'--{name}=none' for name in names if not any(re.match(f'--?{name}=', flag) for flag in flags)]


def table(trace: Trace, by: str, most: int) -> list[str]:
    """Returns the lines of the table: of the kinds of operations, and of the types, nodes or scopes with most time."""
    runs = len(trace.seconds)
    inside = [operation for operation in trace.operations if operation.kind not in OUTSIDE_THE_SUM]
    total = sum(operation.seconds for operation in inside)
    plain = statistics.median(trace.seconds_untraced)
    traced = statistics.median(trace.seconds)
    lines = [
        f'{plain * 1e3:.1f} ms a run (median of {len(trace.seconds_untraced)}), {traced * 1e3:.1f} ms while traced; '
        f'operations take {total / runs * 1e3:.1f} ms together',
        '',
        f'{"kind":34} {"ms":>9} {"share":>7} {"number":>7} {"largest output":>15}',
        *_rows(inside, lambda operation: operation.kind, runs, total, most),
        '',
        f'{by:34} {"ms":>9} {"share":>7} {"number":>7} {"largest output":>15}',
        *_rows(inside, KEYS[by], runs, total, most),
    ]
    waiting = sum(operation.seconds for operation in trace.operations if operation.kind == 'waiting')
    return [*lines, '', f'Waiting, not in the sum: {waiting / runs * 1e3:.1f} ms.']


def _rows(operations: list[Operation], key, runs: int, total: float, most: int) -> list[str]:
    """Returns a line for each of the keys with most time."""
    groups = collections.defaultdict(list)
    for operation in operations:
        groups[key(operation)].append(operation)
    seconds = {name: sum(operation.seconds for operation in group) for name, group in groups.items()}
    lines = []
    for name in sorted(seconds, key=seconds.__getitem__, reverse=True)[:most]:
        group = groups[name]
        largest = max(operation.output_bytes for operation in group) / 1e6
        lines.append(
            f'{name[-60:]:34} {seconds[name] / runs * 1e3:9.2f} {seconds[name] / max(total, 1e-9):7.1%} '
            f'{len(group) / runs:7.0f} {largest:12.2f} MB'
        )
    return lines


def _scope(operation: Operation) -> str:
    """Returns the first parts of a node's name."""
    return '/'.join(operation.name.split('/')[:3])


KEYS = {
    'type': lambda operation: operation.type,
    'node': lambda operation: f'{operation.type} {operation.name}',
    'scope': _scope,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('of', choices=('train', 'eval', 'export'))
    parser.add_argument('--by', choices=tuple(KEYS), default='type', help='what the second table lists')
    parser.add_argument('--most', type=int, default=25, help='most lines of a table')
    parser.add_argument('--untraced', type=int, default=8, help='runs to warm up, and as many to time')
    parser.add_argument('--traced', type=int, default=5, help='runs to trace')
    parser.add_argument('--batch', type=int, default=1, help='images at a time, of eval')
    parser.add_argument('--json', type=pathlib.Path, help='file for all operations')
    arguments, flags = parser.parse_known_args()
    sizes = arguments.untraced, arguments.traced
    with tempfile.TemporaryDirectory() as folder:
        if arguments.of == 'train':
            trace = profile_training(flags, *sizes, folder)
        elif arguments.of == 'eval':
            trace = profile_network(flags, arguments.batch, *sizes, folder)
        else:
            trace = profile_export(flags, *sizes, folder)
    print('\n'.join(table(trace, arguments.by, arguments.most)))
    if arguments.json:
        arguments.json.write_text(json.dumps(dataclasses.asdict(trace)))


if __name__ == '__main__':
    main()
