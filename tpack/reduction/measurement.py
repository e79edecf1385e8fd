"""What was measured of one candidate: a row of the table by which a reduction is chosen."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

from tabulate import tabulate

MEGABYTE = 1e6

HEADERS = ("reducer", "ms a step", "over the best", "graph ops", "build s", "MB a device", "hops", "error")


@dataclass(frozen=True)
class Measurement:
    """One candidate's row. With an error, the numbers say nothing.

    Attributes:
        name: the candidate.
        secs: seconds a step, one number a round.
        graph_ops: operations that the reduction added to the graph.
        build_secs: seconds that adding them took.
        bytes_per_device: bytes that the busiest device sends or receives in one step.
        hops: copies between devices that have to happen one after the other.
        error: what went wrong; empty if nothing did.
    """

    name: str
    secs: tuple[float, ...] = ()
    graph_ops: int = 0
    build_secs: float = 0.0
    bytes_per_device: float = 0.0
    hops: int = 0
    error: str = ""

    @property
    def median_secs(self) -> float:
        """The median over the rounds; infinite where nothing was measured."""
        return median(self.secs) if self.secs and not self.error else float("inf")

    def as_json(self) -> dict[str, Any]:
        """Return what `from_json` reads."""
        return asdict(self)

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> "Measurement":
        """Return the measurement that was written by `as_json`.

        Raises:
            TypeError: The fields are others.
            ValueError: A field is of another kind.
        """
        known = dict(fields)
        secs = tuple(float(value) for value in known.pop("secs"))
        row = cls(secs=secs, **known)
        for field in ("name", "error"):
            if not isinstance(getattr(row, field), str):
                raise ValueError(f"wanted a text as {field}, got {getattr(row, field)!r}")
        for field in ("graph_ops", "build_secs", "bytes_per_device", "hops"):
            if not isinstance(getattr(row, field), int | float):
                raise ValueError(f"wanted a number as {field}, got {getattr(row, field)!r}")
        return row


def sorted_rows(rows: Sequence[Measurement]) -> tuple[Measurement, ...]:
    """Return the rows, the fastest first and those with errors last."""
    return tuple(sorted(rows, key=lambda row: row.median_secs))


def format_table(rows: Sequence[Measurement]) -> str:
    """Return a table of the rows, the fastest first. One with an error has no numbers."""
    ordered = sorted_rows(rows)
    best = ordered[0].median_secs if ordered else 0.0
    columns = len(HEADERS) if any(row.error for row in rows) else len(HEADERS) - 1
    lines = [_cells(row, best)[:columns] for row in ordered]
    return tabulate(lines, headers=HEADERS[:columns], floatfmt=".2f")


def _cells(row: Measurement, best: float) -> tuple[Any, ...]:
    if row.error:
        return (row.name, *[None] * (len(HEADERS) - 2), row.error)
    milliseconds, moved = row.median_secs * 1e3, row.bytes_per_device / MEGABYTE
    ratio = row.median_secs / best if best else 1.0
    return (row.name, milliseconds, ratio, row.graph_ops, row.build_secs, moved, row.hops, row.error)
