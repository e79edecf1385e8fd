"""``tf.contrib.legacy_seq2seq`` of TensorFlow 1: sequence to sequence over lists, a matrix for each time step."""

from tpack.tf1.name_table import look_up

__getattr__, __dir__, __all__ = look_up(
    __name__,
    {
        "models": (
            "attention_decoder basic_rnn_seq2seq embedding_attention_decoder embedding_attention_seq2seq "
            "embedding_rnn_decoder embedding_rnn_seq2seq embedding_tied_rnn_seq2seq model_with_buckets "
            "one2many_rnn_seq2seq rnn_decoder sequence_loss sequence_loss_by_example tied_rnn_seq2seq"
        )
    },
)
