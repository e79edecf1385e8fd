"""Make variables with a component on each of several devices, out of what creates plain ones."""

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.distribute.change_check import protect
from tpack.distribute.cross_tower_ops import get_devices_from, validate_destinations
from tpack.distribute.variables.distributed import DistributedVariable, replace_in_collections
from tpack.distribute.variables.mirrored import MirroredVariable
from tpack.distribute.variables.tower_local import TowerLocalVariable
from tpack.errors import ConfigError
from tpack.reduction.sums import on_device

_SYNCHRONIZATIONS = {mode.value: mode for mode in tf.VariableSynchronization}
_AGGREGATIONS = {mode.value: mode for mode in tf.VariableAggregation}


def create_distributed_variable(
    next_creator: Callable[..., Any], devices: Sequence[str], kwargs: dict[str, Any]
) -> DistributedVariable:
    """Make a mirrored variable, or with ``synchronization=tf.VariableSynchronization.ON_READ`` a tower-local one.

    The first device's component has the variable's name, and the others that name with ``/replica_k`` behind it. All
    begin with the first one's value. In the graph's collections the variable stands for them.

    Args:
        next_creator: creates a plain variable.
        devices: the devices, the first one first.
        kwargs: the arguments of a variable creator. A tower-local variable is not trainable whatever they say; a
            caching device has no meaning where each device has the variable.

    Returns:
        The variable.

    Shapes:
        As the arguments say.

    Raises:
        ConfigError: The synchronization or the aggregation is not supported.

    Source:
        The variable creator of the mirrored strategy that the seed ``distribute`` describes.
    """
    is_tower_local = _is_read_synchronized(kwargs)
    aggregation = _aggregation(kwargs)
    kwargs = {**kwargs, "trainable": False} if is_tower_local else dict(kwargs)
    if "caching_device" in kwargs:
        kwargs["caching_device"] = None
    kind = TowerLocalVariable if is_tower_local else MirroredVariable
    variable = kind(_create_components(next_creator, devices, kwargs), aggregation)
    replace_in_collections(variable)
    if isinstance(variable, MirroredVariable):
        protect(variable)
    return variable


def devices_for(colocate_with: Any, devices: Sequence[str]) -> list[str]:
    """Return the devices of a variable that is created.

    Args:
        colocate_with: what `colocate_vars_with` was given: a variable, a device or a list of them; None for nothing.
        devices: those of a variable that is not to be anywhere else.

    Returns:
        Names of devices.

    Shapes:
        No tensors.

    Raises:
        ConfigError: It is something else.

    Source:
        The mirrored strategy that the seed ``distribute`` describes.
    """
    if colocate_with is None:
        return list(devices)
    validate_destinations(colocate_with)
    return get_devices_from(colocate_with)


def _create_components(
    next_creator: Callable[..., Any], devices: Sequence[str], kwargs: dict[str, Any]
) -> dict[str, Any]:
    with on_device(devices[0]):
        primary = next_creator(**kwargs)
    components = {devices[0]: primary}
    for number, device in enumerate(devices[1:], start=1):

        def same_value(device: str = device) -> Any:
            with on_device(device):
                return tf.identity(primary.initial_value)

        # With a slash behind it, it is the whole name, whatever name scopes are open.
        own = {"name": f"{primary.op.name}/replica_{number}/", "initial_value": same_value}
        with on_device(device):
            components[device] = next_creator(**{**kwargs, **own})
    return components


def _is_read_synchronized(kwargs: dict[str, Any]) -> bool:
    given = kwargs.get("synchronization") or tf.VariableSynchronization.AUTO
    # TensorFlow has had several enumerations of the same values.
    synchronization = _SYNCHRONIZATIONS.get(getattr(given, "value", None))
    if synchronization in (None, tf.VariableSynchronization.NONE):
        raise ConfigError(
            f"the variable {kwargs.get('name')!r} cannot have synchronization={given!r} under a strategy: wanted AUTO, "
            "ON_WRITE or ON_READ of tf.VariableSynchronization"
        )
    return synchronization == tf.VariableSynchronization.ON_READ


def _aggregation(kwargs: dict[str, Any]) -> Any:
    given = kwargs.get("aggregation") or tf.VariableAggregation.NONE
    aggregation = _AGGREGATIONS.get(getattr(given, "value", None))
    if aggregation is None:
        raise ConfigError(
            f"the variable {kwargs.get('name')!r} cannot have aggregation={given!r}: wanted a tf.VariableAggregation"
        )
    return aggregation
