"""Each operation of a chain waits for the one before."""

import tensorflow.compat.v1 as tf

from tpack.input_source.taking import DequeueChain


def test_each_operation_waits_for_the_one_before(graph):
    chain, ops = DequeueChain(), []
    for _ in range(3):
        with chain.link():
            ops.append(tf.no_op())
        chain.append(ops[-1])
    assert [list(op.control_inputs) for op in ops] == [[], [ops[0]], [ops[1]]]
