"""The names of the reduction algorithms: the one place where such a name becomes a `Reducer`, and the default of modes.

A name with a slash stands for two levels, the algorithm inside each worker and the one across workers. A module is
imported when its algorithm is asked for, so that a trainer loads only the one that it runs.
"""

import importlib
from collections.abc import Callable, Sequence
from typing import NamedTuple, cast

import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError
from tpack.reduction.base import Reducer
from tpack.utils.validation import check_arguments, check_count, check_instances, mismatch

_ALGORITHMS = {
    "one_device": ("algorithms.one_device:OneDeviceReducer", ""),
    "round_robin": ("algorithms.one_device:RoundRobinReducer", ""),
    "hierarchical": ("algorithms.composite:HierarchicalReducer", ""),
    "rechd": ("algorithms.halving_doubling:HalvingDoublingReducer", ""),
    "collective": ("algorithms.collective:CollectiveReducer", ""),
    "nccl": ("algorithms.nccl:NcclReducer", ""),
    "xring": ("algorithms.ring:RingReducer", "num_subchunks"),
    "pscpu": ("algorithms.shuffle:CpuShuffleReducer", "num_shards"),
    "psgpu": ("algorithms.shuffle:ShuffleReducer", "num_shards"),
}
"""For each name the class, and its argument for the number of shards; without one, `ShardingReducer` splits tensors."""

_SHARDING = "wrappers.splitting:ShardingReducer"
ALGORITHMS = tuple(_ALGORITHMS)
"""Every name without a slash that `make_reducer` knows."""


class ReducerChoice(NamedTuple):
    """A reducer and the reason for it, for the log."""

    reducer: Reducer
    reason: str

    def __str__(self) -> str:
        """Return the text for the log."""
        return f"{self.reducer.name} ({self.reason})"


def reducer_class(place: str) -> Callable[..., Reducer]:
    """Import a reducer of this package.

    Args:
        place: ``"module:Class"``, the module relative to ``tpack.reduction``.
    """
    module, _, name = place.partition(":")
    return cast(Callable[..., Reducer], getattr(importlib.import_module(f"tpack.reduction.{module}"), name))


def check_algorithm(name: str) -> None:
    """Refuse a name that `make_reducer` does not know; the message lists the names."""
    parts = name.split("/") if isinstance(name, str) else [name]
    if len(parts) > 2 or not all(part in ALGORITHMS for part in parts):
        expected = f"one of {', '.join(ALGORITHMS)}, or two of them as in 'round_robin/xring'"
        raise ConfigError(mismatch("the reduction", "algorithm", name, expected))


@check_arguments
def make_reducer(name: str, devices: Sequence[str], num_shards: int | None = None) -> Reducer:
    """Return the reducer of an algorithm's name.

    Args:
        name: ``"one_device"``, ``"round_robin"``, ``"hierarchical"``, ``"xring"``, ``"rechd"``, ``"pscpu"``,
            ``"psgpu"``, ``"collective"``, ``"nccl"``, or two of them, such as ``"nccl/xring"``: the first inside
            each worker, the second across workers.
        devices: the device of each tower.
        num_shards: the number of parts of each tensor, at both levels if there are two; by default one per device in
            the shuffles, else one.

    Shapes:
        devices: K names, one per tower.

    Raises:
        ConfigError: An unknown algorithm, no device, or ``num_shards`` is not a positive whole number.
        ReductionError: ``"hierarchical"`` does not support this number of towers.

    Source:
        The algorithms of TensorFlow's ``MultiWorkerAllReduce`` and of tensorpack's replicated training.
    """
    check_algorithm(name)
    check_instances("make_reducer", "devices", devices, str, least=1, expected="a list of names of devices")
    if num_shards is not None:
        check_count("make_reducer", "num_shards", num_shards)
    inner, slash, outer = name.partition("/")
    if slash:
        levels = [_make_level(level, num_shards) for level in (inner, outer)]
        return reducer_class("algorithms.composite:CompositeReducer")(*levels)
    return _make_level(name, num_shards, *([devices] if name == "hierarchical" else []))


def _make_level(name: str, num_shards: int | None, *arguments: object) -> Reducer:
    place, shards = _ALGORITHMS[name]
    make = reducer_class(place)
    if num_shards is not None and shards:
        return make(*arguments, **{shards: num_shards})
    reducer = make(*arguments)
    return reducer if num_shards in (None, 1) else reducer_class(_SHARDING)(reducer, num_shards)


def choose_by_heuristic(devices: Sequence[str]) -> ReducerChoice:
    """Return a copy-based reducer for the kinds of the towers' devices."""
    kinds = {tf.DeviceSpec.from_string(device).device_type for device in devices}
    if kinds == {"GPU"} and len(devices) == 8:
        reason = "eight GPUs are usually linked in two groups of four, and each total then crosses between them once"
        return ReducerChoice(make_reducer("hierarchical", devices), reason)
    reason = "copies between CPU devices share memory, so summing by turns is fastest"
    if kinds == {"GPU"}:
        reason = f"the links of {len(devices)} GPU(s) share the copies evenly"
    return ReducerChoice(make_reducer("round_robin", devices), reason)
