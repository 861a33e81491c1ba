"""On which devices the operations of a training are; graphs for eight GPUs are built, and not run.

Covers deployment/model_deploy.py and training/workers.py.
"""

import collections

import pytest
import tensorflow as tf

from deeplab.core import lean_variables
from deeplab.deployment import cluster
from deeplab.errors import OptionError
from deeplab.options import CloneOptions
from deeplab.training import train_hooks, train_run
from deeplab.training.run_loggers import RunLoggers
from tests.helpers import training_setup

pytestmark = pytest.mark.usefixtures('tiny_network')
CPU = '/device:CPU:0'
GPUS = [f'/device:GPU:{index}' for index in range(8)]
HOSTS = ('one:2222', 'two:2222')

INPUT = {
    *('RangeDataset', 'FilterDataset', 'ParallelMapDatasetV2', 'BatchDatasetV2', 'PrefetchDataset', 'OptionsDataset'),
    *('Timestamp', 'FloorMod', 'Equal'),  # how long a step waits, and whether it is watched
}
VARIABLES = {'VarHandleOp', 'ReadVariableOp', 'AssignVariableOp', 'StatelessRandomUniform', 'StatelessTruncatedNormal'}
UPDATES = {
    *('ResourceApplyMomentum', 'ResourceApplyGradientDescent', 'AssignSubVariableOp', 'AssignAddVariableOp'),
    *('IsFinite', 'LogicalAnd', 'Switch', 'Merge', 'NoOp', 'Sqrt'),  # the gate and the norms
    *('Maximum', 'Minimum', 'RealDiv', 'Pow', 'Sub', 'Mul', 'AddV2', 'Cast'),  # rates, multipliers, moving averages
    *('Pack', 'Sum', 'L2Loss'),  # weight decay and the total loss
}
PLAIN = {'Const', 'Identity', 'PlaceholderWithDefault', 'ConcatV2'}  # ConcatV2: names of images


@pytest.fixture(scope='module')
def data(tmp_path_factory):
    return training_setup.write_data(tmp_path_factory.mktemp('records'))


@pytest.fixture
def build(data, tmp_path, monkeypatch):
    """Builds a training on a machine with eight GPUs; returns its graph and its step."""

    def built(clones, **changes):
        monkeypatch.setattr(tf.config, 'list_physical_devices', lambda kind: GPUS if kind == 'GPU' else [CPU])
        changes = {'batch_size': clones.parts, 'moving_average_decay': 0.9, 'save_summaries_images': True, **changes}
        options = training_setup.options(data, tmp_path / 'log', clones=clones, **changes)
        split = training_setup.opened(options)
        with tf.Graph().as_default() as graph, lean_variables.scope():
            config = cluster.connect(options.clones)
            training = train_run._build(options, split, config, 0)
            with config.host_scope():
                train_run._hooks(
                    options, split, training, train_hooks.ProgressHook(6, 2), [RunLoggers(options.loggers)]
                )
        return graph, training.step

    return built


def types_on(graph, device):
    return {operation.type for operation in graph.get_operations() if operation.device == device}


def reductions(graph):
    """Devices and groups of the sums of one step, by type."""
    sums = collections.defaultdict(list)
    for operation in graph.get_operations():
        if operation.type == 'CollectiveReduce':
            sums[operation.get_attr('T')].append((operation.device, operation.get_attr('group_key')))
    return dict(sums)


def tensors_to_the_cpu(graph, step):
    """Types of the CPU's operations that wait for a tensor of a GPU in every step, unless that is a scalar."""
    seen, waiting, types = set(), [step.is_applied.op, step.loss.op], []
    while waiting:
        operation = waiting.pop()
        for tensor in operation.inputs:
            if operation.device == CPU and tensor.device in GPUS and tensor.shape.rank != 0:
                types.append(operation.type)
        for before in [*(tensor.op for tensor in operation.inputs), *operation.control_inputs]:
            if before not in seen:
                seen.add(before)
                waiting.append(before)
    return collections.Counter(types)


def test_eight_clones(build):
    graph, step = build(CloneOptions(num_clones=8))
    assert {o.device for o in graph.get_operations() if o.type == 'VarHandleOp'} == {CPU}
    for operation in graph.get_operations():
        scope = operation.name.partition('/')[0]
        if scope.startswith('clone_') and operation.type not in ('ReadVariableOp', 'Const') and operation.device:
            number = scope.removeprefix('clone_').removesuffix('_gradients')
            assert operation.device == GPUS[int(number)], operation.name
    assert types_on(graph, CPU) == INPUT | VARIABLES | UPDATES | PLAIN
    # What has no device is where its variable or its data set is.
    assert types_on(graph, '') == {'ReadVariableOp', 'Const', 'WrapDatasetVariant'}
    assert reductions(graph) == {tf.float32: [(gpu, 3) for gpu in GPUS]}
    weights = len(step.variable_names)
    crossing = tensors_to_the_cpu(graph, step)
    assert crossing.pop('ResourceApplyMomentum') + crossing.pop('Mul') == weights  # one sum, not eight gradients
    assert set(crossing) == {'Sub'}  # statistics of the first clone


@pytest.mark.parametrize(
    ('hosts', 'sums', 'on_cpu'),
    [
        ((), {}, ['global_step']),
        (HOSTS, {tf.float32: [(GPUS[0], 1)]}, ['global_step', 'workers/update_begun']),
    ],
)
def test_one_gpu_has_the_variables(build, hosts, sums, on_cpu):
    clones = CloneOptions(worker_hosts=hosts, task=len(hosts) // 2)
    graph, step = build(clones, precision='float16', accumulation_steps=2, batch_size=4)
    assert types_on(graph, CPU) <= INPUT | VARIABLES | PLAIN | {'AddV2', 'Sub', 'Pack', 'Sum'}
    assert reductions(graph) == sums
    assert not tensors_to_the_cpu(graph, step)
    assert [o.name for o in graph.get_operations() if o.type == 'VarHandleOp' and o.device == CPU] == on_cpu


def test_clone_on_cpu_keeps_all_there(build):
    graph, _ = build(CloneOptions(clone_on_cpu=True))
    assert not {operation.device for operation in graph.get_operations()} & set(GPUS)


def test_worker_with_eight_gpus(build):
    """One sum on its GPUs, and one with the other worker on the first GPU; group 4 is of worker 1 alone."""
    graph, _ = build(CloneOptions(num_clones=8, worker_hosts=HOSTS, task=1))
    assert reductions(graph) == {tf.float32: [*((gpu, 4) for gpu in GPUS), (GPUS[0], 1)]}


def test_sums_of_16_bits_avoid_nccl(build):
    clones = CloneOptions(num_clones=2, worker_hosts=HOSTS, reduce_precision=True)
    graph, _ = build(clones)
    hints = {
        operation.get_attr('T'): operation.get_attr('communication_hint')
        for operation in graph.get_operations()
        if operation.type == 'CollectiveReduce'
    }
    assert hints == {tf.float32: b'nccl', tf.bfloat16: b'ring'}


def test_equal_values_are_added_where_gradients_are(build):
    """TensorFlow refuses a group whose sums are on several devices."""
    build(CloneOptions())  # only for its GPUs
    with tf.Graph().as_default() as graph:
        config = cluster.connect(CloneOptions(worker_hosts=HOSTS, task=1))
        sums = train_run.workers.WorkerSums(config, tf.compat.v1.train.get_or_create_global_step())
        with config.host_scope():
            sums.equal_values([tf.compat.v1.get_variable('w', [2])])
    assert {device for devices in reductions(graph).values() for device, _ in devices} == {GPUS[0]}


@pytest.mark.parametrize('gpus', [1, 4])
def test_clones_that_share_a_gpu_add_on_the_cpu(monkeypatch, gpus):
    monkeypatch.setattr(tf.config, 'list_physical_devices', lambda kind: GPUS[:gpus])
    config = cluster.connect(CloneOptions(num_clones=4))
    assert config.gradient_group == (3 if gpus == 4 else None)
    assert cluster.connect(CloneOptions(num_clones=4, clone_on_cpu=True)).gradient_group is None


@pytest.mark.parametrize('master', ['', 'grpc://here:1'])
def test_clones_that_share_a_gpu_cannot_share_statistics(monkeypatch, master):
    """They would wait for each other forever."""
    monkeypatch.setattr(tf.config, 'list_physical_devices', lambda kind: GPUS[:2])
    monkeypatch.setattr(cluster, '_devices_of', lambda *_: [CPU, *GPUS[:2]])
    options = {'sync_batch_norm': True, 'master': master}
    with pytest.raises(OptionError, match='num_clones=4 with sync_batch_norm needs 4 GPUs, but there are 2 GPUs'):
        cluster.connect(CloneOptions(num_clones=4, **options))
    assert cluster.connect(CloneOptions(num_clones=2, **options)).use_gpus
    assert not cluster.connect(CloneOptions(num_clones=4, clone_on_cpu=True, **options)).use_gpus
