"""``tf.contrib.seq2seq``: decoders, what feeds them, attention, and search with beams."""

from typing import Any

from tpack.tf1.contrib.seq2seq.attention import AttentionMechanism, BahdanauAttention, LuongAttention, hardmax
from tpack.tf1.contrib.seq2seq.attention_wrapper import AttentionWrapper, AttentionWrapperState
from tpack.tf1.contrib.seq2seq.basic_decoder import BasicDecoder, BasicDecoderOutput
from tpack.tf1.contrib.seq2seq.beam_search_decoder import (
    BeamSearchDecoder,
    BeamSearchDecoderOutput,
    BeamSearchDecoderState,
    FinalBeamSearchDecoderOutput,
)
from tpack.tf1.contrib.seq2seq.beam_search_ops import gather_tree, tile_batch
from tpack.tf1.contrib.seq2seq.decoder import Decoder, dynamic_decode
from tpack.tf1.contrib.seq2seq.helper import (
    CustomHelper,
    GreedyEmbeddingHelper,
    Helper,
    InferenceHelper,
    SampleEmbeddingHelper,
    TrainingHelper,
)
from tpack.tf1.contrib.seq2seq.loss import sequence_loss
from tpack.tf1.contrib.seq2seq.monotonic_attention import (
    BahdanauMonotonicAttention,
    LuongMonotonicAttention,
    monotonic_attention,
    safe_cumprod,
)
from tpack.tf1.contrib.seq2seq.scheduled_helper import (
    ScheduledEmbeddingTrainingHelper,
    ScheduledOutputTrainingHelper,
)
from tpack.tf1.removed_names import missing_name

__all__ = [
    "AttentionMechanism",
    "AttentionWrapper",
    "AttentionWrapperState",
    "BahdanauAttention",
    "BahdanauMonotonicAttention",
    "BasicDecoder",
    "BasicDecoderOutput",
    "BeamSearchDecoder",
    "BeamSearchDecoderOutput",
    "BeamSearchDecoderState",
    "CustomHelper",
    "Decoder",
    "FinalBeamSearchDecoderOutput",
    "GreedyEmbeddingHelper",
    "Helper",
    "InferenceHelper",
    "LuongAttention",
    "LuongMonotonicAttention",
    "SampleEmbeddingHelper",
    "ScheduledEmbeddingTrainingHelper",
    "ScheduledOutputTrainingHelper",
    "TrainingHelper",
    "dynamic_decode",
    "gather_tree",
    "hardmax",
    "monotonic_attention",
    "safe_cumprod",
    "sequence_loss",
    "tile_batch",
]


def __getattr__(name: str) -> Any:
    raise missing_name(__name__, name, __all__)
