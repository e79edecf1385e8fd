"""A hyper-parameter that changes when a statistic does not get better any more."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tpack.callbacks.former_statistics import former_values
from tpack.callbacks.hyper_param import HyperParam
from tpack.callbacks.param_setters import HyperParamSetter
from tpack.callbacks.statistics import StatisticReader
from tpack.errors import ConfigError
from tpack.utils import logger


class StatMonitorParamSetter(HyperParamSetter):
    """Change a hyper-parameter when a statistic has not improved for some time.

    Whenever triggered, it takes the statistic's last ``last_k + 1`` values. If none of the newer ones is below the
    oldest by more than ``threshold``, the hyper-parameter is set to ``value_func`` of its value, and the next change
    comes no earlier than ``last_k`` values later. It is triggered after the callbacks that report statistics, and does
    nothing when the statistic got no new value.

    A resumed run counts the values that a former run left in ``stat.json``, but not when it changed something last.

    Args:
        param: a `HyperParam`, or the name of a variable in the graph.
        stat_name: the statistic.
        value_func: makes the new value of the current one.
        threshold: by how much the statistic has to change to have improved.
        last_k: how many values to wait for that.
        reverse: the statistic is better when it is larger.
        enable: set to False to leave the hyper-parameter alone, and still report it.

    Raises:
        ConfigError: ``last_k`` is below 1 or ``threshold`` is negative.

    Example:
        ``StatMonitorParamSetter("learning_rate", "val_error", lambda rate: rate * 0.2, threshold=0, last_k=10)``
    """

    reads_statistics = True

    def __init__(
        self,
        param: HyperParam | str,
        stat_name: str,
        value_func: Callable[[Any], Any],
        threshold: float,
        last_k: int,
        reverse: bool = False,
        *,
        enable: bool = True,
    ) -> None:
        if last_k < 1 or threshold < 0:
            raise ConfigError(
                f"StatMonitorParamSetter wants last_k of at least 1 and a threshold that is not negative, got "
                f"last_k={last_k} and threshold={threshold}"
            )
        super().__init__(param, enable=enable)
        self._stat = stat_name
        self._value_func = value_func
        self._threshold = threshold
        self._last_k = last_k
        self._sign = -1.0 if reverse else 1.0
        self._values: list[float] = []
        self._statistic = StatisticReader(self, stat_name)

    def _before_train(self) -> None:
        """Take over the values of a former run; nothing is set before there is a new one."""
        self._values = former_values(self.trainer, self._stat)[-self._last_k :]

    def _get_value_to_set(self) -> Any:
        new = self._statistic.new_values()
        if not new:
            return None
        self._values = [*self._values, *new][-self._last_k - 1 :]
        if len(self._values) <= self._last_k or self._has_improved():
            return None
        logger.info(
            f"{self._stat} has not {'increased' if self._sign < 0 else 'decreased'} by more than {self._threshold:g} "
            f"over its last {self._last_k} values."
        )
        self._values = self._values[-1:]
        return self._value_func(self.get_current_value())

    def _has_improved(self) -> bool:
        oldest, *newer = (self._sign * value for value in self._values)
        return any(value < oldest - self._threshold for value in newer)
