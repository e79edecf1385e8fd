"""Choose a reducer by the kinds of the devices: the default mode, and never NCCL."""

from collections.abc import Sequence
from typing import NamedTuple

import tensorflow.compat.v1 as tf

from tpack.reduction.algorithms.one_device import RoundRobinReducer
from tpack.reduction.base import Reducer
from tpack.reduction.names import make_reducer


class ReducerChoice(NamedTuple):
    """A reducer and the reason for it, for the log."""

    reducer: Reducer
    reason: str

    def __str__(self) -> str:
        """Return the text for the log."""
        return f"{self.reducer.name} ({self.reason})"


def choose_by_heuristic(devices: Sequence[str]) -> ReducerChoice:
    """Return a copy-based reducer for the kinds of the towers' devices."""
    kinds = {tf.DeviceSpec.from_string(device).device_type for device in devices}
    if kinds == {"GPU"} and len(devices) == 8:
        reason = "eight GPUs are usually linked in two groups of four, and each total then crosses between them once"
        return ReducerChoice(make_reducer("hierarchical", devices), reason)
    if kinds == {"GPU"}:
        return ReducerChoice(RoundRobinReducer(), f"the links of {len(devices)} GPU(s) share the copies evenly")
    return ReducerChoice(RoundRobinReducer(), "copies between CPU devices share memory, so summing by turns is fastest")
