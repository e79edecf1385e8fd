"""``tf.contrib.legacy_seq2seq`` of TensorFlow 1: sequence to sequence over lists, a matrix for each time step."""

from typing import Any

from tpack.tf1.contrib.legacy_seq2seq.decoders import (
    attention_decoder,
    embedding_attention_decoder,
    embedding_rnn_decoder,
    rnn_decoder,
)
from tpack.tf1.contrib.legacy_seq2seq.losses import model_with_buckets, sequence_loss, sequence_loss_by_example
from tpack.tf1.contrib.legacy_seq2seq.models import (
    basic_rnn_seq2seq,
    embedding_attention_seq2seq,
    embedding_rnn_seq2seq,
    embedding_tied_rnn_seq2seq,
    one2many_rnn_seq2seq,
    tied_rnn_seq2seq,
)
from tpack.tf1.removed_names import missing_name

__all__ = [
    "attention_decoder",
    "basic_rnn_seq2seq",
    "embedding_attention_decoder",
    "embedding_attention_seq2seq",
    "embedding_rnn_decoder",
    "embedding_rnn_seq2seq",
    "embedding_tied_rnn_seq2seq",
    "model_with_buckets",
    "one2many_rnn_seq2seq",
    "rnn_decoder",
    "sequence_loss",
    "sequence_loss_by_example",
    "tied_rnn_seq2seq",
]


def __getattr__(name: str) -> Any:
    raise missing_name(__name__, name, __all__)
