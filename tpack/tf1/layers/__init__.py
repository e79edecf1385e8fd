"""``tf.layers`` of TensorFlow 1: layers that make their variables by ``tf.get_variable``."""

from typing import Any

from tpack.tf1.missing import missing_name

__all__: list[str] = []


def __getattr__(name: str) -> Any:
    raise missing_name(__name__, name, __all__)
