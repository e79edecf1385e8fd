"""Speed of a training, and searches before one: the largest batch, and the range of learning rates."""

from tpack.utils.lazy import attach

__getattr__, __dir__, __all__ = attach(
    __name__,
    {
        "batch_size": ("LargestBatch", "find_batch_size"),
        "flops": ("ModelFlops",),
        "learning_rate": ("LearningRateRange", "find_learning_rate"),
    },
)
