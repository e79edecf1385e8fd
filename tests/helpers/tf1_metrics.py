"""How a metric of TensorFlow 1 is run in tests."""

import tensorflow.compat.v1 as tf


def run_twice(metric):
    """Return the value of a metric, a pair of a value and an update, after the same batch came twice."""
    value, update = metric
    with tf.Session() as session:
        session.run(tf.local_variables_initializer())
        for _ in range(2):
            session.run(update)
        return session.run(value)
