import pytest
import tensorflow.compat.v1 as tf

import tpack.tf1.contrib.opt as opt
from tpack.errors import GraphBuildError

OPTIMIZERS = [
    lambda: opt.AdaMaxOptimizer(),
    lambda: opt.NadamOptimizer(),
    lambda: opt.AdamWOptimizer(0.1),
    lambda: opt.AddSignOptimizer(),
    lambda: opt.LARSOptimizer(0.1),
    lambda: opt.RegAdagradOptimizer(0.1),
]


@pytest.mark.parametrize("number", range(len(OPTIMIZERS)))
@pytest.mark.parametrize("sparse", [False, True])
def test_a_variable_that_is_no_resource_is_refused(graph, number, sparse):
    var = tf.get_variable("w", [2], use_resource=False)
    with pytest.raises(GraphBuildError, match="got w: expected a resource variable"):
        OPTIMIZERS[number]().minimize(tf.reduce_sum(tf.gather(var, [0]) if sparse else var))
