"""Call a function once on each of several devices, to update what is there."""

from collections.abc import Callable, Mapping
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.distribute.regroup import regroup, select_device_mirrored
from tpack.distribute.update_context import UpdateContext
from tpack.distribute.values import Mirrored
from tpack.reduction.sums import on_device


def update_on_devices(
    fn: Callable[..., Any], subjects: Mapping[str, tuple[Any, ...]], args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> Any:
    """Call a function on each device with what it updates there and with the device's part of arguments.

    Args:
        fn: the function.
        subjects: the first arguments on each device, such as the component of a variable.
        args: more arguments, `Mirrored` or the same everywhere.
        kwargs: more of them.

    Returns:
        What `regroup` makes of the results; those that differ are `Mirrored`.

    Raises:
        StrategyError: An argument differs between devices, or has no part on one of them.
    """
    results = {}
    for number, (device, subject) in enumerate(subjects.items()):
        with on_device(device), UpdateContext(device), tf.name_scope(f"update_{number}"):
            own_kwargs = select_device_mirrored(device, dict(kwargs))
            results[device] = fn(*subject, *select_device_mirrored(device, args), **own_kwargs)
    return regroup(results, Mirrored)
