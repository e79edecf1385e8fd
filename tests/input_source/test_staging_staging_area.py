"""A staging area: first in, first out, on its device, apart from others."""

import tensorflow.compat.v1 as tf

from tpack.input_source.staging import StagingArea


def test_values_come_out_in_order_and_clear_empties(session8):
    value = tf.placeholder(tf.int32, [])
    with tf.device("/device:CPU:3"):
        first, second = StagingArea([value, value + 1]), StagingArea([value])
    for k in (1, 2, 3):
        session8.run(first.stage, {value: k})
    session8.run(second.stage, {value: 10})
    assert session8.run(first.outputs) == [1, 2]
    session8.run(first.clear)
    session8.run(first.stage, {value: 7})
    assert session8.run(first.outputs) == [7, 8]
    assert session8.run(second.outputs) == [10]
    assert {op.device for op in (first.stage, first.clear, first.outputs[0].op)} == {"/device:CPU:3"}
    assert first.outputs[0].shape == []
