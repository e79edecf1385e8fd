"""``tf.nn``: that of ``tensorflow.compat.v1``, with ``rnn_cell``, which TensorFlow has lost."""

import importlib
from typing import Any

from tensorflow.compat.v1 import nn as _nn

from tpack.tf1.missing import missing_name

__all__ = ["rnn_cell"]


def __getattr__(name: str) -> Any:
    if name == "rnn_cell":
        return importlib.import_module(f"{__name__.rpartition('.')[0]}.rnn_cell")
    if hasattr(_nn, name):
        return getattr(_nn, name)
    raise missing_name(__name__, name, __dir__())


def __dir__() -> list[str]:
    return sorted({*globals(), *dir(_nn), *__all__})
