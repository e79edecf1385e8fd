"""``tf.contrib.rnn`` of TensorFlow 1: more cells, around those of `tpack.tf1.rnn_cell`, and ways to unroll them."""

from typing import Any

from tensorflow.compat.v1.nn import static_bidirectional_rnn, static_rnn, static_state_saving_rnn

from tpack.tf1.contrib.rnn.bidirectional import (
    best_effort_input_batch_size,
    stack_bidirectional_dynamic_rnn,
    stack_bidirectional_rnn,
    transpose_batch_time,
)
from tpack.tf1.contrib.rnn.block import GRUBlockCell, GRUBlockCellV2, LSTMBlockCell
from tpack.tf1.contrib.rnn.conv import Conv1DLSTMCell, Conv2DLSTMCell, Conv3DLSTMCell, ConvLSTMCell
from tpack.tf1.contrib.rnn.fused import (
    FusedRNNCell,
    FusedRNNCellAdaptor,
    LSTMBlockFusedCell,
    LSTMBlockWrapper,
    TimeReversedFusedRNN,
)
from tpack.tf1.contrib.rnn.gated import (
    IndRNNCell,
    IndyGRUCell,
    IndyLSTMCell,
    IntersectionRNNCell,
    SRUCell,
    UGRNNCell,
)
from tpack.tf1.contrib.rnn.lstm import CoupledInputForgetGateLSTMCell, GLSTMCell, LayerNormBasicLSTMCell, NASCell
from tpack.tf1.contrib.rnn.phased import PhasedLSTMCell
from tpack.tf1.contrib.rnn.wrappers import (
    AttentionCellWrapper,
    EmbeddingWrapper,
    HighwayWrapper,
    InputProjectionWrapper,
    OutputProjectionWrapper,
)
from tpack.tf1.removed_names import missing_name
from tpack.tf1.rnn_cell.base import LayerRNNCell, RNNCell
from tpack.tf1.rnn_cell.lstm import BasicLSTMCell, LSTMCell, LSTMStateTuple
from tpack.tf1.rnn_cell.multi import MultiRNNCell
from tpack.tf1.rnn_cell.plain import BasicRNNCell, GRUCell
from tpack.tf1.rnn_cell.wrappers import DeviceWrapper, DropoutWrapper, ResidualWrapper

__all__ = [
    "AttentionCellWrapper",
    "BasicLSTMCell",
    "BasicRNNCell",
    "Conv1DLSTMCell",
    "Conv2DLSTMCell",
    "Conv3DLSTMCell",
    "ConvLSTMCell",
    "CoupledInputForgetGateLSTMCell",
    "DeviceWrapper",
    "DropoutWrapper",
    "EmbeddingWrapper",
    "FusedRNNCell",
    "FusedRNNCellAdaptor",
    "GLSTMCell",
    "GRUBlockCell",
    "GRUBlockCellV2",
    "GRUCell",
    "HighwayWrapper",
    "IndRNNCell",
    "IndyGRUCell",
    "IndyLSTMCell",
    "InputProjectionWrapper",
    "IntersectionRNNCell",
    "LSTMBlockCell",
    "LSTMBlockFusedCell",
    "LSTMBlockWrapper",
    "LSTMCell",
    "LSTMStateTuple",
    "LayerNormBasicLSTMCell",
    "LayerRNNCell",
    "MultiRNNCell",
    "NASCell",
    "OutputProjectionWrapper",
    "PhasedLSTMCell",
    "RNNCell",
    "ResidualWrapper",
    "SRUCell",
    "TimeReversedFusedRNN",
    "UGRNNCell",
    "best_effort_input_batch_size",
    "stack_bidirectional_dynamic_rnn",
    "stack_bidirectional_rnn",
    "static_bidirectional_rnn",
    "static_rnn",
    "static_state_saving_rnn",
    "transpose_batch_time",
]


def __getattr__(name: str) -> Any:
    raise missing_name(__name__, name, __all__)
