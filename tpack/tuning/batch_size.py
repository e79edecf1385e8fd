"""How many examples a step may have: short trainings with ever larger batches, until one finds no memory."""

import gc
import math
from collections.abc import Callable
from dataclasses import dataclass

import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError, WrongTypeError
from tpack.train.config import TrainConfig
from tpack.train.interface import launch_train_with_config
from tpack.train.single_cost import SingleCostTrainer
from tpack.tuning.short_training import only_with
from tpack.utils import logger
from tpack.utils.validation import check_arguments, check_count, check_number, shown

_OWNER = "find_batch_size"
# What libraries below TensorFlow say where it raises another error than ResourceExhaustedError.
_NO_MEMORY = ("out of memory", "OUT_OF_MEMORY", "Failed to allocate", "failed to allocate", "ALLOC_FAILED")


@dataclass(frozen=True)
class LargestBatch:
    """Which batches fit into memory.

    Attributes:
        batch_size: the largest that did.
        too_large: the smallest that did not; None where all did.
        tried: all that were tried, in that order: "" for one that fits, or else what came of it.
    """

    batch_size: int
    too_large: int | None
    tried: dict[int, str]


@check_arguments
def find_batch_size(
    make: Callable[[int], tuple[TrainConfig, SingleCostTrainer]],
    *,
    smallest: int = 1,
    largest: int = 65536,
    num_steps: int = 3,
    precision: float = 0.05,
) -> LargestBatch:
    """Train for a few steps with batches that double until one does not fit into memory, then look in between.

    Each training has a graph and a session of its own. No callback of the configs runs, and nothing is saved. What
    later takes memory beside the steps, such as an evaluation with batches of its own, is not tried: leave some room.

    Args:
        make: returns for a batch size a new config and a new trainer, on the devices that are to be trained on. It is
            called inside of the graph.
        smallest: the first to be tried; all others are multiples of it, such as of the number of towers.
        largest: no larger one is tried. It is at most what the data have.
        num_steps: the steps of each training; memory is taken in the first two.
        precision: how much larger than what fits, as a part of it, may be what does not.

    Raises:
        WrongTypeError: ``make`` returns something else.
        ConfigError: A number is too small, or not even ``smallest`` fits.
        Exception: What else a training fails with; only a lack of memory is a result.

    Example:
        def make(batch_size):
            return TrainConfig(model=Model(), dataflow=(x, y), batch_size=batch_size), SyncMultiGPUTrainerReplicated(8)

        print(find_batch_size(make, smallest=8).batch_size)
    """
    check_count(_OWNER, "smallest", smallest)
    check_count(_OWNER, "largest", largest, smallest)
    check_count(_OWNER, "num_steps", num_steps)
    check_number(_OWNER, "precision", precision, 0)
    search = _Search(make, num_steps)
    # In units of the smallest: what fits, and what does not or is not to be tried.
    fits, fails, has_failed = 0, largest // smallest + 1, False
    while fails - fits > max(1, math.floor(fits * precision)):
        size = (fits + fails) // 2 if has_failed else min(max(1, 2 * fits), fails - 1)
        if search.has_room_for(size * smallest):
            fits = size
        else:
            fails, has_failed = size, True
    if not fits:
        raise ConfigError(f"{_OWNER} got smallest={smallest}, which does not fit: {search.tried[smallest]}")
    return search.result()


class _Search:
    """Tries batches and remembers what came of them."""

    def __init__(self, make: Callable[[int], tuple[TrainConfig, SingleCostTrainer]], num_steps: int) -> None:
        self._make = make
        self._num_steps = num_steps
        self.tried: dict[int, str] = {}

    def has_room_for(self, batch_size: int) -> bool:
        """Train with batches of a size; return whether they fit."""
        self.tried[batch_size] = why = self._train(batch_size)
        # The graph and its session are parts of cycles.
        gc.collect()
        logger.info(f"batch_size={batch_size} {f'is too large: {why}' if why else 'fits'}.")
        return not why

    def _train(self, batch_size: int) -> str:
        try:
            with tf.Graph().as_default():
                made = self._make(batch_size)
                launch_train_with_config(*_checked(made, self._num_steps))
        except Exception as error:
            reason = _lack_of_memory(error)
            if reason is None:
                raise
            return reason
        return ""

    def result(self) -> LargestBatch:
        """Return what was found, and say it."""
        largest = max(size for size, why in self.tried.items() if not why)
        too_large = min((size for size, why in self.tried.items() if why), default=None)
        end = "nothing larger was to be tried" if too_large is None else f"{too_large} does not"
        tried = ", ".join(f"{size}{' (too large)' if why else ''}" for size, why in self.tried.items())
        logger.info(f"Batches of up to {largest} fit, {end}; tried were {tried}.")
        return LargestBatch(largest, too_large, self.tried)


def _checked(made: object, num_steps: int) -> tuple[TrainConfig, SingleCostTrainer]:
    """Return what is trained in place of what ``make`` returned."""
    if isinstance(made, tuple) and len(made) == 2:
        config, trainer = made
        if isinstance(config, TrainConfig) and isinstance(trainer, SingleCostTrainer):
            return only_with(config, [], num_steps), trainer
    raise WrongTypeError(f"{_OWNER} got {shown(made)} from make: expected a TrainConfig and a trainer")


def _lack_of_memory(error: BaseException | None) -> str | None:
    """Return in a line what says that memory was lacking, in an error or its causes; None if nothing does."""
    while error is not None:
        text = str(error)
        is_known = isinstance(error, (tf.errors.ResourceExhaustedError, MemoryError))
        if is_known or (isinstance(error, tf.errors.OpError) and any(words in text for words in _NO_MEMORY)):
            # Several towers that fail are counted first.
            lines = [line.strip() for line in text.splitlines() if "root error(s) found" not in line]
            return next(filter(None, lines), type(error).__name__)
        error = error.__cause__ or error.__context__
    return None
