"""Weight decay of variables: one term each, and the factors by name."""

import numpy as np
import tensorflow as tf

from deeplab.core import weight_decays


def test_a_variable_has_one_term_however_often_it_is_added():
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        weights = tf.compat.v1.get_variable('a/weights', initializer=np.float32([1, -2]), use_resource=False)
        for _ in range(2):
            weight_decays.add(weights, 0.1)
        (term,) = tf.compat.v1.losses.get_regularization_losses()
        session.run(weights.initializer)
        assert session.run(term) == np.float32(0.1 * (1 + 4) / 2)
        assert weight_decays.factors() == {'a/weights': 0.1}
