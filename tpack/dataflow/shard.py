"""The share of one worker of several that train together and read different parts of the same data.

The points of the wrapped flow are dealt out in rounds of W: worker r gets the r-th. So the flow must be the same in all
workers, with shuffles drawn from one seed. A worker takes whole rounds, so its position is a place in the wrapped flow
right after a round, from which any number of workers can continue (`tpack.dataflow.reshard`).
"""

import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from tpack.dataflow.base import DataFlow, ProxyDataFlow, flows_in, length_or_none
from tpack.dataflow.iterator_state import Passes, StateReader, make_state
from tpack.dataflow.sources import DataFromList, IndexedDataFlow
from tpack.errors import ConfigError, InputError
from tpack.utils.lazy import LazyModule
from tpack.utils.rng import same_in_all_processes
from tpack.utils.validation import check_arguments, check_choice, check_count, check_path

_launch_env = LazyModule("tpack.utils.launch_env")

REMAINDERS = ("wrap", "drop", "keep", "error")
_MOST_SIZES = 1000
"""The most sizes of passes, one after the other, that are noted."""

Reader = Callable[[], object]
# The methods of flows that read each point by itself.
_PLAIN = (IndexedDataFlow._points, IndexedDataFlow.__iter__)


@check_arguments
class ShardData(ProxyDataFlow):
    """Yield one worker's share of the data points: every W-th, from another one in each worker.

    Put it as near to the source as possible: points of other workers are not processed, and in a list, or in files by
    name, not even read. Everything above it is the worker's own.

    Shuffles below it are the same in all workers, since ``reset_state`` of the wrapped flow draws from ``seed``.
    Generators of other kinds, and shuffles in processes that the wrapped flow starts, need the same seed from
    elsewhere.

    Args:
        ds: the flow over all data, the same in each worker.
        rank: the number of this worker, from 0. By default that of the trainer among its workers, or before there is a
            trainer that of the launcher; a single process reads everything.
        size: W, the number of workers; likewise. Give both or none.
        remainder: the end of a pass if the number of points is not a multiple of W. ``"wrap"``: the last points are
            dealt around until each worker has one, so a few come twice. ``"drop"``: they are left out. ``"keep"``: the
            first workers have one point more, so that each point comes once and passes differ in length, as for
            evaluation. ``"error"``: an error.
        seed: the seed of the shuffles below.

    Raises:
        ConfigError: Only one of rank and size is given or one is out of range; or a pass is known to have no point, or
            with ``"error"`` a remainder.

    Example:
        ``BatchData(MapData(ShardData(DataFromList(files)), load), 32)``
    """

    keeps_each_point = True

    def __init__(
        self, ds: DataFlow, rank: int | None = None, size: int | None = None, *, remainder: str = "wrap", seed: int = 0
    ) -> None:
        super().__init__(ds)
        self.remainder = check_choice(self, "remainder", remainder, REMAINDERS)
        self.seed = check_count(self, "seed", seed, 0)
        if (rank is None) != (size is None):
            raise ConfigError(f"ShardData got rank={rank} and size={size}: expected both or none")
        self.is_given = rank is not None
        self._place: tuple[int, int] | None = None
        # Whether only the end of the pass is left.
        self._passes: Passes[bool] = Passes(False)
        # In all passes, to see whether workers have taken the same number; and in each: the number of points and of
        # finished passes that have it in turn, None after a resume.
        self._num_taken = 0
        self._of_passes: list[list[int]] | None = []
        self._taken_of_pass = 0
        if rank is not None and size is not None:
            self.take_place(rank, size)

    @property
    def rank(self) -> int:
        """The number of this worker."""
        return self._known_place()[0]

    @property
    def size(self) -> int:
        """The number of workers."""
        return self._known_place()[1]

    @property
    def num_taken(self) -> int:
        """The number of points that this worker has taken, in all passes."""
        return self._num_taken

    def passes_made(self) -> tuple[list[list[int]], int] | None:
        """Return the sizes of finished passes, with how many in turn have each, and the points of the current one.

        None after a resume, and for shares that may differ in size.
        """
        if self._of_passes is None or self.remainder == "keep":
            return None
        return [list(run) for run in self._of_passes], self._taken_of_pass

    def take_place(self, rank: int, size: int) -> None:
        """Become the share of another worker, or among another number, between two iterations; or refuse unchanged."""
        size = check_count(self, "size", size)
        rank = check_count(self, "rank", rank, 0, size - 1)
        _check_length(length_or_none(self.ds), size, self.remainder)
        self._place = rank, size

    def be_of(self, rank: int, size: int) -> None:
        """Become the share of a worker of the trainer, unless another place was given.

        Raises:
            ConfigError: Another place was given, or the points cannot be dealt out; nothing was changed.
        """
        if self.is_given and self._place != (rank, size):
            raise ConfigError(
                f"ShardData got rank={self.rank} and size={self.size} in worker {rank} of {size}: leave both out to "
                "use those of the trainer"
            )
        self.take_place(rank, size)

    def __len__(self) -> int:
        rounds, rest = divmod(len(self.ds), self.size)
        has_more = {"wrap": rest > 0, "keep": self.rank < rest}
        return rounds + int(has_more.get(self.remainder, False))

    def reset_state(self) -> None:
        """Reset the wrapped flow, whose shuffles are the same in all workers, and forget the position."""
        with same_in_all_processes(self.seed):
            super().reset_state()
        self._num_taken, self._taken_of_pass, self._of_passes = 0, 0, []

    def __iter__(self) -> Iterator[Any]:
        rank, size = self._known_place()
        one = self._passes.begin()
        self._taken_of_pass = 0
        dealt: list[Reader] = []
        for read in () if one.value else _readers(self.ds):
            dealt.append(read)
            if len(dealt) == size:
                mine, dealt = dealt[rank], []
                self._count_point()
                yield mine()
        last = self._of_remainder(dealt, rank, size)
        if last is not None:
            one.value = True
            self._count_point()
            yield last()
        self._passes.end(one)
        self._count_pass()

    def _count_point(self) -> None:
        self._num_taken += 1
        self._taken_of_pass += 1

    def _count_pass(self) -> None:
        runs = self._of_passes
        if runs and runs[-1][0] == self._taken_of_pass:
            runs[-1][1] += 1
        elif runs is not None and len(runs) < _MOST_SIZES:
            runs.append([self._taken_of_pass, 1])
        self._taken_of_pass = 0

    def state_dict(self) -> dict[str, Any]:
        """Return the position in the wrapped flow, after a whole round, and the size of a round."""
        return make_state(
            self, ds=self.ds.state_dict(), is_over=self._passes.value, size=self.size, taken=self._num_taken
        )

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go to a position; refuse one of another flow."""
        saved = StateReader(self, state, "ds", "is_over", "size", "taken")
        is_over, size, taken = saved.flag("is_over"), saved.count("size"), saved.count("taken")
        if size != self.size:
            raise InputError(
                f"ShardData got the position of one of {size} workers: expected one of {self.size}; use "
                "tpack.dataflow.reshard to share out the rest of the data again"
            )
        self.ds.load_state_dict(saved["ds"])
        self._passes.go_to(is_over)
        self._num_taken, self._of_passes = taken, None

    def _of_remainder(self, dealt: Sequence[Reader], rank: int, size: int) -> Reader | None:
        """Return the point of this worker in an incomplete round, if any."""
        if not dealt or self.remainder == "drop":
            return None
        if self.remainder == "error":
            raise InputError(
                f"ShardData got a pass with {len(dealt)} data points left for {size} workers: expected a multiple of "
                "the number of workers; use remainder='wrap' or 'drop'"
            )
        if self.remainder == "keep":
            return dealt[rank] if rank < len(dealt) else None
        return dealt[rank % len(dealt)]

    def _known_place(self) -> tuple[int, int]:
        if self._place is None:
            self.take_place(*_launch_env.worker_place(os.environ))
        return self._place  # type: ignore[return-value]


@check_arguments
def shard_files(
    files: Sequence[str | os.PathLike[str]],
    rank: int | None = None,
    size: int | None = None,
    *,
    shuffle: bool = True,
    remainder: str = "wrap",
    seed: int = 0,
) -> ShardData:
    """Return a flow of one worker's share of a list of files; each data point is a list of one name.

    The list, the same in all workers, is sorted first. With ``shuffle`` each pass has a new order, the same in all. For
    the other arguments see `ShardData`.

    Raises:
        ConfigError: There is no file, one is there twice, or as for `ShardData`.

    Example:
        ``MapData(shard_files(glob.glob("/data/*.png")), lambda point: [imageio.imread(point[0])])``
    """
    names = sorted(check_path("shard_files", f"files[{k}]", file) for k, file in enumerate(files))
    if not names or len(set(names)) < len(names):
        twice = sorted({name for name in names if names.count(name) > 1})[:3]
        given = f"{twice} more than once" if names else "files=[]"
        raise ConfigError(f"shard_files got {given}: expected different names of files")
    return ShardData(DataFromList([[name] for name in names], shuffle), rank, size, remainder=remainder, seed=seed)


def shards_in(ds: DataFlow) -> list[ShardData]:
    """Return the shards in a flow: itself, or those that it wraps."""
    return [flow for flow in flows_in(ds) if isinstance(flow, ShardData)]


def _check_length(length: int | None, size: int, remainder: str) -> None:
    """Refuse a known number of points that cannot be dealt out."""
    if length is None:
        return
    given = f"ShardData got {length} data points for {size} workers and remainder={remainder!r}"
    if remainder == "error" and length % size:
        raise ConfigError(f"{given}: expected a multiple of {size}")
    if remainder == "drop" and length < size:
        raise ConfigError(f"{given}: expected at least {size}")


def _readers(ds: DataFlow) -> Iterator[Reader]:
    """Begin a pass, and yield a function that reads each point, for use of some of them only."""
    # Flows that read whole passes in their own way, such as files in order, are left to it.
    if isinstance(ds, IndexedDataFlow) and (ds._is_read_at_will or (type(ds)._points, type(ds).__iter__) == _PLAIN):
        yield from ds.unread()
        return
    for point in ds:
        yield iter([point]).__next__
