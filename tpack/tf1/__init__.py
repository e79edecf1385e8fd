"""TensorFlow 1 as scripts of 2016 to 2020 know it: ``import tpack.tf1 as tf`` in place of ``import tensorflow as tf``.

Everything of ``tensorflow.compat.v1`` is here under its own name and is the same object, looked up when asked for. What
TensorFlow has lost since then is tpack's own: ``tf.layers``, ``tf.nn.rnn_cell``, ``tf.estimator`` and ``tf.contrib``.
Nothing of TensorFlow is patched, and no switch is thrown: a script that builds its graph without a ``tf.Graph`` of its
own calls ``tf.disable_eager_execution()`` first, as it does with ``tensorflow.compat.v1``.

A name that exists nowhere any more raises `tpack.errors.MissingNameError`, which says what to use in its place.
``docs/tf1.md`` lists what is there.
"""

from tensorflow.compat import v1 as _v1

from tpack.tf1.places import look_up

_OWN = {name: f"{__name__}.{name}" for name in ("compat", "contrib", "estimator", "layers", "nn")}

__getattr__, __dir__, __all__ = look_up(__name__, _OWN, behind=_v1)
