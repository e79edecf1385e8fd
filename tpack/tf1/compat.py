"""``tf.compat``: that of TensorFlow, in which ``tf.compat.v1`` has what TensorFlow 1 had.

A script that was half-way to TensorFlow 2 writes ``tf.compat.v1.layers`` and ``tf.layers``, and means the same.
"""

from tensorflow.compat.v1 import compat as _compat

from tpack.tf1.name_table import look_up

__getattr__, __dir__, __all__ = look_up(__name__, {"v1": "tpack.tf1"}, behind=_compat)
