"""The base of all callbacks that change a hyper-parameter while training runs."""

from __future__ import annotations

from typing import Any

import numpy as np

from tpack.callbacks.base import Callback
from tpack.callbacks.graph_var_param import GraphVarParam
from tpack.callbacks.hyper_param import HyperParam
from tpack.errors import CallbackError
from tpack.utils import logger


class HyperParamSetter(Callback):
    """Ask a subclass for a value before training and whenever triggered, and set it.

    A value that differs from the last one is logged, at most once an epoch. Where the hyper-parameter is a number, what
    an epoch ended with is reported after it, under the hyper-parameter's name.

    Args:
        param: a `HyperParam`, or the name of a variable in the graph.
        enable: set to False to leave the hyper-parameter alone, and still report it.

    Raises:
        CallbackError: ``param`` is something else.
    """

    _chief_only = False

    def __init__(self, param: HyperParam | str, *, enable: bool = True) -> None:
        if isinstance(param, str):
            param = GraphVarParam(param)
        if not isinstance(param, HyperParam):
            raise CallbackError(f"{type(self).__name__} wants a HyperParam or the name of a variable, got {param!r}")
        self.param = param
        self._enabled = enable
        self._last_value: Any = None
        self._epoch_of_last_line: int | None = None

    def get_value_to_set(self) -> Any:
        """Return the value to set now, after logging it if it is a new one; None to leave it as it is."""
        value = self._get_value_to_set()
        if value is not None and not np.array_equal(value, self._last_value):
            if self._epoch_of_last_line != self.epoch_num:
                self._log(value)
            self._last_value = value
        return value

    def _log(self, value: Any) -> None:
        before = "" if self._last_value is None else f" from {_brief(self._last_value)}"
        logger.info(f"{self.param.readable_name} is set{before} to {_brief(value)} after step {self.global_step}.")
        self._epoch_of_last_line = self.epoch_num

    def get_current_value(self) -> Any:
        """Return what the hyper-parameter is now."""
        return self.param.get_value()

    def _get_value_to_set(self) -> Any:
        """Return the value to set now, or None to leave it as it is."""
        raise NotImplementedError(f"{type(self).__name__} must override _get_value_to_set")

    def _setup_graph(self) -> None:
        self.param.setup(self.trainer)

    def _before_train(self) -> None:
        self._set_param()

    def _after_epoch(self) -> None:
        # Before any callback is triggered and may change it for the next epoch.
        current = np.asarray(self.get_current_value())
        if current.size == 1 and current.dtype.kind in "biuf":
            self.trainer.monitors.put_scalar(self.param.readable_name, current.item())

    def _trigger(self) -> None:
        self._set_param()

    def _set_param(self) -> None:
        if not self._enabled:
            return
        value = self.get_value_to_set()
        if value is not None:
            self.param.set_value(value)

    def __str__(self) -> str:
        return f"{type(self).__name__}({self.param.readable_name})"


def _brief(value: Any) -> str:
    return f"{float(value):.6g}" if np.ndim(value) == 0 and np.asarray(value).dtype.kind in "biuf" else str(value)
