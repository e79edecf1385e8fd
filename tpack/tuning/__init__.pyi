"""Made by ``python -m tests.helpers.stubs``: where each name of this package is, for type checkers."""

from tpack.tuning.batch_size import LargestBatch as LargestBatch
from tpack.tuning.batch_size import find_batch_size as find_batch_size
from tpack.tuning.flops import ModelFlops as ModelFlops
from tpack.tuning.learning_rate import LearningRateRange as LearningRateRange
from tpack.tuning.learning_rate import find_learning_rate as find_learning_rate
