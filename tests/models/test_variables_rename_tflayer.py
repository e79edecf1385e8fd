"""Variables of other layers under tpack's names."""

from typing import Any

import tensorflow.compat.v1 as tf

from tpack.models.variables import rename_tflayer_get_variable


def test_kernel_and_bias_are_renamed_in_the_block_only(graph: Any) -> None:
    with tf.variable_scope("conv0"):
        with rename_tflayer_get_variable():
            names = [tf.get_variable(name, [1]).op.name for name in ("kernel", "bias", "kernels")]
        outside = tf.get_variable("kernel", [1]).op.name
    assert [*names, outside] == ["conv0/W", "conv0/b", "conv0/kernels", "conv0/kernel"]


def test_name_without_a_scope(graph: Any) -> None:
    with rename_tflayer_get_variable():
        assert tf.get_variable("kernel", [1]).op.name == "W"
