"""Some components of each data point, in a chosen order."""

from collections.abc import Sequence
from functools import partial
from typing import Any

from tpack.dataflow.base import DataFlow
from tpack.dataflow.mapping import MapData
from tpack.errors import ConfigError, DataPointError


def SelectComponent(ds: DataFlow, idxs: Sequence[int]) -> DataFlow:  # noqa: N802 (the name that scripts use)
    """Return a flow of lists of some components of each data point, in the order given.

    Args:
        ds: a flow of lists, tuples or dicts.
        idxs: which components: their places, or their keys in a dict. One may come more than once.

    Raises:
        ConfigError: ``idxs`` is no list or is empty. A data point without such a component raises DataPointError when
            it is reached.

    Example:
        SelectComponent(ds, [1, 0])  # of [image, label] to [label, image]
    """
    if not isinstance(idxs, (list, tuple)) or not idxs:
        raise ConfigError(f"SelectComponent got idxs={idxs!r}: wanted a list of at least one place")
    return MapData(ds, partial(_select, list(idxs)))


def _select(idxs: list[Any], point: Any) -> list[Any]:
    """Return a list of components."""
    try:
        return [point[index] for index in idxs]
    except (LookupError, TypeError) as error:
        kind = type(point).__name__
        raise DataPointError(f"a data point, a {kind}, has not all of the components {idxs}: {error!r}") from error
