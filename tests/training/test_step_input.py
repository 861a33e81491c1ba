"""Which batches a process reads, and how it feeds a server; tests/training/test_train.py shows the other inputs.

Covers training/split_input.py.
"""

import numpy as np
import tensorflow as tf

from deeplab.core import sessions
from deeplab.deployment import model_deploy
from deeplab.training import split_input, step_input


def test_each_sample_belongs_to_one_replica_and_one_machine_takes_all():
    positions = np.arange(40)
    shares = [split_input.taken_positions(4, task, 3) for task in range(3)]
    taken = [positions[np.asarray(share(tf.constant(positions)))] for share in shares]
    assert sorted(np.concatenate(taken)) == list(positions)
    assert list(taken[1][:8]) == [4, 5, 6, 7, 16, 17, 18, 19]
    assert split_input.taken_positions(4, 0, 1) is None


class Pipeline:
    """Counts: sample 'number' is the position, in batches of 2."""

    def __init__(self, first, is_taken=None):
        data = tf.data.Dataset.range(first, 1000)
        data = data if is_taken is None else data.filter(is_taken)
        iterator = tf.compat.v1.data.make_initializable_iterator(data.batch(2, drop_remainder=True))
        self.samples = {'number': iterator.get_next()}
        self.initializer = iterator.initializer


class TestFedInput:
    def test_every_clone_of_every_step_gets_its_batch(self):
        with tf.Graph().as_default(), sessions.open_session() as running:
            fed = step_input.FedInput(model_deploy.DeploymentConfig(2), 4, Pipeline)
            taken = [fed.dequeue()['number'] for _ in range(2)]
            assert [tensor.device for tensor in taken] == ['/device:CPU:0'] * 2
            assert taken[0].shape == [2]
            tf.compat.v1.get_default_graph().finalize()
            fed.begin(running, 3)
            seen = [[list(values) for values in running.run(taken, fed.feeds(step))] for step in (4, 5)]
            fed.end(5)
        assert seen == [[[12, 13], [14, 15]], [[16, 17], [18, 19]]]
