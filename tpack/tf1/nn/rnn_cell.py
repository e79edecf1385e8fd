"""``tf.nn.rnn_cell`` for those who import it by its name: ``from tpack.tf1.nn.rnn_cell import LSTMCell``."""

from tpack.tf1.name_table import find, look_up

_CELLS = find("tpack.tf1.rnn_cell").__all__

__getattr__, __dir__, __all__ = look_up(__name__, {name: f"tpack.tf1.rnn_cell:{name}" for name in _CELLS})
