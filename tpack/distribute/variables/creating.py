"""Creation of variables with a component on each of several devices, from the creator of plain ones.

The first tower makes them, and the others find them: ``tpack.distribute.replica_context`` gives those the ownership
``tpack.tower.ownership.MirrorOwnership``.
"""

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import tensorflow.compat.v1 as tf

from tpack.compat import BaseVariable
from tpack.distribute.strategy import VariableCreator
from tpack.distribute.variables.distributed import DistributedVariable, replace_in_collections
from tpack.distribute.write_guard import protect
from tpack.errors import ConfigError
from tpack.reduction.sums import on_device

VariableOfDevices = TypeVar("VariableOfDevices", bound=DistributedVariable)

_SYNCHRONIZATIONS = {mode.value: mode for mode in tf.VariableSynchronization}
_AGGREGATIONS = {mode.value: mode for mode in tf.VariableAggregation}


def create_distributed_variable(
    kind: type[VariableOfDevices], next_creator: VariableCreator, devices: Sequence[str], kwargs: Mapping[str, Any]
) -> VariableOfDevices:
    """Make a variable of several devices.

    The first device's component has the variable's name, and the others that name with the suffix ``/replica_k``. All
    start with the first one's value. In the graph's collections the variable replaces them.

    Args:
        kind: the class of the variable. One that differs between towers is not trainable, whatever the arguments say.
        next_creator: creates a plain variable.
        devices: the devices, the first one first.
        kwargs: the arguments of a variable creator; a caching device is ignored, as each device has the variable.

    Raises:
        ConfigError: The aggregation is not a ``tf.VariableAggregation``.

    Source:
        The mirrored strategy of the seed ``distribute``.
    """
    aggregation = _aggregation_in(kwargs)
    kwargs = {**kwargs, "trainable": False} if kind.differs_between_towers else dict(kwargs)
    if "caching_device" in kwargs:
        kwargs["caching_device"] = None
    variable = kind(_create_components(next_creator, devices, kwargs), aggregation)
    replace_in_collections(variable)
    if not kind.differs_between_towers:
        protect(variable)
    return variable


def is_local_to_towers(kwargs: Mapping[str, Any]) -> bool:
    """Return whether a creator's arguments have ``ON_READ``; raise a `ConfigError` for unsupported ones."""
    given = kwargs.get("synchronization") or tf.VariableSynchronization.AUTO
    # TensorFlow has had several enumerations of the same values.
    synchronization = _SYNCHRONIZATIONS.get(getattr(given, "value", None))
    if synchronization in (None, tf.VariableSynchronization.NONE):
        raise ConfigError(
            f"the variable {kwargs.get('name')!r} got synchronization={given!r} under a strategy: expected AUTO, "
            "ON_WRITE or ON_READ of tf.VariableSynchronization"
        )
    return bool(synchronization == tf.VariableSynchronization.ON_READ)


def _aggregation_in(kwargs: Mapping[str, Any]) -> tf.VariableAggregation:
    given = kwargs.get("aggregation") or tf.VariableAggregation.NONE
    aggregation = _AGGREGATIONS.get(getattr(given, "value", None))
    if aggregation is None:
        raise ConfigError(
            f"the variable {kwargs.get('name')!r} got aggregation={given!r}: expected a tf.VariableAggregation"
        )
    return aggregation


def _create_components(
    next_creator: VariableCreator, devices: Sequence[str], kwargs: Mapping[str, Any]
) -> dict[str, BaseVariable]:
    with on_device(devices[0]):
        primary = next_creator(**kwargs)
    components = {devices[0]: primary}
    for number, device in enumerate(devices[1:], start=1):

        def same_value(device: str = device) -> tf.Tensor:
            with on_device(device):
                return tf.identity(primary.initial_value)

        # A slash at the end makes the name absolute.
        own = {"name": f"{primary.op.name}/replica_{number}/", "initial_value": same_value}
        with on_device(device):
            components[device] = next_creator(**{**kwargs, **own})
    return components
