"""What the tables of the command line have in common: how they are drawn, and shapes and numbers in them."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from tabulate import tabulate

_SIZE_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


def draw_table(rows: Iterable[Sequence[str]], headers: Sequence[str], align: Sequence[str] | None = None) -> str:
    """Return a table as text.

    Args:
        rows: texts.
        headers: the names of the columns.
        align: ``"left"`` or ``"right"`` for each column; all are left unless given.
    """
    drawn = list(rows)
    columns = list(align) if align and drawn else None
    return tabulate(drawn, headers=list(headers), tablefmt="simple", disable_numparse=True, colalign=columns)


def format_shape(value: Any) -> str:
    """Return the shape of an array as text, such as ``"[3, 3, 64]"``."""
    return f"[{', '.join(map(str, value.shape))}]"


def format_size(size_bytes: float) -> str:
    """Return a number of bytes with its unit, such as ``"1.5 MiB"``."""
    unit = 0
    while size_bytes >= 1024 and unit < len(_SIZE_UNITS) - 1:
        size_bytes /= 1024
        unit += 1
    return f"{size_bytes:.0f} B" if unit == 0 else f"{size_bytes:.1f} {_SIZE_UNITS[unit]}"


def is_number(value: Any) -> bool:
    """Tell whether an array holds numbers or booleans."""
    # Kind V are the small floats that numpy does not know itself, such as bfloat16; records are of that kind too.
    return bool(
        value.dtype.kind in "biufc"
        or (value.dtype.kind == "V" and value.dtype.names is None and np.can_cast(value.dtype, np.float64))
    )
