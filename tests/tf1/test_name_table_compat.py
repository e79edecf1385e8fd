"""``tf.compat``: TensorFlow's, with TensorFlow 1 as tpack has it."""

import pytest
import tensorflow.compat.v1 as tfv1

import tpack.tf1 as tf
from tpack.errors import MissingNameError


def test_version_one_is_that_of_tpack():
    assert tf.compat.v1 is tf
    assert tf.compat.v1.layers is tf.layers


def test_the_rest_is_tensorflow_s():
    assert tf.compat.as_text is tfv1.compat.as_text
    assert {"v1", "v2", "as_text"} <= set(dir(tf.compat))
    with pytest.raises(MissingNameError, match="tf.compat.v3 is not there"):
        tf.compat.v3  # noqa: B018 (reading it is the test)
