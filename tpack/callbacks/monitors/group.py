"""All monitors of a training as one, with the statistics kept in memory for callbacks that read them."""

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
    """The last callback of a trainer: passes statistics to all monitors, keeps the scalars, runs the hooks.

    Args:
        monitors: any number of `MonitorBase`.

    Raises:
        WrongTypeError: one of them is not a monitor.
        CallbackError: one is there twice.
    """

    def __init__(self, monitors: Iterable[MonitorBase]) -> None:
        self.monitors = check_instances(self, "monitors", monitors, MonitorBase)
        self._history = _ScalarHistory()
        self._rows = _Rows()
        self._receivers = [*self.monitors, self._history, self._rows]
        self._held_names: set[str] = set()
        self._held: dict[str, float] = {}
        self._variables: set[str] | None = None
        super().__init__(Callbacks(self._receivers))

    def hold_back(self, names: Iterable[str]) -> None:
        """Keep scalars of some names for `take_held`, whose caller reports in their place."""
        self._held_names.update(names)

    def take_held(self) -> dict[str, float]:
        """Return the last value of each held-back scalar since the last call."""
        held, self._held = self._held, {}
        return held

    def put_scalar(self, name: str, val: SupportsFloat) -> None:
        """Report a number.

        Raises:
            CallbackError: ``val`` is not one number.
        """
        array = np.asarray(val)
        if array.size != 1 or array.dtype.kind not in "biuf":
            raise CallbackError(f"statistic '{name}' got {shown(val)}: expected one number")
        number = int(array.item()) if array.dtype.kind == "b" else array.item()
        if name in self._held_names:
            self._held[name] = number
        else:
            self.put_merged(name, number)

    def put_merged(self, name: str, number: float) -> None:
        """Report a number, even under a held-back name."""
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
        """Report an evaluated summary, its scalars without the tower's name, and without the number of a variable's.

        Args:
            summary: a `tf.Summary`, or the bytes of one as a summary op returns them.
        """
        # A copy: its tags are changed, and scalars that are held back are removed.
        summary = tf.Summary.FromString(summary if isinstance(summary, bytes) else summary.SerializeToString())
        tags = {_TOWER_PREFIX.sub("", value.tag) for value in summary.value}
        for value in list(summary.value):
            value.tag = self._plain_name(_TOWER_PREFIX.sub("", value.tag), tags)
            if value.tag in self._held_names and value.WhichOneof("value") == "simple_value":
                self._held[value.tag] = float(value.simple_value)
                summary.value.remove(value)
        for value in summary.value:
            if value.WhichOneof("value") == "simple_value":
                for receiver in self._receivers:
                    receiver.process_scalar(value.tag, float(value.simple_value))
        for receiver in self._receivers:
            receiver.process_summary(summary)

    def _plain_name(self, tag: str, others: set[str]) -> str:
        """Return the name that the script gave a summary.

        TensorFlow numbers it if a variable has it, as ``learning_rate_1``, and puts the scope before it, which often
        has the same name: ``val_loss/val_loss``.
        """
        scope, _, last = tag.rpartition("/")
        if scope.rpartition("/")[2] == last and scope not in others:
            return scope
        name = tag.removesuffix("_1")
        if name == tag or self._trainer is None:
            return tag
        if self._variables is None:
            self._variables = {
                variable.op.name for variable in self.graph.get_collection(tf.GraphKeys.GLOBAL_VARIABLES)
            }
        return name if name in self._variables and tag not in self._variables else tag

    def put_event(self, evt: tf.Event) -> None:
        """Report a `tf.Event` with the present step and time."""
        evt.step = self.global_step
        evt.wall_time = time.time()
        for receiver in self._receivers:
            receiver.process_event(evt)

    def get_latest(self, name: str) -> float:
        """Return the last value of a scalar.

        Raises:
            CallbackError: there is none; the message lists near names.
        """
        return self._history.get_latest(name)

    def get_history(self, name: str) -> list[float]:
        """Return all values of a scalar in this run, oldest first.

        Raises:
            CallbackError: there is none; the message lists near names.
        """
        return self._history.get_history(name)

    def rows(self) -> History:
        """Return this run's statistics: a row for each step with any, oldest first."""
        return History(dict(row) for row in self._rows.rows)


def _as_image_batch(name: str, images: np.ndarray) -> np.ndarray:
    if images.ndim == 2:
        images = images[:, :, np.newaxis]
    if images.ndim == 3:
        images = images[np.newaxis]
    if images.ndim != 4:
        raise CallbackError(f"image '{name}' got shape {images.shape}: expected 2, 3 or 4 dimensions")
    return images


class _ScalarHistory(MonitorBase):
    """All values of every scalar, in order."""

    def __init__(self) -> None:
        self._values: dict[str, list[float]] = {}

    def process_scalar(self, name: str, val: float) -> None:
        self._values.setdefault(name, []).append(val)

    def get_history(self, name: str) -> list[float]:
        if name not in self._values:
            near = get_close_matches(name, self._values) or sorted(self._values)
            known = f"near names: {', '.join(near)}" if near else "there are none yet"
            raise CallbackError(f"no statistic named '{name}' was reported; {known}")
        return list(self._values[name])

    def get_latest(self, name: str) -> float:
        return self.get_history(name)[-1]


class _Rows(MonitorBase):
    """The scalars of each step together."""

    def __init__(self) -> None:
        self.rows: list[Entry] = []

    def process_scalar(self, name: str, val: float) -> None:
        if self._trainer is not None:
            entry_at(self.rows, self.epoch_num, self.global_step)[name] = val
