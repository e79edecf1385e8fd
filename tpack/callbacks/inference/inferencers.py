"""What is computed over a pass through a validation set.

An inferencer says which tensors it wants of each batch, is given their values batch by batch, and makes statistics of
them in the end. It does not know how many towers there are: it is called once for each batch, in the order of the
data, so that the same data give the same statistics on one device and on eight.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tpack.callbacks.base import Callback
from tpack.errors import CallbackError
from tpack.tower.names import op_and_tensor_name


class Inferencer(Callback):
    """Accumulate over batches.

    A subclass overrides these four methods, which an inference runner calls::

        inferencer._before_inference()
        for batch in data:
            inferencer._on_fetches(values of the tensors that inferencer._get_fetches() names)
        statistics = inferencer._after_inference()         # {name: number}, goes to the monitors

    It is a callback as well: its `_setup_graph`, `_before_train` and `_after_train` are called with those of the
    runner.
    """

    def get_fetches(self) -> list[str]:
        """Return the names of the tensors it wants, with the output index."""
        return [op_and_tensor_name(name)[1] for name in self._get_fetches()]

    def on_fetches(self, results: Sequence[Any]) -> None:
        """Receive the values for one batch, in the order of `get_fetches`."""
        self._on_fetches(results)

    def before_inference(self) -> None:
        """Begin a pass over the data."""
        self._before_inference()

    def after_inference(self) -> None:
        """Finish the pass and give the statistics to the monitors.

        Raises:
            CallbackError: `_after_inference` returned something else than numbers by name.
        """
        statistics = self._after_inference()
        if statistics is None:
            return
        if not isinstance(statistics, Mapping):
            raise CallbackError(f"{self}._after_inference returns a dict of numbers or None, got {statistics!r}")
        for name, value in statistics.items():
            self.trainer.monitors.put_scalar(name, value)

    def _before_inference(self) -> None:
        """Forget the last pass."""

    def _get_fetches(self) -> Sequence[str]:
        """Return the names of tensors, as the tower function knows them."""
        raise NotImplementedError(f"{type(self).__name__} must override _get_fetches")

    def _on_fetches(self, results: Sequence[Any]) -> None:
        """Take in the values of one batch."""
        raise NotImplementedError(f"{type(self).__name__} must override _on_fetches")

    def _after_inference(self) -> Mapping[str, Any] | None:
        """Return the statistics of the pass."""
        return None
