"""``tf.nn``: that of ``tensorflow.compat.v1``, with ``rnn_cell``, which TensorFlow has lost."""

from tensorflow.compat.v1 import nn as _nn

from tpack.tf1.name_table import look_up

__getattr__, __dir__, __all__ = look_up(__name__, {"rnn_cell": f"{__name__}.rnn_cell"}, behind=_nn)
