"""Trainings of a few steps that only find something out: nothing else of a config happens in them."""

import copy
from collections.abc import Sequence

from tpack.callbacks.base import Callback
from tpack.train.config import TrainConfig


def only_with(config: TrainConfig, callbacks: Sequence[Callback], num_steps: int) -> TrainConfig:
    """Return a config of one epoch with other callbacks, which saves and reports nothing.

    Args:
        config: the model and data.
        callbacks: the only ones.
        num_steps: the steps of the epoch.
    """
    shorter = copy.copy(config)
    shorter.callbacks, shorter.extra_callbacks, shorter.monitors = list(callbacks), [], []
    shorter.check_cost, shorter.steps_per_call = False, 1
    shorter.max_epoch = shorter.starting_epoch
    shorter.limit_steps(num_steps)
    return shorter
