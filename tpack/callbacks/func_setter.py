"""A hyper-parameter that a function of the epoch decides."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tpack.callbacks.hyper_param import HyperParam
from tpack.callbacks.param_setters import HyperParamSetter
from tpack.errors import CallbackError


class HyperParamSetterWithFunc(HyperParamSetter):
    """Set a hyper-parameter to what a function says.

    Args:
        param: a `HyperParam`, or the name of a variable in the graph.
        func: ``func(epoch_num, current_value)`` returns the new value, or None to leave it. It is called before
            training, with the number of the epoch before the first, and after each epoch with its number.
        enable: set to False to leave the hyper-parameter alone, and still report it.

    Raises:
        CallbackError: ``func`` is no function.
    """

    def __init__(self, param: HyperParam | str, func: Callable[[int, Any], Any], *, enable: bool = True) -> None:
        super().__init__(param, enable=enable)
        if not callable(func):
            raise CallbackError(f"{self} wants a function of (epoch_num, current_value), got {func!r}")
        self._func = func

    def _get_value_to_set(self) -> Any:
        return self._func(self.epoch_num, self.get_current_value())
