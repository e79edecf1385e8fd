"""The candidates of a measurement, each with a name that any process can turn into a reducer.

A name is that of an algorithm, or ``algorithm+packing``. The algorithms' own limits decide which candidates fit some
devices: each is tried on tiny gradients in a temporary graph.
"""

import importlib
from collections.abc import Callable, Sequence

import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError, ReductionError
from tpack.reduction.base import Reducer
from tpack.reduction.names import make_reducer
from tpack.reduction.wrappers.gradient_packer import GradientPackingReducer
from tpack.reduction.wrappers.packers import (
    AggregateSmallTensorPackingReducer,
    BucketReducer,
    ConcatAndSplitPackingReducer,
)
from tpack.tower.grads import ReduceOp

_PACKINGS: dict[str, Callable[[Reducer], Reducer]] = {
    "packs": lambda inner: GradientPackingReducer(inner, 8),
    "concat": lambda inner: ConcatAndSplitPackingReducer(inner, 8),
    "small": AggregateSmallTensorPackingReducer,
    "buckets": lambda inner: BucketReducer(inner, 4 * 2**20),
}
PACKINGS = tuple(_PACKINGS)
"""The packings of a candidate's name: 8 packs, concatenation split in 8, tensors up to 1 MiB joined, 4-MiB buckets."""


def make_candidate(name: str, devices: Sequence[str]) -> Reducer:
    """Return a new reducer by a candidate's name.

    Args:
        name: ``"algorithm"`` or ``"algorithm+packing"``; a user's reducer is ``"module:Class"``.
        devices: the device of each tower.

    Raises:
        ConfigError: An unknown algorithm or packing.
        ReductionError: The algorithm does not support this number of towers.
    """
    algorithm, packing = _parse(name)
    inner = load_reducer(algorithm) if is_of_user(name) else make_reducer(algorithm, devices)
    return _PACKINGS[packing](inner) if packing else inner


def is_of_user(name: str) -> bool:
    """Tell whether a candidate is a user's reducer, written ``"module:Class"``."""
    return ":" in name


def load_reducer(name: str) -> Reducer:
    """Return a user's reducer by ``"module:Class"``.

    Args:
        name: a module that can be imported, and in it a class without required arguments, a function that returns a
            reducer, or a reducer.

    Raises:
        ConfigError: The module or name does not exist, or does not give a `Reducer`.
    """
    module_name, _, attribute = name.partition(":")
    if not module_name or not attribute.isidentifier():
        raise ConfigError(f"got the reducer {name!r}: expected module:Class")
    try:
        made = getattr(importlib.import_module(module_name), attribute)
    except (ImportError, AttributeError) as error:
        raise ConfigError(f"{name!r} cannot be found: {error}") from error
    if not isinstance(made, Reducer):
        try:
            made = made()
        except TypeError as error:
            way_out = "use defaults, or the name of a function that returns the reducer"
            raise ConfigError(f"{name!r} cannot be called without arguments ({error}); {way_out}") from error
    if not isinstance(made, Reducer):
        raise ConfigError(f"expected {name!r} to give a tpack.reduction.Reducer, got {type(made).__name__}")
    return made


def refusals(names: Sequence[str], devices: Sequence[str], dtypes: Sequence[str]) -> dict[str, str]:
    """Return {candidate: reason} for those that do not support such towers and gradients.

    Args:
        names: candidates.
        devices: the device of each tower.
        dtypes: the dtypes of the gradients.

    Raises:
        ConfigError: A candidate is unknown or duplicate.
    """
    if len(set(names)) < len(names):
        raise ConfigError(f"got the candidates {', '.join(names)}: expected each once")
    # The measuring process reports the errors of a user's reducer.
    ours = [name for name in names if not is_of_user(name)]
    reasons = {name: _refusal(name, devices, sorted(set(dtypes))) for name in ours}
    return {name: reason for name, reason in reasons.items() if reason}


def _parse(name: str) -> tuple[str, str]:
    algorithm, plus, packing = name.partition("+")
    if plus and packing not in _PACKINGS:
        raise ConfigError(f"got the candidate {name!r}: expected one of {', '.join(PACKINGS)} after the '+'")
    return algorithm, packing


def _refusal(name: str, devices: Sequence[str], dtypes: Sequence[str]) -> str:
    towers = []
    with tf.Graph().as_default():
        for device in devices:
            with tf.device(device):
                towers.append([tf.placeholder(dtype, [2]) for dtype in dtypes])
        op = ReduceOp.SUM if any(grad.dtype.is_integer for grad in towers[0]) else ReduceOp.MEAN
        try:
            make_reducer(_parse(name)[0], devices).reduce(towers, op)
        except ReductionError as error:
            return str(error)
    return ""
