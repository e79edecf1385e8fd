"""``tf.contrib.seq2seq``: decoders, their helpers, attention, and beam search."""

from tpack.tf1.name_table import look_up

__getattr__, __dir__, __all__ = look_up(
    __name__,
    {
        "attention": "AttentionMechanism BahdanauAttention LuongAttention hardmax BahdanauMonotonicAttention "
        "AttentionWrapperState LuongMonotonicAttention monotonic_attention safe_cumprod",
        "attention_wrapper": "AttentionWrapper",
        "beam_search_decoder": "BeamSearchDecoder BeamSearchDecoderOutput BeamSearchDecoderState "
        "FinalBeamSearchDecoderOutput gather_tree tile_batch",
        "decoder": "Decoder dynamic_decode sequence_loss",
        "helper": (
            "BasicDecoder BasicDecoderOutput CustomHelper GreedyEmbeddingHelper Helper InferenceHelper "
            "SampleEmbeddingHelper TrainingHelper"
        ),
        "scheduled_helper": "ScheduledEmbeddingTrainingHelper ScheduledOutputTrainingHelper",
    },
)
