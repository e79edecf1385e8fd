"""``tf.contrib.seq2seq``: decoders, their helpers, attention, and beam search."""

from tpack.tf1.name_table import look_up

__getattr__, __dir__, __all__ = look_up(
    __name__,
    {
        "attention": "AttentionMechanism BahdanauAttention LuongAttention hardmax BahdanauMonotonicAttention "
        "LuongMonotonicAttention monotonic_attention safe_cumprod",
        "attention_wrapper": "AttentionWrapper AttentionWrapperState",
        "beam_search_decoder": "BeamSearchDecoder BeamSearchDecoderOutput BeamSearchDecoderState "
        "FinalBeamSearchDecoderOutput gather_tree tile_batch",
        "decoder": "BasicDecoder BasicDecoderOutput Decoder dynamic_decode sequence_loss",
        "helper": "CustomHelper GreedyEmbeddingHelper Helper InferenceHelper SampleEmbeddingHelper TrainingHelper",
        "scheduled_helper": "ScheduledEmbeddingTrainingHelper ScheduledOutputTrainingHelper",
    },
)
