"""The range of usable learning rates, found by a short training in which the rate grows with each step."""

import os
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

from tpack.callbacks.base import Callback
from tpack.callbacks.hyper_param import GraphVarParam
from tpack.errors import ConfigError, StopTraining
from tpack.train.config import TrainConfig
from tpack.train.debug_options import one_epoch
from tpack.train.interface import launch_train_with_config
from tpack.train.single_cost import SingleCostTrainer
from tpack.utils import logger
from tpack.utils.fs import atomic_path
from tpack.utils.lazy import import_optional
from tpack.utils.validation import check_arguments, check_count, check_number

_SMOOTHING = 0.9
_DIVERGED = 4.0
_FEWEST_STEPS = 10
_LEAST_FALL = 1e-6


@dataclass(frozen=True)
class LearningRateRange:
    """The cost during a training with growing learning rate.

    Attributes:
        rates: the learning rates, one for each step.
        costs: the cost of each step before its update, as an exponential moving average.
        suggestion: the rate at which the cost fell fastest, over the logarithm of the rate; None if it never fell.

    Shapes:
        rates, costs: [number of completed steps].
    """

    rates: np.ndarray
    costs: np.ndarray
    suggestion: float | None

    def plot(self, path: str | os.PathLike[str]) -> None:
        """Draw the cost over the learning rate, with the suggestion, into a picture whose suffix is its format.

        Raises:
            DependencyError: matplotlib is missing.
        """
        figure = import_optional("matplotlib.figure", "plot").Figure(figsize=(6, 4), layout="constrained")
        axes = figure.add_subplot()
        axes.plot(self.rates, self.costs)
        axes.set(xscale="log", xlabel="learning rate", ylabel="cost, smoothed")
        if self.suggestion is not None:
            axes.axvline(self.suggestion, linestyle="--", color="gray")
            axes.set_title(f"falls fastest at {self.suggestion:.2g}", loc="left")
        with atomic_path(os.fspath(path)) as written:
            figure.savefig(written, format=os.path.splitext(path)[1].lstrip(".") or "png")


@check_arguments
def find_learning_rate(
    config: TrainConfig,
    trainer: SingleCostTrainer,
    *,
    name: str = "learning_rate",
    smallest: float = 1e-6,
    largest: float = 10.0,
    num_steps: int = 100,
) -> LearningRateRange:
    """Train with a learning rate that grows by the same factor in each step, until the cost has grown fourfold.

    No callback of the config runs, nothing is saved, and the weights are discarded: train with a new config and a new
    trainer, in another graph.

    Args:
        config: the training; its data and model cannot be used again.
        trainer: a trainer that has not trained.
        name: the variable of the optimizer's rate.
        smallest: the rate of the first step.
        largest: the rate of the last step.
        num_steps: the most steps, at least 10.

    Returns:
        The rates, the costs and a suggestion, which is logged too. A rate a few times smaller is on the safe side.

    Raises:
        WrongTypeError: An argument has another type.
        ConfigError: A number is too small, or ``largest`` is not larger than ``smallest``.
        CallbackError: The model has no such variable.

    Example:
        with tf.Graph().as_default():
            find_learning_rate(config, SyncMultiGPUTrainerReplicated(2)).plot("rates.png")

    Source:
        Smith, Cyclical learning rates for training neural networks (arXiv 1506.01186), section 3.3.
    """
    check_number("find_learning_rate", "smallest", smallest, 0, is_low_allowed=False)
    check_count("find_learning_rate", "num_steps", num_steps, _FEWEST_STEPS)
    if not smallest < largest < np.inf:
        raise ConfigError(f"find_learning_rate got smallest={smallest}, largest={largest}: expected a larger largest")
    growth = _GrowingRate(name, np.geomspace(smallest, largest, num_steps))
    launch_train_with_config(one_epoch(config, num_steps, [growth]), trainer)
    found = LearningRateRange(growth.rates[: len(growth.costs)], np.array(growth.costs), growth.suggestion())
    logger.info(
        f"Learning rates from {smallest:.2g} to {found.rates[-1]:.2g}: the cost "
        + ("never fell." if found.suggestion is None else f"fell fastest at {found.suggestion:.2g}.")
    )
    return found


class _GrowingRate(Callback):
    """Sets the rate of each step and keeps the costs."""

    def __init__(self, name: str, rates: np.ndarray) -> None:
        self.rates = rates
        self.costs: list[float] = []
        self._param = GraphVarParam(name)
        self._sum = self._weight = 0.0

    def _setup_graph(self) -> None:
        self._param.setup(self.trainer)
        self._param.setup_graph()
        self._cost = next(iter(self.trainer.statistics.values()))

    def _before_epoch(self) -> None:
        self._param.set_value(self.rates[0])

    def _before_run(self, _: Any) -> tf.train.SessionRunArgs:
        return tf.train.SessionRunArgs(self._cost)

    def _after_run(self, _: Any, values: Any) -> None:
        self._sum = _SMOOTHING * self._sum + (1 - _SMOOTHING) * float(values.results)
        self._weight = _SMOOTHING * self._weight + 1 - _SMOOTHING
        self.costs.append(self._sum / self._weight)

    def _trigger_step(self) -> None:
        cost, step = self.costs[-1], len(self.costs)
        if not np.isfinite(cost):
            self.costs.pop()
            raise StopTraining(f"the cost is {cost} at a learning rate of {self.rates[step - 1]:.2g}")
        if step > _FEWEST_STEPS and cost - min(self.costs) > (_DIVERGED - 1) * abs(min(self.costs)):
            raise StopTraining(f"the cost has grown fourfold at a learning rate of {self.rates[step - 1]:.2g}")
        if step < len(self.rates):
            self._param.set_value(self.rates[step])

    def suggestion(self) -> float | None:
        """Return the rate at which the cost fell fastest."""
        if len(self.costs) < 2:
            return None
        slopes = np.gradient(np.array(self.costs))
        steepest = int(slopes.argmin())
        # Less than this is rounding.
        falls = slopes[steepest] < -_LEAST_FALL * np.abs(self.costs).max()
        return float(self.rates[steepest]) if falls else None
