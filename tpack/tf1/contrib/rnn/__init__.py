"""``tf.contrib.rnn`` of TensorFlow 1: more cells, around those of `tpack.tf1.rnn_cell`, and ways to unroll them."""

from tpack.tf1.name_table import look_up

__getattr__, __dir__, __all__ = look_up(
    __name__,
    {
        "bidirectional": (
            "best_effort_input_batch_size stack_bidirectional_dynamic_rnn stack_bidirectional_rnn transpose_batch_time"
        ),
        "conv": "Conv1DLSTMCell Conv2DLSTMCell Conv3DLSTMCell ConvLSTMCell",
        "fused": (
            "FusedRNNCell FusedRNNCellAdaptor GRUBlockCell GRUBlockCellV2 LSTMBlockCell LSTMBlockFusedCell "
            "LSTMBlockWrapper TimeReversedFusedRNN"
        ),
        "gated": "IndRNNCell IndyGRUCell IndyLSTMCell IntersectionRNNCell PhasedLSTMCell SRUCell UGRNNCell",
        "lstm": "CoupledInputForgetGateLSTMCell GLSTMCell LayerNormBasicLSTMCell NASCell",
        "wrappers": "AttentionCellWrapper HighwayWrapper InputProjectionWrapper",
        "tpack.tf1.rnn_cell.base": "LayerRNNCell RNNCell",
        "tpack.tf1.rnn_cell.lstm": "BasicLSTMCell BasicRNNCell GRUCell LSTMCell LSTMStateTuple",
        "tpack.tf1.rnn_cell.wrappers": (
            "DeviceWrapper DropoutWrapper EmbeddingWrapper MultiRNNCell OutputProjectionWrapper ResidualWrapper"
        ),
        "tensorflow.compat.v1.nn": "static_bidirectional_rnn static_rnn static_state_saving_rnn",
    },
)
