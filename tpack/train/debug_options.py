"""Debug options that shorten a run: a smoke test, overfitting a few batches, or limits on all batches."""

import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tpack.callbacks.base import Callback
from tpack.callbacks.group import Callbacks
from tpack.callbacks.monitors.writers import ScalarPrinter
from tpack.errors import ConfigError
from tpack.train.config import TrainConfig
from tpack.utils import logger
from tpack.utils.lazy import LazyModule
from tpack.utils.validation import check_count, check_number

_OWNER = "launch_train_with_config"
_repeated = LazyModule("tpack.input_source.repeated")
_inference = LazyModule("tpack.callbacks.inference.runners")


@dataclass(frozen=True)
class DebugOptions:
    """Options that shorten a run for debugging; by default none apply.

    Args:
        fast_dev_run: a number of steps, after which everything else runs once; True means 1.
        overfit_batches: the number of steps whose data all others repeat.
        limit_batches: the most steps of an epoch and batches of an evaluation; a float is a fraction: 1.0 is all of
            them.

    Raises:
        WrongTypeError: A value is not a number.
        ConfigError: A number is too small or too large, or ``fast_dev_run`` is given with another.
    """

    fast_dev_run: bool | int = False
    overfit_batches: int | None = None
    limit_batches: float | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.fast_dev_run, (bool, np.bool_)):
            check_count(_OWNER, "fast_dev_run", self.fast_dev_run)
        if self.overfit_batches is not None:
            check_count(_OWNER, "overfit_batches", self.overfit_batches)
        limit = self.limit_batches
        if isinstance(limit, (float, np.floating)):
            check_number(_OWNER, "limit_batches", limit, 0, 1, is_low_allowed=False)
        elif limit is not None:
            check_count(_OWNER, "limit_batches", limit)
        if self.fast_dev_run and (self.overfit_batches is not None or limit is not None):
            raise ConfigError(
                f"{_OWNER} got fast_dev_run={self.fast_dev_run!r} and another limit: expected one of them, since "
                "fast_dev_run limits all batches"
            )

    def apply(self, config: TrainConfig, num_towers: int) -> None:
        """Apply the options to a config that is fitted to K towers, before its data are set up, and log them."""
        if self.overfit_batches is not None:
            self._overfit(config, self.overfit_batches, num_towers)
        if self.limit_batches is not None:
            self._limit(config, self.limit_batches)
        if self.fast_dev_run:
            self._try_everything(config, int(self.fast_dev_run))

    def _overfit(self, config: TrainConfig, num_steps: int, num_towers: int) -> None:
        config.repeat_batches(_repeated.RepeatedBatches(config.data, num_steps, num_towers), num_towers)
        logger.info(
            f"overfit_batches={num_steps}: all steps repeat the data of the first {num_steps}, an epoch has "
            f"{config.steps_per_epoch} steps, and evaluations stay whole."
        )

    def _limit(self, config: TrainConfig, limit: float) -> None:
        before = config.steps_per_epoch
        config.limit_steps(_inference.limited(before, limit))
        runners = [runner.limit_batches(limit) for runner in _runners(config)]
        evaluations = f", an evaluation at most {' or '.join(map(str, runners))} batches" if runners else ""
        logger.info(f"limit_batches={limit}: an epoch has {config.steps_per_epoch} of {before} steps{evaluations}.")

    def _try_everything(self, config: TrainConfig, num_steps: int) -> None:
        config.limit_steps(_inference.limited(config.steps_per_epoch, num_steps))
        config.starting_step, config.max_epoch = 0, config.starting_epoch
        for runner in _runners(config):
            runner.limit_batches(num_steps)
        given: list[Callback] = [*config.callbacks, *config.extra_callbacks, *config.monitors]
        printing = [monitor for monitor in config.monitors if isinstance(monitor, ScalarPrinter)]
        config.callbacks = [callback for callback in config.callbacks if not callback.saves_training]
        config.extra_callbacks = [callback for callback in config.extra_callbacks if not callback.saves_training]
        config.monitors = list(printing)
        left = [*config.callbacks, *config.extra_callbacks, *config.monitors]
        left_out = [callback for callback in given if not any(callback is other for other in left)]
        names = ", ".join(map(str, left_out))
        logger.info(
            f"fast_dev_run={self.fast_dev_run}: one epoch of {config.steps_per_epoch} step(s), evaluations of at most "
            f"{num_steps} batch(es), and nothing is saved{f': without {names}' if names else ''}."
        )


def one_epoch(config: TrainConfig, num_steps: int, callbacks: Sequence[Callback] = ()) -> TrainConfig:
    """Return a copy of a config for one epoch of a few steps, with other callbacks, that saves and reports nothing."""
    shorter = copy.copy(config)
    shorter.callbacks, shorter.extra_callbacks, shorter.monitors = list(callbacks), [], []
    shorter.check_cost, shorter.steps_per_call = False, 1
    shorter.max_epoch = shorter.starting_epoch
    shorter.limit_steps(num_steps)
    return shorter


def _runners(config: TrainConfig) -> Iterator[Any]:
    callbacks: list[Callback] = Callbacks([*config.callbacks, *config.extra_callbacks]).all_callbacks()
    return (callback for callback in callbacks if isinstance(callback, _inference.InferenceRunnerBase))
