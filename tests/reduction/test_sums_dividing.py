from typing import Any

import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.tower_grads import run, source
from tpack.reduction.sums import divide


def test_divide_by_one_adds_nothing(graph: Any) -> None:
    tensor = tf.constant(2.0)
    assert divide(tensor, 1) is tensor


@pytest.mark.parametrize("dtype", [tf.float16, tf.bfloat16, tf.float32, tf.float64, tf.complex64])
def test_divide_keeps_the_dtype(dtype: Any, session8: Any) -> None:
    quotient = divide(source([3.0, 6.0], "", dtype=dtype), 3)
    assert quotient.dtype == dtype
    assert run(session8, tf.cast(quotient, tf.complex128)).tolist() == pytest.approx([1.0, 2.0], rel=2**-7)
