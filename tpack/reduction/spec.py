"""The all-reduce spec: an algorithm and a number of shards for each range of tensor sizes.

Scripts write a spec as text, a tuple or a list of tuples. It is parsed here, once; below there are only reducers.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from tpack.errors import ConfigError
from tpack.reduction.base import Reducer
from tpack.reduction.names import check_algorithm, make_reducer, reducer_class
from tpack.utils.validation import check_arguments, check_count, is_integer, mismatch

NO_LIMIT = -1
"""The byte limit of a reducer for tensors of any size."""


@check_arguments
@dataclass(frozen=True)
class AllReduceSpec:
    """One entry of a spec.

    Args:
        algorithm: a name that `make_reducer` knows, such as ``"xring"`` or ``"pscpu/xring"``.
        num_shards: the number of parts of each tensor, which are reduced side by side.
        byte_limit: the size of the largest tensor for this entry; -1 for no limit.

    Raises:
        ConfigError: An unknown algorithm, or a number out of range.
    """

    algorithm: str
    num_shards: int = 1
    byte_limit: int = NO_LIMIT

    def __post_init__(self) -> None:
        check_algorithm(self.algorithm)
        check_count(self, "num_shards", self.num_shards)
        if not is_integer(self.byte_limit) or (self.byte_limit < 1 and self.byte_limit != NO_LIMIT):
            raise ConfigError(mismatch(self, "byte_limit", self.byte_limit, f"1 or more, or {NO_LIMIT} for no limit"))


SpecEntry: TypeAlias = AllReduceSpec | tuple[str] | tuple[str, int] | tuple[str, int, int]
"""One entry as scripts write it."""


@check_arguments
def parse_all_reduce_spec(spec: str | SpecEntry | list[SpecEntry]) -> tuple[AllReduceSpec, ...]:
    """Parse an all-reduce spec into entries whose limits rise, the last without a limit.

    Args:
        spec: one entry or a list of them. An entry is an `AllReduceSpec` or a tuple (algorithm, shards, byte limit),
            whose last one or two may be left out: 1 shard, no limit. As text, entries are written
            ``algorithm#shards`` and separated by their limits: ``"nccl#2:1024:pscpu/pscpu#2"``.

    Shapes:
        spec: one entry or more; returned: as many.

    Raises:
        ConfigError: The spec is malformed. The message gives the position of the bad entry, from 0.

    Example:
        ::

            parse_all_reduce_spec([("nccl", 2, 1024), ("pscpu/pscpu", 2, -1)])

    Source:
        The tuples are those of ``MultiWorkerAllReduce`` in TensorFlow's ``cross_tower_ops``, the text that of
        tensorflow/benchmarks.
    """
    entries: Sequence[object] = _split_text(spec) if isinstance(spec, str) else [spec]
    if isinstance(spec, list):
        entries = spec
    parsed = tuple(_parse_entry(position, entry) for position, entry in enumerate(entries))
    check_limits([entry.byte_limit for entry in parsed])
    return parsed


@check_arguments
def reducer_for_spec(spec: str | SpecEntry | list[SpecEntry], devices: Sequence[str]) -> Reducer:
    """Return the reducer of an all-reduce spec: of its only entry, or a `SplitBySizeReducer` over all entries.

    Args:
        spec: see `parse_all_reduce_spec`.
        devices: the device of each tower.

    Shapes:
        devices: K names, one per tower.

    Raises:
        ConfigError: The spec is malformed.
        ReductionError: An algorithm does not support these devices.

    Source:
        ``MultiWorkerAllReduce`` of TensorFlow's ``cross_tower_ops``.
    """
    return reducer_for_entries(parse_all_reduce_spec(spec), devices)


def reducer_for_entries(entries: Sequence[AllReduceSpec], devices: Sequence[str]) -> Reducer:
    """Return the reducer of entries from `parse_all_reduce_spec`; see `reducer_for_spec`."""
    reducers = [(make_reducer(e.algorithm, devices, e.num_shards), e.byte_limit) for e in entries]
    return reducers[0][0] if len(reducers) == 1 else reducer_class("wrappers.splitting:SplitBySizeReducer")(reducers)


def check_limits(limits: Sequence[int]) -> None:
    """Refuse byte limits that do not rise or whose last is not -1; the message gives the position."""
    if not limits:
        raise ConfigError("the reducers by size got no entry: expected one or more")
    for position, limit in enumerate(limits[:-1]):
        if limit == NO_LIMIT:
            raise ConfigError(f"entry {position} has no limit: the entries after it would get no tensor")
        if position and limit <= limits[position - 1]:
            before = limits[position - 1]
            raise ConfigError(f"entry {position} has the limit {limit} bytes after {before}: expected limits that rise")
    if limits[-1] != NO_LIMIT:
        last = f"entry {len(limits) - 1}, the last, has the limit {limits[-1]} bytes"
        raise ConfigError(f"{last}: expected {NO_LIMIT}, because larger tensors have no entry")


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
    """Split ``algorithm#shards:limit:algorithm#shards`` into tuples; the last limit may be left out."""
    parts = text.split(":")
    entries = []
    for position, (part, limit) in enumerate(zip(parts[0::2], [*parts[1::2], str(NO_LIMIT)], strict=False)):
        algorithm, mark, shards = part.partition("#")
        num_shards = _number(position, "number of shards", shards) if mark else 1
        entries.append((algorithm, num_shards, _number(position, "limit", limit)))
    return entries


def _number(position: int, what: str, text: str) -> int:
    try:
        return int(text)
    except ValueError as error:
        owner = f"entry {position} of the all-reduce spec"
        raise ConfigError(f"{owner} got {text!r} as its {what}: expected a whole number") from error
