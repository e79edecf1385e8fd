"""The largest batch that fits into memory, found by short trainings with growing batches."""

import gc
import math
from collections.abc import Callable
from dataclasses import dataclass

import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError, WrongTypeError
from tpack.train.config import TrainConfig
from tpack.train.debug_options import one_epoch
from tpack.train.interface import launch_train_with_config
from tpack.train.single_cost import SingleCostTrainer
from tpack.utils import logger
from tpack.utils.validation import check_arguments, check_count, check_number, shown

_OWNER = "find_batch_size"
# Texts of libraries below TensorFlow, where it raises another error than ResourceExhaustedError.
_NO_MEMORY = ("out of memory", "OUT_OF_MEMORY", "Failed to allocate", "failed to allocate", "ALLOC_FAILED")


@dataclass(frozen=True)
class LargestBatch:
    """The batches that fit into memory.

    Attributes:
        batch_size: the largest that fits.
        too_large: the smallest that does not; None where all fit.
        tried: all tried sizes in order, each with "" or the reason why it does not fit.
        accumulate: the steps of this size that together have ``total`` examples; 1 without ``total``.
    """

    batch_size: int
    too_large: int | None
    tried: dict[int, str]
    accumulate: int = 1


@check_arguments
def find_batch_size(
    make: Callable[..., tuple[TrainConfig, SingleCostTrainer]],
    *,
    smallest: int = 1,
    largest: int = 65536,
    num_steps: int = 3,
    precision: float = 0.05,
    total: int | None = None,
) -> LargestBatch:
    """Train for a few steps with doubling batches until one does not fit into memory, then search in between.

    Each training has its own graph and session. No callback of the configs runs, and nothing is saved. Later uses of
    memory, such as an evaluation with its own batches, are not tried: leave some room.

    Args:
        make: returns a new config and a new trainer for a batch size, on the devices of the real training. It is called
            inside of the graph.
        smallest: the first size; all others are multiples of it, such as of the number of towers.
        largest: the limit, at most the size of the data.
        num_steps: the steps of each training; memory is taken in the first two.
        precision: the accepted gap between a size that fits and one that does not, as a share of the size.
        total: the examples of a step that is applied, where gradients of several micro-batches are accumulated. Sizes
            divide it, and ``make`` also gets the number of micro-batches: ``make(batch_size, accumulate)``.

    Raises:
        WrongTypeError: ``make`` returns something else.
        ConfigError: A number is too small, not even ``smallest`` fits, or ``total`` is no multiple of it.
        Exception: Any other failure of a training than a lack of memory.

    Example:
        def make(batch_size):
            return TrainConfig(model=Model(), dataflow=(x, y), batch_size=batch_size), SyncMultiGPUTrainerReplicated(8)

        print(find_batch_size(make, smallest=8).batch_size)

        def make(batch_size, accumulate):
            config = TrainConfig(model=Model(), dataflow=(x, y), batch_size=batch_size)
            return config, SyncMultiGPUTrainerReplicated(8, accumulate=accumulate)

        print(find_batch_size(make, smallest=8, total=4096))
    """
    check_count(_OWNER, "smallest", smallest)
    check_count(_OWNER, "largest", largest, smallest)
    check_count(_OWNER, "num_steps", num_steps)
    check_number(_OWNER, "precision", precision, 0)
    if total is not None and check_count(_OWNER, "total", total) % smallest:
        raise ConfigError(f"{_OWNER} got total={total}: expected a multiple of smallest={smallest}")
    search = _Search(make, num_steps, total)
    sizes = range(smallest, largest + 1, smallest)
    if total is not None:
        sizes = [size for size in sizes if total % size == 0]  # type: ignore[assignment]
        precision = 0.0
    # Places in the sizes, counted from 1: of one that fits, and of one that does not or exceeds the limit.
    fits, fails, has_failed = 0, len(sizes) + 1, False
    while fails - fits > max(1, math.floor(fits * precision)):
        place = (fits + fails) // 2 if has_failed else min(max(1, 2 * fits), fails - 1)
        if search.has_room_for(sizes[place - 1]):
            fits = place
        else:
            fails, has_failed = place, True
    if not fits:
        raise ConfigError(f"{_OWNER} got smallest={smallest}, which does not fit: {search.tried[smallest]}")
    return search.result()


class _Search:
    """The trained batch sizes and their results."""

    def __init__(
        self, make: Callable[..., tuple[TrainConfig, SingleCostTrainer]], num_steps: int, total: int | None
    ) -> None:
        self._make = make
        self._total = total
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
                accumulate = () if self._total is None else (self._total // batch_size,)
                config, trainer = _checked(self._make(batch_size, *accumulate))
                launch_train_with_config(one_epoch(config, self._num_steps), trainer)
        except Exception as error:
            reason = _lack_of_memory(error)
            if reason is None:
                raise
            return reason
        return ""

    def result(self) -> LargestBatch:
        """Return the result, and log it."""
        largest = max(size for size, why in self.tried.items() if not why)
        too_large = min((size for size, why in self.tried.items() if why), default=None)
        end = "nothing larger was tried" if too_large is None else f"{too_large} does not"
        tried = ", ".join(f"{size}{' (too large)' if why else ''}" for size, why in self.tried.items())
        logger.info(f"Batches of up to {largest} fit, {end}; tried were {tried}.")
        accumulate = 1 if self._total is None else self._total // largest
        if self._total is not None:
            logger.info(f"{accumulate} micro-batches of {largest} are {self._total} examples.")
        return LargestBatch(largest, too_large, self.tried, accumulate)


def _checked(made: object) -> tuple[TrainConfig, SingleCostTrainer]:
    if isinstance(made, tuple) and len(made) == 2:
        config, trainer = made
        if isinstance(config, TrainConfig) and isinstance(trainer, SingleCostTrainer):
            return config, trainer
    raise WrongTypeError(f"{_OWNER} got {shown(made)} from make: expected a TrainConfig and a trainer")


def _lack_of_memory(error: BaseException | None) -> str | None:
    """Return the line about a lack of memory in an error or its causes; None without one."""
    while error is not None:
        text = str(error)
        is_known = isinstance(error, (tf.errors.ResourceExhaustedError, MemoryError))
        if is_known or (isinstance(error, tf.errors.OpError) and any(words in text for words in _NO_MEMORY)):
            # With several failing towers the first line counts them.
            lines = [line.strip() for line in text.splitlines() if "root error(s) found" not in line]
            return next(filter(None, lines), type(error).__name__)
        error = error.__cause__ or error.__context__
    return None
