"""The names of the reduction algorithms: the one place where such a name becomes a `Reducer`.

Names with a slash stand for two levels, the algorithm inside each worker and the one across workers.
"""

from collections.abc import Callable, Sequence

from tpack.errors import ConfigError
from tpack.reduction.algorithms.collective import CollectiveReducer
from tpack.reduction.algorithms.composite import CompositeReducer
from tpack.reduction.algorithms.halving_doubling import HalvingDoublingReducer
from tpack.reduction.algorithms.hierarchical import HierarchicalReducer
from tpack.reduction.algorithms.nccl import NcclReducer
from tpack.reduction.algorithms.one_device import OneDeviceReducer, RoundRobinReducer
from tpack.reduction.algorithms.ring import RingReducer
from tpack.reduction.algorithms.shuffle import CpuShuffleReducer, ShuffleReducer
from tpack.reduction.base import Reducer
from tpack.reduction.wrappers.sharding import ShardingReducer
from tpack.utils.validation import check_arguments, check_count, check_instances

_WHOLE: dict[str, Callable[[], Reducer]] = {
    "one_device": OneDeviceReducer,
    "round_robin": RoundRobinReducer,
    "hierarchical": HierarchicalReducer,
    "rechd": HalvingDoublingReducer,
    "collective": CollectiveReducer,
    "nccl": NcclReducer,
}
"""The algorithms that leave tensors whole, or cut them in a way that cannot be set."""

_SHARDING: dict[str, Callable[[int | None], Reducer]] = {
    "xring": lambda num_shards: RingReducer(1 if num_shards is None else num_shards),
    "pscpu": CpuShuffleReducer,
    "psgpu": lambda num_shards: ShuffleReducer(num_shards=num_shards),
}
"""The algorithms that take a number of shards: sub-chunks in the ring, one for each device by default in the others."""

ALGORITHMS = (*_WHOLE, *_SHARDING)
"""Every name without a slash that `make_reducer` knows."""


def check_algorithm(name: str) -> None:
    """Check that `make_reducer` knows an algorithm.

    Raises:
        ConfigError: It does not. The message lists the names there are.
    """
    parts = name.split("/") if isinstance(name, str) else [name]
    if len(parts) > 2 or not all(part in ALGORITHMS for part in parts):
        raise ConfigError(
            f"expected one of {', '.join(ALGORITHMS)}, or two of them as in 'round_robin/xring', as the algorithm of a "
            f"reduction, got {name!r}"
        )


@check_arguments
def make_reducer(name: str, devices: Sequence[str], num_shards: int | None = None) -> Reducer:
    """Return the reducer that the name of an algorithm stands for.

    Args:
        name: ``"one_device"``, ``"round_robin"``, ``"hierarchical"``, ``"xring"``, ``"rechd"``, ``"pscpu"``,
            ``"psgpu"``, ``"collective"``, ``"nccl"``, or two of them, such as ``"nccl/xring"``: the first inside
            each worker, the second across workers.
        devices: the device of each tower.
        num_shards: the parts into which each tensor is split, at both levels if there are two; by default as many as
            the algorithm needs: one for each device in the shuffles, else one.

    Returns:
        A reducer for gradients on these devices.

    Shapes:
        devices: K names, one for each tower.

    Raises:
        ConfigError: There is no such algorithm, no device, or ``num_shards`` is not a positive whole number.
        ReductionError: ``"hierarchical"`` cannot serve this number of towers.

    Source:
        The algorithms of TensorFlow's ``MultiWorkerAllReduce`` and of tensorpack's replicated training.
    """
    check_algorithm(name)
    check_instances("make_reducer", "devices", devices, str, least=1, expected="a list of names of devices")
    if num_shards is not None:
        check_count("make_reducer", "num_shards", num_shards)
    inner, slash, outer = name.partition("/")
    if slash:
        return CompositeReducer(_make_level(inner, num_shards), _make_level(outer, num_shards))
    if name == "hierarchical":
        return _sharded(HierarchicalReducer(devices), num_shards)
    return _make_level(name, num_shards)


def _make_level(name: str, num_shards: int | None) -> Reducer:
    if name in _SHARDING:
        return _SHARDING[name](num_shards)
    return _sharded(_WHOLE[name](), num_shards)


def _sharded(reducer: Reducer, num_shards: int | None) -> Reducer:
    return reducer if num_shards in (None, 1) else ShardingReducer(reducer, num_shards)
