import pytest
import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError
from tpack.optimizers.weight_decay import LARS


def test_the_norm_of_a_part_is_refused(graph):
    with tf.variable_scope("", partitioner=tf.fixed_size_partitioner(2)):
        w = tf.get_variable("w", [2])
    with pytest.raises(ConfigError, match="got w/part_0, a part of a variable: expected a whole one"):
        LARS(0.1).minimize(tf.reduce_sum(w))
