"""The candidates among which a reduction is chosen by measurement, each known by a text that any process understands.

A candidate's name is that of an algorithm, or ``algorithm+packing``. Which candidates fit some devices is not written
down a second time here: each algorithm is tried on tiny gradients in a graph that is thrown away, and its own limits
decide.
"""

import importlib
from collections.abc import Callable, Sequence

import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError, ReductionError
from tpack.reduction.base import Reducer
from tpack.reduction.names import make_reducer
from tpack.reduction.wrappers.buckets import BucketReducer
from tpack.reduction.wrappers.gradient_packer import GradientPackingReducer
from tpack.reduction.wrappers.packers import AggregateSmallTensorPackingReducer, ConcatAndSplitPackingReducer
from tpack.tower.grads import ReduceOp

_PACKINGS: dict[str, Callable[[Reducer], Reducer]] = {
    "packs": lambda inner: GradientPackingReducer(inner, 8),
    "concat": lambda inner: ConcatAndSplitPackingReducer(inner, 8),
    "small": AggregateSmallTensorPackingReducer,
    "buckets": lambda inner: BucketReducer(inner, 4 * 2**20),
}
PACKINGS = tuple(_PACKINGS)
"""The ways to pack that a candidate's name can have: 8 packs, concatenated and split in 8, small tensors together
(tensors up to 1 MiB), buckets of 4 MiB."""


def make_candidate(name: str, devices: Sequence[str]) -> Reducer:
    """Return the reducer that a candidate's name stands for.

    Args:
        name: ``"algorithm"`` or ``"algorithm+packing"``; with ``"module:Class"`` as the algorithm, a reducer of the
            user's own.
        devices: the device of each tower.

    Returns:
        A new reducer.

    Raises:
        ConfigError: There is no such algorithm or packing.
        ReductionError: The algorithm cannot serve this number of towers.
    """
    algorithm, packing = _parse(name)
    inner = load_reducer(algorithm) if is_of_user(name) else make_reducer(algorithm, devices)
    return _PACKINGS[packing](inner) if packing else inner


def is_of_user(name: str) -> bool:
    """Tell whether a candidate is a reducer of the user's own, written ``"module:Class"``."""
    return ":" in name


def load_reducer(name: str) -> Reducer:
    """Return the reducer that ``"module:Class"`` stands for.

    Args:
        name: a module that can be imported, and in it a class that needs no arguments, a function that returns a
            reducer, or a reducer.

    Raises:
        ConfigError: There is no such module or name in it, or it gives no `Reducer`.
    """
    module_name, _, attribute = name.partition(":")
    if not module_name or not attribute.isidentifier():
        raise ConfigError(f"expected a reducer of your own as module:Class, got {name!r}")
    try:
        made = getattr(importlib.import_module(module_name), attribute)
    except (ImportError, AttributeError) as error:
        raise ConfigError(f"{name!r} cannot be found: {error}") from error
    if not isinstance(made, Reducer):
        try:
            made = made()
        except TypeError as error:
            raise ConfigError(
                f"{name!r} cannot be made without arguments ({error}): give them defaults, or name a function that "
                "returns the reducer"
            ) from error
    if not isinstance(made, Reducer):
        raise ConfigError(f"expected {name!r} to give a tpack.reduction.Reducer, got {type(made).__name__}")
    return made


def refusals(names: Sequence[str], devices: Sequence[str], dtypes: Sequence[str]) -> dict[str, str]:
    """Return why candidates cannot serve such towers and gradients.

    Args:
        names: candidates.
        devices: the device of each tower.
        dtypes: the dtypes of the gradients.

    Returns:
        For each of ``names`` whose algorithm does not take tiny gradients of these dtypes what it says.

    Raises:
        ConfigError: There is no such candidate, or one is there twice.
    """
    if len(set(names)) < len(names):
        raise ConfigError(f"expected different candidates, got {', '.join(names)}")
    # What a user's reducer raises is told by the process that measures it, whatever it is.
    ours = [name for name in names if not is_of_user(name)]
    reasons = {name: _refusal(name, devices, sorted(set(dtypes))) for name in ours}
    return {name: reason for name, reason in reasons.items() if reason}


def _parse(name: str) -> tuple[str, str]:
    algorithm, plus, packing = name.partition("+")
    if plus and packing not in _PACKINGS:
        raise ConfigError(f"expected one of {', '.join(PACKINGS)} after the '+' of a candidate, got {name!r}")
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
