"""How the GPUs of a machine are linked, as far as TensorFlow knows."""

from collections.abc import Sequence
from typing import Any

from tpack.compat import list_local_devices
from tpack.tower.devices import canonical_device

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
"""The GPUs that each GPU of a DGX-1 has a direct link to: all of its own four, and its partner in the other four."""


def visible_links(session_config: Any = None) -> dict[str, frozenset[int]]:
    """Return, for each device of this process by its canonical name, the numbers of the GPUs that it has a link to.

    It starts the GPUs: TensorFlow knows the links only of those that run.

    Args:
        session_config: a ``ConfigProto`` that decides which devices there are and how much memory they take.
    """
    links = {}
    for device in list_local_devices(session_config):
        links[canonical_device(device.name)] = frozenset(link.device_id for link in device.locality.links.link)
    return links


def has_dgx1_links(links: Sequence[frozenset[int]]) -> bool:
    """Tell whether eight GPUs are linked as in a DGX-1; a link of a GPU to itself does not count.

    Source:
        ``_has_dgx1_like_links`` of the cross-tower operations in TensorFlow's contrib.
    """
    return len(links) == len(DGX1_LINKS) and all(
        own - {k} == wanted for k, (own, wanted) in enumerate(zip(links, DGX1_LINKS, strict=True))
    )
