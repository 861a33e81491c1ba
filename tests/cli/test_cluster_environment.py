"""The synchronous workers that variables of schedulers name.

Covers cli/cluster_environment.py.
"""

import json

import pytest

from deeplab.cli import cluster_environment
from deeplab.cli.parse import parse_flags
from deeplab.cli.program import find_program
from deeplab.cli.words import UsageError

HOSTS = ['a:1', 'b:1', 'c:1']
STEP = {'SLURM_STEP_NUM_TASKS': '3', 'SLURM_PROCID': '2', 'SLURM_STEP_NODELIST': 'n[1-3]'}
BATCH_SCRIPT = {'SLURM_NTASKS': '3', 'SLURM_PROCID': '0', 'SLURM_JOB_NODELIST': 'n[1-3]'}


def tf_config(task, **cluster):
    return {'TF_CONFIG': json.dumps({'cluster': cluster, 'task': {'type': task[0], 'index': task[1]}})}


def assumed(environment, *words):
    """The flags of train, and the notes about them."""
    program = find_program('train')
    values = parse_flags(program, ['--train_logdir=logs', '--dataset_dir=records', *words])
    cluster_environment.assume(values, environment)
    return values['worker_hosts'], values['task'], values.notes


@pytest.mark.parametrize(
    ('environment', 'hosts', 'task'),
    [
        (tf_config(('worker', 2), worker=HOSTS), 'a:1,b:1,c:1', 2),
        (tf_config(('chief', 0), chief=['d:1'], worker=HOSTS), 'd:1,a:1,b:1,c:1', 0),
        (tf_config(('worker', '1'), chief=['d:1'], worker=HOSTS), 'd:1,a:1,b:1,c:1', 2),
        (STEP, 'n1:2222,n2:2222,n3:2222', 2),
        (
            {
                **STEP,
                'SLURM_STEP_NUM_TASKS': '4',
                'SLURM_STEP_NODELIST': 'a,b,c',
                'SLURM_STEP_TASKS_PER_NODE': '2,1(x2)',
            },
            'a:2222,a:2223,b:2222,c:2222',
            2,
        ),
    ],
)
def test_they_replace_both_flags(environment, hosts, task):
    given, number, notes = assumed(environment)
    assert (given, number) == (hosts, task)
    assert len(notes) == 1 and notes[0].startswith(f'--worker_hosts={hosts} --task={task}, from ')


@pytest.mark.parametrize(
    'environment',
    [
        {},
        {'TF_CONFIG': ''},
        tf_config(('worker', 0), worker=['a:1']),
        tf_config(('worker', 0), worker=HOSTS, ps=['p:1']),
        BATCH_SCRIPT,
        {**BATCH_SCRIPT, 'SLURM_STEP_NUM_TASKS': '1', 'SLURM_STEP_NODELIST': 'n1'},
        {**STEP, 'OMPI_COMM_WORLD_RANK': '5'},
        {'JOB_COMPLETION_INDEX': '1'},
        {'OMPI_COMM_WORLD_RANK': '1'},
    ],
)
def test_a_process_alone_stays_alone(environment):
    assert assumed(environment) == (None, 0, [])


def test_flags_win():
    environment = tf_config(('worker', 2), worker=HOSTS)
    assert assumed(environment, '--worker_hosts=') == ('', 0, [])
    assert assumed(environment, '--worker_hosts=x:1,y:1', '--task=1') == ('x:1,y:1', 1, [])
    step = {**STEP, 'SLURM_DISTRIBUTION': 'cyclic', 'SLURM_STEP_TASKS_PER_NODE': '2(x1),1'}  # which has no order
    assert assumed(step, '--worker_hosts=x:1,y:1', '--task=1') == ('x:1,y:1', 1, [])
    assert assumed(step, '--worker_hosts=x:1,y:1,z:1')[:2] == ('x:1,y:1,z:1', 2)
    assert assumed({'TF_CONFIG': '[1]'}, '--worker_hosts=x:1,y:1', '--task=1') == ('x:1,y:1', 1, [])
    assert assumed(environment, '--task=1')[:2] == ('a:1,b:1,c:1', 1)
    several = ('--num_ps_tasks=1', '--num_replicas=3', '--master=grpc://a:1')
    assert assumed(environment, *several) == (None, 0, [])


@pytest.mark.parametrize(
    ('environment', 'task'),
    [
        (tf_config(('worker', 2), worker=HOSTS), 2),
        (STEP, 2),
        ({'JOB_COMPLETION_INDEX': '1'}, 1),
        ({**STEP, 'OMPI_COMM_WORLD_RANK': '1'}, 1),
        (BATCH_SCRIPT, 0),
    ],
)
def test_the_task_alone(environment, task):
    assert assumed(environment, '--worker_hosts=x:1,y:1,z:1')[:2] == ('x:1,y:1,z:1', task)
    assert assumed(environment, '--worker_hosts=x:1') == ('x:1', 0, [])


@pytest.mark.parametrize(
    ('environment', 'message'),
    [
        ({'TF_CONFIG': '{"cluster": '}, '^TF_CONFIG in the environment cannot be read .* unset it'),
        ({'TF_CONFIG': '[1]'}, '^TF_CONFIG in the environment cannot be read'),
        (tf_config(('evaluator', 0), worker=HOSTS), '^TF_CONFIG gives this process the task evaluator 0'),
        ({**STEP, 'SLURM_STEP_NUM_TASKS': '6'}, '^The tasks of this SLURM step .* 6 tasks, nodes n'),
        (
            {**STEP, 'SLURM_STEP_NODELIST': 'a,b', 'SLURM_STEP_TASKS_PER_NODE': '2,1', 'SLURM_DISTRIBUTION': 'cyclic'},
            'distribution cyclic. Use srun --distribution=block',
        ),
    ],
)
def test_what_has_no_place_for_this_process(environment, message):
    with pytest.raises(UsageError, match=message):
        assumed(environment)


@pytest.mark.parametrize(
    ('environment', 'words', 'message'),
    [
        (tf_config(('worker', 3), worker=HOSTS), (), '^TF_CONFIG in the .* task 3, .* 3 workers .* are 0 to 2.'),
        ({'JOB_COMPLETION_INDEX': '2'}, ('--worker_hosts=x:1,y:1',), '^JOB_COMPLETION_INDEX in .*(x:1, y:1).* --task'),
        ({'OMPI_COMM_WORLD_RANK': 'x'}, ('--worker_hosts=x:1,y:1',), '^OMPI_COMM_WORLD_RANK=x in the environment'),
    ],
)
def test_tasks_that_are_none_of_the_workers(environment, words, message):
    with pytest.raises(UsageError, match=message):
        assumed(environment, *words)


@pytest.mark.parametrize(
    ('text', 'nodes'),
    [
        ('b2', 'b2'),
        ('node[01-03,7],b2', 'node01 node02 node03 node7 b2'),
        ('node[08-11]', 'node08 node09 node10 node11'),
        ('r[1-2]n[1,3]-ib,x', 'r1n1-ib r1n3-ib r2n1-ib r2n3-ib x'),
    ],
)
def test_lists_of_nodes(text, nodes):
    assert list(cluster_environment.expanded(text)) == nodes.split()
