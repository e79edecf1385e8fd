"""A hyper-parameter that follows a schedule."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tpack.callbacks.hyper_param import HyperParam
from tpack.callbacks.param_setters import HyperParamSetter
from tpack.callbacks.schedule import Schedule


class ScheduledHyperParamSetter(HyperParamSetter):
    """Set a hyper-parameter at scheduled epochs or steps.

    A value at epoch 30 is set when epoch 30 has ended, so that epoch 31 is the first to be trained with it; a value at
    epoch 0 is set before training. Likewise a value at step 1000 is used from the 1001st step on.

    A run that begins anywhere, for example where it resumes, begins with the value that the schedule has there. Before
    the first scheduled point the hyper-parameter is left alone.

    Args:
        param: a `HyperParam`, or the name of a variable in the graph.
        schedule: (epoch or step, value) pairs.
        interp: ``"linear"`` to set a value of a straight line at every epoch or step between two points.
        step_based: the schedule is in (global) steps.
        set_at_beginning: before training set what holds there; else set something only if that very epoch or step is
            scheduled.
        enable: set to False to leave the hyper-parameter alone, and still report it.

    Raises:
        ConfigError: the schedule is empty, has a point twice, or cannot be read.

    Example:
        ``ScheduledHyperParamSetter("learning_rate", [(0, 0.1), (30, 0.01), (60, 0.001)])``
    """

    def __init__(
        self,
        param: HyperParam | str,
        schedule: Iterable[tuple[int, float]],
        interp: str | None = None,
        step_based: bool = False,
        set_at_beginning: bool = True,
        *,
        enable: bool = True,
    ) -> None:
        self._schedule = Schedule(schedule, interp)
        super().__init__(param, enable=enable)
        self._counts_steps = step_based
        self._sets_at_beginning = set_at_beginning
        self._has_begun = False

    def _get_value_to_set(self) -> Any:
        point = self.global_step if self._counts_steps else self.epoch_num
        if self._sets_at_beginning and not self._has_begun:
            return self._schedule.value_at(point)
        return self._schedule.change_at(point)

    def _before_train(self) -> None:
        super()._before_train()
        self._has_begun = True

    def _trigger_epoch(self) -> None:
        if not self._counts_steps:
            self.trigger()

    def _trigger_step(self) -> None:
        if self._counts_steps:
            self.trigger()

    def implements(self, hook: str) -> bool:
        """Tell whether ``hook`` does anything; a schedule of epochs costs a step nothing."""
        if hook == "trigger_step":
            return self._counts_steps
        return super().implements(hook)
