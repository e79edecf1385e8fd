"""Choose a reducer by the links between the GPUs of this machine.

TensorFlow reports the links. NCCL is taken only where it has just summed correctly in a process of its own.
"""

from collections.abc import Sequence

import tensorflow.compat.v1 as tf

from tpack.compat.runtime import list_local_devices
from tpack.reduction.algorithms.composite import HierarchicalReducer
from tpack.reduction.algorithms.nccl import NcclReducer
from tpack.reduction.autotune.measure import MeasuringOptions, make_workload, measure_candidate
from tpack.reduction.names import ReducerChoice, choose_by_heuristic
from tpack.reduction.wrappers.gradient_packer import GradientPackingReducer
from tpack.tower.devices import canonical_device
from tpack.utils.validation import check_arguments

_CHECK_SHAPE = (4099,)
"""Odd and larger than one block, to cover a sum over parts of different sizes."""

DGX1_LINKS = (
    frozenset({1, 2, 3, 4}),
    frozenset({0, 2, 3, 5}),
    frozenset({0, 1, 3, 6}),
    frozenset({0, 1, 2, 7}),
    frozenset({0, 5, 6, 7}),
    frozenset({1, 4, 6, 7}),
    frozenset({2, 4, 5, 7}),
    frozenset({3, 4, 5, 6}),
)
"""The direct links of each GPU of a DGX-1: to the others of its four, and to its partner in the other four."""


@check_arguments
def choose_the_best(devices: Sequence[str], session_config: tf.ConfigProto | None = None) -> ReducerChoice:
    """Choose by the links between the GPUs of this machine.

    Eight GPUs that are linked as in a DGX-1 get the hierarchical reducer, with as many packs as GPUs. Other GPUs get
    NCCL in one pack if it is safe: it has just summed known numbers correctly and in time, in a separate process on the
    same GPUs. All other devices get the choice of `choose_by_heuristic`.

    The function of the same name in `tpack.distribute` wraps the choice in cross-tower operations for a strategy.

    Args:
        devices: the device of each tower. GPUs become logical CPU devices on a machine without GPUs.
        session_config: the ``ConfigProto`` of the session that will train, or None.

    Returns:
        The reducer and the reason as text.

    Shapes:
        devices: K names.

    Raises:
        ReductionError: There is no tower, or two share a device.
        DeviceError: A GPU is missing on a machine that has GPUs.

    Source:
        ``choose_the_best`` of the cross-tower operations in TensorFlow's contrib, which takes NCCL unchecked.
    """
    names = make_workload(devices, []).devices
    kinds = {tf.DeviceSpec.from_string(name).device_type for name in names}
    if kinds != {"GPU"} or len(names) == 1:
        return choose_by_heuristic(names)
    links = visible_links(session_config)
    hidden = [name for name in names if name not in links]
    if hidden:
        copying = choose_by_heuristic(names)
        return copying._replace(reason=f"{', '.join(hidden)} cannot be seen from here; {copying.reason}")
    if has_dgx1_links([links[name] for name in names]):
        packed = GradientPackingReducer(HierarchicalReducer(names), len(names))
        return ReducerChoice(packed, "the eight GPUs are linked as in a DGX-1: in two groups of four")
    return _nccl_where_safe(names, session_config)


def _nccl_where_safe(devices: Sequence[str], session_config: tf.ConfigProto | None) -> ReducerChoice:
    options = MeasuringOptions(steps=1, rounds=1, session_config=session_config)
    checked = measure_candidate("nccl", make_workload(devices, [_CHECK_SHAPE]), options)
    if checked.error:
        copying = choose_by_heuristic(devices)
        return copying._replace(reason=f"NCCL is not safe here ({checked.error}); {copying.reason}")
    reason = f"NCCL uses all links between the {len(devices)} GPUs, and summed known numbers correctly"
    return ReducerChoice(GradientPackingReducer(NcclReducer(), 1), reason)


def visible_links(session_config: tf.ConfigProto | None = None) -> dict[str, frozenset[int]]:
    """Return the numbers of the linked GPUs of each device of this process, by its canonical name.

    This starts the GPUs: TensorFlow knows the links only of running ones.

    Args:
        session_config: a ``ConfigProto`` that sets the devices and their memory.
    """
    return {
        canonical_device(device.name): frozenset(link.device_id for link in device.locality.links.link)
        for device in list_local_devices(session_config)
    }


def has_dgx1_links(links: Sequence[frozenset[int]]) -> bool:
    """Tell whether eight GPUs are linked as in a DGX-1; a link of a GPU to itself does not count.

    Source:
        ``_has_dgx1_like_links`` of the cross-tower operations in TensorFlow's contrib.
    """
    return len(links) == len(DGX1_LINKS) and all(
        own - {k} == expected for k, (own, expected) in enumerate(zip(links, DGX1_LINKS, strict=True))
    )
