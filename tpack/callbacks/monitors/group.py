"""All monitors of a training as one: what callbacks put in goes to each of them.

What each statistic was is also kept in memory, for the callbacks that act on it.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable
from difflib import get_close_matches
from typing import SupportsFloat

import numpy as np
import tensorflow.compat.v1 as tf
from numpy.typing import ArrayLike

from tpack.callbacks.group import Callbacks, ProxyCallback
from tpack.callbacks.monitors.base import MonitorBase
from tpack.callbacks.monitors.history import History
from tpack.callbacks.monitors.stats_file import Entry, entry_at
from tpack.errors import CallbackError
from tpack.tfutils.summary import create_image_summary, create_scalar_summary
from tpack.utils.validation import check_arguments, check_instances, shown

_TOWER_PREFIX = re.compile(r"^tower\d+/")


@check_arguments
class Monitors(ProxyCallback):
    """Pass statistics on to monitors, remember the scalars, and run the monitors' own hooks.

    It stands last among a trainer's callbacks, and is the only one of them that the monitors need.

    Args:
        monitors: any number of `MonitorBase`.

    Raises:
        WrongTypeError: one of them is no monitor.
        CallbackError: one is there twice.
    """

    def __init__(self, monitors: Iterable[MonitorBase]) -> None:
        self.monitors = check_instances(self, "monitors", monitors, MonitorBase)
        self._history = _ScalarHistory()
        self._rows = _Rows()
        self._receivers = [*self.monitors, self._history, self._rows]
        self._held_names: set[str] = set()
        self._held: dict[str, float] = {}
        super().__init__(Callbacks(self._receivers))

    def hold_back(self, names: Iterable[str]) -> None:
        """Keep scalars of some names from now on, for who calls `take_held` and reports in their place."""
        self._held_names.update(names)

    def take_held(self) -> dict[str, float]:
        """Return the last value of each scalar that was held back since the last call."""
        held, self._held = self._held, {}
        return held

    def put_scalar(self, name: str, val: SupportsFloat) -> None:
        """Report a number.

        Raises:
            CallbackError: ``val`` is not one number.
        """
        number = _as_number(name, val)
        if name in self._held_names:
            self._held[name] = number
        else:
            self.put_merged(name, number)

    def put_merged(self, name: str, number: float) -> None:
        """Report a number, also under a name that is held back."""
        summary = create_scalar_summary(name, number)
        for receiver in self._receivers:
            receiver.process_scalar(name, number)
            receiver.process_summary(summary)

    def put_image(self, name: str, val: ArrayLike) -> None:
        """Report images.

        Shapes:
            val: [height, width], [height, width, channels] or [batch, height, width, channels], in 0 to 255.

        Raises:
            CallbackError: ``val`` has another number of dimensions.
            ConfigError: there are not 1, 3 or 4 channels.
        """
        images = _as_image_batch(name, np.asarray(val))
        summary = create_image_summary(name, images)
        for receiver in self._receivers:
            receiver.process_image(name, images)
            receiver.process_summary(summary)

    def put_summary(self, summary: bytes | tf.Summary) -> None:
        """Report an evaluated summary; the scalars in it are reported as such, without the tower's name.

        Args:
            summary: a `tf.Summary`, or the bytes of one as a summary op gives them.
        """
        # The tags are changed in a copy: a summary that is given as such stays the caller's.
        summary = tf.Summary.FromString(summary if isinstance(summary, bytes) else summary.SerializeToString())
        for value in summary.value:
            value.tag = _TOWER_PREFIX.sub("", value.tag)
        self._hold_back_of(summary)
        for value in summary.value:
            if value.WhichOneof("value") == "simple_value":
                for receiver in self._receivers:
                    receiver.process_scalar(value.tag, float(value.simple_value))
        for receiver in self._receivers:
            receiver.process_summary(summary)

    def _hold_back_of(self, summary: tf.Summary) -> None:
        """Take the scalars that are held back out of a summary."""
        held = [value for value in summary.value if value.tag in self._held_names]
        for value in held:
            if value.WhichOneof("value") == "simple_value":
                self._held[value.tag] = float(value.simple_value)
                summary.value.remove(value)

    def put_event(self, evt: tf.Event) -> None:
        """Report a `tf.Event`; its step and time are set to now."""
        evt.step = self.global_step
        evt.wall_time = time.time()
        for receiver in self._receivers:
            receiver.process_event(evt)

    def get_latest(self, name: str) -> float:
        """Return the last value of a scalar.

        Raises:
            CallbackError: there is none of that name; the message lists near names.
        """
        return self._history.get_latest(name)

    def get_history(self, name: str) -> list[float]:
        """Return all values of a scalar in this run, oldest first.

        Raises:
            CallbackError: there is none of that name; the message lists near names.
        """
        return self._history.get_history(name)

    def rows(self) -> History:
        """Return what was reported in this run, a row for each step at which something was, oldest first."""
        return History(dict(row) for row in self._rows.rows)


def _as_number(name: str, val: SupportsFloat) -> float:
    array = np.asarray(val)
    if array.size != 1 or array.dtype.kind not in "biuf":
        raise CallbackError(f"statistic '{name}' must be one number, got {shown(val)}")
    number = array.item()
    return int(number) if isinstance(number, bool) else number


def _as_image_batch(name: str, images: np.ndarray) -> np.ndarray:
    if images.ndim == 2:
        images = images[:, :, np.newaxis]
    if images.ndim == 3:
        images = images[np.newaxis]
    if images.ndim != 4:
        raise CallbackError(f"image '{name}' must have 2, 3 or 4 dimensions, got an array of shape {images.shape}")
    return images


class _ScalarHistory(MonitorBase):
    """Keep every value of every scalar, in the order in which they came."""

    def __init__(self) -> None:
        self._values: dict[str, list[float]] = {}

    def process_scalar(self, name: str, val: float) -> None:
        """Append the value to its history."""
        self._values.setdefault(name, []).append(val)

    def get_history(self, name: str) -> list[float]:
        """Return all values of a statistic, oldest first.

        Raises:
            CallbackError: nobody reported such a statistic.
        """
        if name not in self._values:
            near = get_close_matches(name, self._values) or sorted(self._values)
            known = f"near names: {', '.join(near)}" if near else "there are none yet"
            raise CallbackError(f"no statistic named '{name}' was reported; {known}")
        return list(self._values[name])

    def get_latest(self, name: str) -> float:
        """Return the last value of a statistic.

        Raises:
            CallbackError: nobody reported such a statistic.
        """
        return self.get_history(name)[-1]


class _Rows(MonitorBase):
    """Keep all scalars that came at one step together."""

    def __init__(self) -> None:
        self.rows: list[Entry] = []

    def process_scalar(self, name: str, val: float) -> None:
        """Put the value into the row of the current step; without a trainer there are no steps."""
        if self._trainer is not None:
            entry_at(self.rows, self.epoch_num, self.global_step)[name] = val
