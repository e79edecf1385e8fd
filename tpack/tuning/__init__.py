"""What is found out before a training: how large its batches and its learning rate may be."""

from tpack.tuning.batch_size import LargestBatch, find_batch_size
from tpack.tuning.learning_rate import LearningRateRange, find_learning_rate
from tpack.utils.lazy import submodules_of

__getattr__ = submodules_of(__name__)

__all__ = ["LargestBatch", "LearningRateRange", "find_batch_size", "find_learning_rate"]
