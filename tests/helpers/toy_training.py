"""A training of one weight, for tests of the training step, the loop and its hooks."""

import numpy as np
import tensorflow as tf

from deeplab.training import training_step


class Toy:
    """Weight w, loss w * x, moving average m of x, where x comes from a queue."""

    def __init__(self, values, rate=0.5, counts_skipped=False):
        self.step = tf.compat.v1.train.get_or_create_global_step()
        self.w = tf.compat.v1.get_variable('w', initializer=1.0)
        self.m = tf.compat.v1.get_variable('m', initializer=0.0, trainable=False)
        queue = tf.queue.FIFOQueue(len(values), [tf.float32], [[]])
        self.fill = [queue.enqueue_many([np.float32(values)]), queue.close()]
        x = queue.dequeue()
        loss = self.w * x
        optimizer = tf.compat.v1.train.MomentumOptimizer(rate, 0.9)
        gradients = [(tf.gradients(loss, self.w)[0], self.w)]
        applied, norm = training_step.gated_update(
            loss, gradients, optimizer, self.step, training_step.MoreUpdates(
            lambda: [self.m.assign(x, read_value=False)],
            (lambda: [self.step.assign_add(1, read_value=False)]) if counts_skipped else tuple),
        )  # fmt: skip
        names = tf.reshape(tf.strings.as_string(x), [1])
        self.train_step = training_step.TrainStep(applied, loss, norm, tf.constant(rate), self.step, names)
        self.start = tf.compat.v1.global_variables_initializer()

    def initialize(self, running):
        running.run(self.start)
        for operation in self.fill:
            running.run(operation)

    def variables(self):
        return tf.compat.v1.global_variables()
