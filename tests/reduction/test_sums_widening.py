from typing import Any

import pytest
import tensorflow.compat.v1 as tf

from tpack.reduction.sums import widened


@pytest.mark.parametrize("dtype", [tf.float16, tf.bfloat16])
def test_16_bit_floats_are_added_in_float32(dtype: Any, graph: Any) -> None:
    assert widened(tf.ones([2], dtype)).dtype == tf.float32


@pytest.mark.parametrize("dtype", [tf.float32, tf.float64, tf.int32, tf.int64, tf.complex64])
def test_other_types_are_added_as_they_are(dtype: Any, graph: Any) -> None:
    tensor = tf.ones([2], dtype)
    assert widened(tensor) is tensor
