"""``tf.compat``: that of TensorFlow, in which ``tf.compat.v1`` has what TensorFlow 1 had.

A script that was half-way to TensorFlow 2 writes ``tf.compat.v1.layers`` and ``tf.layers``, and means the same.
"""

import importlib
from typing import Any

from tensorflow.compat.v1 import compat as _compat

from tpack.tf1.missing import missing_name

__all__ = ["v1"]  # noqa: F822 (it is looked up)


def __getattr__(name: str) -> Any:
    if name == "v1":
        return importlib.import_module(str(__package__))
    if hasattr(_compat, name):
        return getattr(_compat, name)
    raise missing_name(__name__, name, __dir__())


def __dir__() -> list[str]:
    return sorted({*globals(), *dir(_compat), *__all__})
