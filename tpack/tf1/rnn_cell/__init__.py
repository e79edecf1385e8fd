"""``tf.nn.rnn_cell`` of TensorFlow 1: the cells that ``tf.nn.dynamic_rnn`` and its family unroll."""

from typing import Any

from tpack.tf1.missing import missing_name

__all__: list[str] = []


def __getattr__(name: str) -> Any:
    raise missing_name(__name__, name, __all__)
