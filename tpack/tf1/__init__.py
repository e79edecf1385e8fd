"""TensorFlow 1 as scripts of 2016 to 2020 know it: ``import tpack.tf1 as tf`` in place of ``import tensorflow as tf``.

Everything of ``tensorflow.compat.v1`` is here under its own name and is the same object, looked up when asked for. What
TensorFlow has lost since then is tpack's own: ``tf.layers``, ``tf.nn.rnn_cell``, ``tf.estimator`` and ``tf.contrib``.
Nothing of TensorFlow is patched, and no switch is thrown. A script that builds without a ``tf.Graph`` of its own gets a
default graph when it begins to build, see `tpack.tf1.default_graph`.

A name that exists nowhere any more raises `tpack.errors.MissingNameError`, which says what to use in its place.
``docs/tf1.md`` lists what is there. Arguments that a class does not list are those of TensorFlow 1.15.
"""

from typing import Any

from tpack.tf1.default_graph import builds, enter_default_graph
from tpack.tf1.default_graph import leave_default_graph as leave_default_graph
from tpack.tf1.default_graph import reset_default_graph as reset_default_graph
from tpack.tf1.name_table import add_modules, look_up

add_modules()

_load, __dir__, __all__ = look_up(
    __name__,
    {f"{__name__}.{name}": "" for name in ("compat", "contrib", "estimator", "layers", "nn")},
    own=("leave_default_graph", "reset_default_graph"),
    behind="tensorflow.compat.v1",
)


def __getattr__(name: str) -> Any:
    """Look a name up, and give the script a default graph if it begins to build with this."""
    value = _load(name)
    if builds(name, value):
        enter_default_graph()
    return value
