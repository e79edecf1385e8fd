"""Names of ``tf.contrib.framework`` that TensorFlow has elsewhere."""

import pytest
import tensorflow.compat.v1 as tf

from tpack.errors import MissingNameError
from tpack.tf1.contrib import framework


def test_other_names_are_those_of_tensorflow():
    assert framework.sort is tf.sort
    assert framework.is_tensor is tf.is_tensor
    with pytest.raises(MissingNameError, match="tf.contrib.framework.fuse_op is not there"):
        framework.fuse_op  # noqa: B018 (reading it is the test)
