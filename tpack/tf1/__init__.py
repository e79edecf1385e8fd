"""TensorFlow 1 as scripts of 2016 to 2020 know it: ``import tpack.tf1 as tf`` in place of ``import tensorflow as tf``.

Everything of ``tensorflow.compat.v1`` is here under its own name and is the same object, looked up when asked for. Only
sessions are subclasses of TensorFlow's, see `tpack.tf1.sessions`, and flags are defined by `tpack.tf1.flags`. What
TensorFlow has lost since then is tpack's own: ``tf.layers``, ``tf.nn.rnn_cell``, ``tf.estimator`` and ``tf.contrib``.
Nothing of TensorFlow is patched, and no switch is thrown. A script that builds without a ``tf.Graph`` of its own gets a
default graph when it begins to build, see `tpack.tf1.default_graph`.

A name that exists nowhere any more raises `tpack.errors.MissingNameError`, which says what to use in its place.
``docs/tf1.md`` lists what is there. Arguments that a class does not list are those of TensorFlow 1.15.
"""

import sys
from collections.abc import Callable
from typing import Any

from tpack.tf1.default_graph import builds, enter_default_graph
from tpack.tf1.default_graph import leave_default_graph as leave_default_graph
from tpack.tf1.default_graph import reset_default_graph as reset_default_graph
from tpack.tf1.name_table import add_modules, look_up
from tpack.utils.lazy import LazyModule

_sessions = LazyModule("tpack.tf1.sessions")

add_modules()

# Not kept when they were asked for once, since a script that asks again may need a default graph again.
_OWN: dict[str, Callable[[], Any]] = {
    "InteractiveSession": lambda: _sessions.InteractiveSession,
    "Session": lambda: _sessions.Session,
    "train": lambda: sys.modules[f"{__name__}.train"],
}

_load, __dir__, __all__ = look_up(
    __name__,
    {f"{__name__}.{name}": "" for name in ("app", "compat", "contrib", "estimator", "flags", "layers", "nn")},
    own=("leave_default_graph", "reset_default_graph", *_OWN),
    behind="tensorflow.compat.v1",
)


def __getattr__(name: str) -> Any:
    """Look a name up, and give the script a default graph if it begins to build with this."""
    value = _OWN[name]() if name in _OWN else _load(name)
    if builds(name, value):
        enter_default_graph()
    return value
