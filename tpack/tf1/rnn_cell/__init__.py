"""``tf.nn.rnn_cell`` of TensorFlow 1: the cells that ``tf.nn.dynamic_rnn`` and its family unroll."""

from typing import Any

from tpack.tf1.removed_names import missing_name
from tpack.tf1.rnn_cell.base import RNNCell
from tpack.tf1.rnn_cell.lstm import BasicLSTMCell, LSTMCell, LSTMStateTuple
from tpack.tf1.rnn_cell.multi import MultiRNNCell
from tpack.tf1.rnn_cell.plain import BasicRNNCell, GRUCell
from tpack.tf1.rnn_cell.wrappers import DeviceWrapper, DropoutWrapper, ResidualWrapper

__all__ = [
    "BasicLSTMCell",
    "BasicRNNCell",
    "DeviceWrapper",
    "DropoutWrapper",
    "GRUCell",
    "LSTMCell",
    "LSTMStateTuple",
    "MultiRNNCell",
    "RNNCell",
    "ResidualWrapper",
]


def __getattr__(name: str) -> Any:
    raise missing_name(__name__, name, __all__)
