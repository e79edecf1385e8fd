import pytest
import tensorflow.compat.v1 as tf

import tpack.tf1.contrib.opt as opt
from tpack.errors import ConfigError


def test_a_decay_without_steps_to_decay_by_is_refused(graph):
    w = tf.get_variable("w", initializer=[1.0])
    with pytest.raises(ConfigError, match="PowerSignOptimizer got a sign_decay_fn: expected a global_step"):
        opt.PowerSignOptimizer(sign_decay_fn=lambda step: 1.0).minimize(tf.reduce_sum(w))
