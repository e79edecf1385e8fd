"""How the values in two checkpoints differ, as text."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from tpack.cli.tables import draw_table, format_shape, is_number

Values = Mapping[str, Any]


def compare(first: Values, second: Values, paths: tuple[str, str]) -> str:
    """Return what only one of two has, whose shapes differ, and whose values do, the largest difference first.

    Args:
        first: arrays by name.
        second: arrays by name.
        paths: what the two are called.
    """
    sections = [f"A: {paths[0]}\nB: {paths[1]}", *_only_in_one(first, second)]
    both = sorted(first.keys() & second.keys())
    alike = [name for name in both if first[name].shape == second[name].shape]
    misfits = [(name, format_shape(first[name]), format_shape(second[name])) for name in both if name not in alike]
    if misfits:
        sections.append(f"Of different shapes:\n{draw_table(misfits, ('name', 'in A', 'in B'))}")
    distances = {name: max_difference(first[name], second[name]) for name in alike}
    unequal = sorted((name for name in alike if distances[name] != 0), key=lambda name: -_order(distances[name]))
    if unequal:
        rows = [
            (name, format_shape(first[name]), _dtypes(first[name], second[name]), f"{distances[name]:.4g}")
            for name in unequal
        ]
        headers = ("name", "shape", "dtype", "max. difference")
        sections.append(f"Of different values:\n{draw_table(rows, headers, ('left', 'left', 'left', 'right'))}")
    sections.append(f"{len(alike) - len(unequal)} of the {len(both)} variable(s) in both are equal.")
    return "\n\n".join(sections) + "\n"


def max_difference(first: Any, second: Any) -> float:
    """Return the largest absolute difference of two arrays of one shape.

    The same infinity, or NaN in both, is no difference. NaN in one of them is the difference NaN; things that are no
    numbers differ by infinity, if they do.
    """
    if not (is_number(first) and is_number(second)):
        return 0.0 if np.array_equal(first, second) else np.inf
    wide = np.complex128 if "c" in (first.dtype.kind, second.dtype.kind) else np.float64
    a, b = first.astype(wide), second.astype(wide)
    # Large integers are equal or not before they are rounded.
    same = (np.isnan(a) & np.isnan(b)) | np.asarray(first == second)
    with np.errstate(invalid="ignore"):
        return float(np.max(np.where(same, 0.0, np.abs(a - b)), initial=0.0))


def _only_in_one(first: Values, second: Values) -> Iterator[str]:
    for letter, own, other in (("A", first, second), ("B", second, first)):
        rows = [(name, format_shape(own[name]), own[name].dtype.name) for name in sorted(own.keys() - other.keys())]
        if rows:
            yield f"Only in {letter}:\n{draw_table(rows, ('name', 'shape', 'dtype'))}"


def _dtypes(first: Any, second: Any) -> str:
    return " / ".join(dict.fromkeys([first.dtype.name, second.dtype.name]))


def _order(distance: float) -> float:
    """Put NaN first."""
    return np.inf if np.isnan(distance) else distance
