"""Mirrored strategies on logical CPU devices, for tests of what happens in them."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.distribute.contexts import get_tower_context
from tpack.distribute.cross_tower_ops import ReductionToOneDeviceCrossTowerOps
from tpack.distribute.strategies import MirroredStrategy
from tpack.distribute.values import DistributedValues

SUM, MEAN, NONE = tf.VariableAggregation.SUM, tf.VariableAggregation.MEAN, tf.VariableAggregation.NONE
FIRST = tf.VariableAggregation.ONLY_FIRST_TOWER
ON_READ = tf.VariableSynchronization.ON_READ


def devices_of(num_towers: int) -> list[str]:
    """Return the names of as many logical CPU devices."""
    return [f"/device:CPU:{k}" for k in range(num_towers)]


def mirrored(num_towers: int = 2) -> MirroredStrategy:
    """Return a mirrored strategy that reduces on one device."""
    return MirroredStrategy(devices_of(num_towers), cross_tower_ops=ReductionToOneDeviceCrossTowerOps())


@contextmanager
def in_scope(num_towers: int = 2) -> Iterator[MirroredStrategy]:
    """Be in the scope of a mirrored strategy."""
    with mirrored(num_towers).scope() as strategy:
        yield strategy


def tower_number() -> Any:
    """Return a tensor with the number of the current tower, from 1 up."""
    return tf.constant(float(get_tower_context().tower_id + 1))


def started(session: Any) -> Any:
    """Give all variables of the session's graph their first values."""
    session.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
    return session


def values(session: Any, value: Any) -> Any:
    """Return the numbers of what a value holds for its devices, or of the one that it is."""
    parts = list(value.index.values()) if isinstance(value, DistributedValues) else [value]
    return session.run(parts)


def ops_on(tensors: Sequence[Any]) -> list[str]:
    """Return the devices that tensors or operations ask for."""
    return [getattr(tensor, "op", tensor).device for tensor in tensors]
