"""The all-reduce spec: which algorithm, in how many shards, for tensors up to which size.

A spec is text, a tuple or a list of tuples in scripts, and is read here, once. Further down there are only reducers.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from tpack.errors import ConfigError
from tpack.reduction.base import Reducer
from tpack.reduction.names import check_algorithm, make_reducer, reducer_class
from tpack.utils.validation import check_arguments, check_count, is_integer, shown

NO_LIMIT = -1
"""The byte limit of a reducer that takes tensors of any size."""


@check_arguments
@dataclass(frozen=True)
class AllReduceSpec:
    """One entry of a spec.

    Args:
        algorithm: a name that `make_reducer` knows, such as ``"xring"`` or ``"pscpu/xring"``.
        num_shards: the parts into which each tensor is split, which are reduced side by side.
        byte_limit: the size of the largest tensor for this entry; -1 is none.

    Raises:
        ConfigError: There is no such algorithm, or a number is out of range.
    """

    algorithm: str
    num_shards: int = 1
    byte_limit: int = NO_LIMIT

    def __post_init__(self) -> None:
        check_algorithm(self.algorithm)
        check_count(self, "num_shards", self.num_shards)
        if not is_integer(self.byte_limit) or (self.byte_limit < 1 and self.byte_limit != NO_LIMIT):
            raise ConfigError(
                f"expected a byte_limit of 1 or more, or {NO_LIMIT} for none, got {shown(self.byte_limit)}"
            )


SpecEntry: TypeAlias = AllReduceSpec | tuple[str] | tuple[str, int] | tuple[str, int, int]
"""One entry as scripts write it."""


@check_arguments
def parse_all_reduce_spec(spec: str | SpecEntry | list[SpecEntry]) -> tuple[AllReduceSpec, ...]:
    """Read an all-reduce spec.

    Args:
        spec: one entry or a list of them. An entry is an `AllReduceSpec`, or a tuple (algorithm, shards, byte limit) of
            which the last one or two may be left out: 1 shard, no limit. As text, entries are written
            ``algorithm#shards`` and separated by their limits: ``"nccl#2:1024:pscpu/pscpu#2"``.

    Returns:
        The entries. Their limits rise, and the last has none.

    Shapes:
        spec: one entry or more; returned: as many.

    Raises:
        ConfigError: The spec cannot be read. The message gives the position of the bad entry, from 0.

    Example:
        ::

            parse_all_reduce_spec([("nccl", 2, 1024), ("pscpu/pscpu", 2, -1)])

    Source:
        ``MultiWorkerAllReduce`` of TensorFlow's ``cross_tower_ops``, which the tuples are of; the text is that of
        tensorflow/benchmarks.
    """
    if isinstance(spec, str):
        entries: Sequence[object] = _split_text(spec)
    elif isinstance(spec, list):
        entries = spec
    else:
        entries = [spec]
    parsed = tuple(_parse_entry(position, entry) for position, entry in enumerate(entries))
    check_limits([entry.byte_limit for entry in parsed])
    return parsed


@check_arguments
def reducer_for_spec(spec: str | SpecEntry | list[SpecEntry], devices: Sequence[str]) -> Reducer:
    """Return the reducer that an all-reduce spec stands for.

    Args:
        spec: see `parse_all_reduce_spec`.
        devices: the device of each tower.

    Returns:
        The reducer of the only entry, or a `SplitBySizeReducer` over those of all entries.

    Shapes:
        devices: K names, one for each tower.

    Raises:
        ConfigError: The spec cannot be read.
        ReductionError: An algorithm cannot serve these devices.

    Source:
        ``MultiWorkerAllReduce`` of TensorFlow's ``cross_tower_ops``.
    """
    return reducer_for_entries(parse_all_reduce_spec(spec), devices)


def reducer_for_entries(entries: Sequence[AllReduceSpec], devices: Sequence[str]) -> Reducer:
    """Return the reducer of a spec that `parse_all_reduce_spec` has read."""
    reducers = [(make_reducer(e.algorithm, devices, e.num_shards), e.byte_limit) for e in entries]
    return reducers[0][0] if len(reducers) == 1 else reducer_class("wrappers.by_size:SplitBySizeReducer")(reducers)


def check_limits(limits: Sequence[int]) -> None:
    """Check that byte limits rise and that the last is -1.

    Raises:
        ConfigError: They do not. The message gives the position of the first one that is wrong.
    """
    if not limits:
        raise ConfigError("expected one entry or more to choose a reducer by size, got none")
    for position, limit in enumerate(limits[:-1]):
        if limit == NO_LIMIT:
            raise ConfigError(f"entry {position} has no limit: the entries after it would get no tensor")
        if position and limit <= limits[position - 1]:
            raise ConfigError(
                f"entry {position} has the limit {limit} bytes, and the one before it {limits[position - 1]}: expected "
                "limits that rise"
            )
    if limits[-1] != NO_LIMIT:
        raise ConfigError(
            f"entry {len(limits) - 1}, the last, has the limit {limits[-1]} bytes: expected {NO_LIMIT}, because larger "
            "tensors have no entry"
        )


def _parse_entry(position: int, entry: object) -> AllReduceSpec:
    if isinstance(entry, AllReduceSpec):
        return entry
    if not isinstance(entry, tuple) or not 1 <= len(entry) <= 3:
        raise ConfigError(
            f"entry {position} of the all-reduce spec is {entry!r}: expected (algorithm,), (algorithm, shards) or "
            "(algorithm, shards, byte limit)"
        )
    try:
        return AllReduceSpec(*entry)
    except ConfigError as error:
        raise ConfigError(f"entry {position} of the all-reduce spec, {entry!r}: {error}") from error


def _split_text(text: str) -> list[tuple[str, int, int]]:
    """Split ``algorithm#shards:limit:algorithm#shards`` into tuples; a last limit that is left out is no limit."""
    parts = text.split(":")
    limits: Iterable[str] = [*parts[1::2], str(NO_LIMIT)]
    return [
        (*_split_shards(position, algorithm), _number(position, "limit", limit))
        for position, (algorithm, limit) in enumerate(zip(parts[0::2], limits, strict=False))
    ]


def _split_shards(position: int, text: str) -> tuple[str, int]:
    algorithm, mark, shards = text.partition("#")
    return algorithm, _number(position, "number of shards", shards) if mark else 1


def _number(position: int, what: str, text: str) -> int:
    try:
        return int(text)
    except ValueError as error:
        raise ConfigError(
            f"entry {position} of the all-reduce spec has {text!r} as its {what}: expected a whole number"
        ) from error
