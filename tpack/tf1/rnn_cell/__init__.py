"""``tf.nn.rnn_cell`` of TensorFlow 1: the cells that ``tf.nn.dynamic_rnn`` and its family unroll."""

from tpack.tf1.name_table import look_up

__getattr__, __dir__, __all__ = look_up(
    __name__,
    {
        "base": "RNNCell",
        "lstm": "BasicLSTMCell BasicRNNCell GRUCell LSTMCell LSTMStateTuple",
        "wrappers": "DeviceWrapper DropoutWrapper ResidualWrapper MultiRNNCell",
    },
)
