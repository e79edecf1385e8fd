"""Errors of collective operations count as those of TensorFlow and of tpack."""

import tensorflow.compat.v1 as tf

from tpack.errors import ClusterError, ConfigError
from tpack.horovod.errors import CollectiveError, UnevenRowsError


def test_they_are_of_both_kinds() -> None:
    assert issubclass(CollectiveError, tf.errors.FailedPreconditionError)
    assert issubclass(CollectiveError, ClusterError)
    assert CollectiveError("what").message == "what"
    assert issubclass(UnevenRowsError, tf.errors.InvalidArgumentError)
    assert issubclass(UnevenRowsError, ConfigError)
    assert str(UnevenRowsError("rows")) == "rows"
