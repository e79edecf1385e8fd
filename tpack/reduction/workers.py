"""Which towers share a worker: the task of a cluster that is named in front of a device.

Inside a worker copies are cheap, and between workers they cross a network. Names without job and task are all of one
worker, the process itself.
"""

from collections.abc import Sequence
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.errors import ReductionError

Worker = tuple[Any, ...]
"""Job, replica and task of a device; each is None where the name says nothing."""


def worker_of(device: str) -> Worker:
    """Return the worker that a device name belongs to."""
    spec = tf.DeviceSpec.from_string(device)
    return spec.job, spec.replica, spec.task


def group_by_worker(devices: Sequence[str]) -> list[list[int]]:
    """Return for each worker the positions of its devices, both in the order of the list."""
    groups: dict[Worker, list[int]] = {}
    for k, device in enumerate(devices):
        groups.setdefault(worker_of(device), []).append(k)
    return list(groups.values())


def check_equal_groups(groups: Sequence[Sequence[int]]) -> None:
    """Check that every worker has as many towers as the first.

    Raises:
        ReductionError: One has another number.
    """
    sizes = [len(group) for group in groups]
    if len(set(sizes)) > 1:
        raise ReductionError(
            "a reduction in two levels needs equal numbers of towers on all workers, got "
            f"{', '.join(map(str, sizes))}: the workers have the towers {', '.join(str(list(g)) for g in groups)}"
        )
