"""Decide when an action every few steps, or seconds, is due, and measure the speed of steps since."""

import time
from collections.abc import Callable


class StepTimer:
    """Decides after which steps an action is due, counting from the last time.

    Args:
        every_steps: steps between two times.
        every_secs: seconds between two times. With neither, it never is due.
        step: the step that counts as the first time.
        clock: returns the time in seconds.
    """

    def __init__(
        self,
        *,
        every_steps: int | None = None,
        every_secs: float | None = None,
        step: int = 0,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._every_steps = every_steps or None
        self._every_secs = every_secs or None
        self._clock = clock
        self._step = step
        self._time = clock()

    def done(self, step: int) -> None:
        """Record the action after this step."""
        self._step, self._time = step, self._clock()

    def is_due(self, step: int) -> bool:
        """Tell whether the action is due after this step."""
        if self._every_steps is not None:
            return step >= self._step + self._every_steps
        return self._every_secs is not None and self._clock() >= self._time + self._every_secs

    def steps_left(self, step: int) -> int:
        """Return after how many steps to ask again: those that are left, or half of those in the time that is left."""
        if self._every_steps is not None:
            return max(1, self._step + self._every_steps - step)
        secs = 0.0 if self._every_secs is None else self._time + self._every_secs - self._clock()
        return max(1, int(secs * self.rate(step) / 2))

    def rate(self, step: int) -> float:
        """Return the steps per second since the last action."""
        return (step - self._step) / max(self._clock() - self._time, 1e-9)
