"""A callback that acts on averaged weights.

The averages take the weights' place while it is triggered and at no other time, so no other callback can mistake one
for the other.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Protocol

from tpack.callbacks.base import Callback
from tpack.callbacks.proxy import ProxyCallback


class WeightAverages(Protocol):
    """Whoever keeps averages of weights."""

    def require_setup(self) -> None:
        """Raise an error if there are no averages, since nobody set this up."""

    def averages_in_use(self) -> AbstractContextManager[None]:
        """Put the averages in the place of the weights for a block."""


class OnAverages(ProxyCallback):
    """Trigger a callback on averaged weights, whether before training, after a step or after an epoch.

    What it does around each step, and after training, it does on the weights themselves.

    Args:
        averages: who keeps the averages, for example an `EMA`.
        cb: the callback, for example an `InferenceRunner`, or a `MinSaver` to save averages under the names of weights.
    """

    def __init__(self, averages: WeightAverages, cb: Callback) -> None:
        super().__init__(cb)
        self._averages = averages

    def _setup_graph(self) -> None:
        self._averages.require_setup()
        super()._setup_graph()

    def _before_train(self) -> None:
        with self._averages.averages_in_use():
            self.cb.before_train()

    def _trigger_step(self) -> None:
        with self._averages.averages_in_use():
            self.cb.trigger_step()

    def _trigger_epoch(self) -> None:
        with self._averages.averages_in_use():
            self.cb.trigger_epoch()

    def _trigger(self) -> None:
        with self._averages.averages_in_use():
            self.cb.trigger()

    def implements(self, hook: str) -> bool:
        """Tell whether the callback does anything in ``hook``: weights are not exchanged for nothing."""
        return self.cb.implements(hook)
