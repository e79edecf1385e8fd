"""Look at the values of tensors after every step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.callbacks.base import Callback
from tpack.errors import CallbackError


class ProcessTensors(Callback):
    """Fetch tensors together with every step and give their values to a function.

    Wrap it in `PeriodicCallback` or `EnableCallbackIf` to look at some of the steps only.

    Args:
        names: names of tensors, in the graph or in the first training tower.
        fn: called with one positional argument for each name.

    Raises:
        CallbackError: ``names`` is one string, or ``fn`` is no function.
    """

    def __init__(self, names: Sequence[str], fn: Callable[..., Any]) -> None:
        if isinstance(names, str):
            raise CallbackError(f"{type(self).__name__} wants a list of names, got the string {names!r}")
        if not callable(fn):
            raise CallbackError(f"{type(self).__name__} wants a function of the tensors' values, got {fn!r}")
        self._names = list(names)
        self._fn = fn
        self._fetches: Any = None

    def _setup_graph(self) -> None:
        self._fetches = tf.train.SessionRunArgs(tuple(self.get_tensors_maybe_in_tower(self._names)))

    def _before_run(self, ctx: Any) -> Any:
        return self._fetches

    def _after_run(self, ctx: Any, values: Any) -> None:
        if values.results is not None:
            self._fn(*values.results)
