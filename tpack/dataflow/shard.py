"""The share of one worker among several that train together, each of which reads a part of the same data.

The points of the wrapped flow are dealt out in rounds, as cards are: of each round of W points worker r gets the r-th.
So the flow must be the same in all workers, the order of its shuffles included, which are therefore drawn from one
seed. What a worker has taken of a pass is a number of whole rounds, so its position is the place in the wrapped flow
right after a round: the same in all workers that have made the same steps, and one from which any number of workers can
go on. `tpack.dataflow.reshard` does that for a position of other workers than those of today.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

from tpack.dataflow.base import DataFlow, ProxyDataFlow, flows_in, length_or_none
from tpack.dataflow.iterator_state import Passes, StateReader, make_state
from tpack.dataflow.sources import DataFromList, IndexedDataFlow
from tpack.errors import ConfigError, InputError
from tpack.utils.launch_env import worker_place
from tpack.utils.rng import same_in_all_processes
from tpack.utils.validation import check_arguments, check_choice, check_count, check_path

REMAINDERS = ("wrap", "drop", "keep", "error")
Reader = Callable[[], object]
# How a flow gives its points that has no way of its own.
_PLAIN = (IndexedDataFlow._points, IndexedDataFlow.__iter__)


@check_arguments
class ShardData(ProxyDataFlow):
    """Yield one worker's share of the data points: every W-th, each worker beginning with another one.

    Put it as near to the source as possible: the points of the others are left out before anything is done with them.
    Of a list, and of files by their names, they are not even read; what is read in order is read, and dropped.
    Everything above it (decoding, augmentation, shuffling in a buffer, batches) is each worker's own.

    Shuffles below it are the same in all workers, since ``reset_state`` of the wrapped flow draws from ``seed``; what
    has generators of its own, or is shuffled in processes that the wrapped flow starts, has to see to that itself.

    Args:
        ds: the flow over all data; in each worker the same.
        rank: the number of this worker, from 0. Unless given, it is that which the trainer has among its workers, and
            before there is a trainer the one that the launcher says; a process that is alone reads everything.
        size: W, the number of workers; likewise. Give both or none.
        remainder: what happens at the end of a pass if the number of points is no multiple of W. ``"wrap"``: the last
            points are dealt around until each worker has one, so that a few points are there twice. ``"drop"``: they
            are left out, so that a few points are lost in this pass. ``"keep"``: the first workers have one point more,
            so that each point is there once and passes are not of one length, as evaluation needs it. ``"error"``: it
            is an error.
        seed: what shuffles below are drawn from; another one is another order.

    Raises:
        ConfigError: Only one of rank and size is given or one is out of range; or it is known by now that a pass would
            have nothing, or with ``"error"`` that there is a remainder.

    Example:
        ``BatchData(MapData(ShardData(DataFromList(files)), load), 32)``
    """

    def __init__(
        self,
        ds: DataFlow,
        rank: int | None = None,
        size: int | None = None,
        *,
        remainder: str = "wrap",
        seed: int = 0,
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
        # In all passes: by it workers are told apart that have not taken the same.
        self._num_taken = 0
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
        """How many points this worker has taken, in all passes."""
        return self._num_taken

    def take_place(self, rank: int, size: int) -> None:
        """Be the share of another worker, or of one among another number of workers; between two iterations.

        Args:
            rank: the number of the worker.
            size: the number of workers.

        Raises:
            ConfigError: As for the class; nothing was changed.
        """
        size = check_count(self, "size", size)
        rank = check_count(self, "rank", rank, 0, size - 1)
        _check_length(length_or_none(self.ds), size, self.remainder)
        self._place = rank, size

    def be_of(self, rank: int, size: int) -> None:
        """Be the share of a worker whose place is known now, unless it was given another one.

        Args:
            rank: the number of the worker.
            size: the number of workers.

        Raises:
            ConfigError: It was given another place, or the points cannot be dealt out; nothing was changed.
        """
        if self.is_given and self._place != (rank, size):
            raise ConfigError(
                f"ShardData was given rank={self.rank} and size={self.size}, and this is worker {rank} of {size}: "
                "leave both out, and it takes those of the trainer"
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
        self._passes.reset()
        self._num_taken = 0

    def __iter__(self) -> Iterator[Any]:
        """Begin a pass.

        Raises:
            InputError: With ``remainder="error"``, at its end: there was one.
        """
        rank, size = self._known_place()
        one = self._passes.begin()
        dealt: list[Reader] = []
        for read in () if one.value else _readers(self.ds):
            dealt.append(read)
            if len(dealt) == size:
                mine, dealt = dealt[rank], []
                self._num_taken += 1
                yield mine()
        last = self._of_remainder(dealt, rank, size)
        if last is not None:
            one.value = True
            self._num_taken += 1
            yield last()
        self._passes.end(one)

    def state_dict(self) -> dict[str, Any]:
        """Return the position in the wrapped flow, after a whole round, and how many points a round has."""
        return make_state(
            self, ds=self.ds.state_dict(), is_over=self._passes.value, size=self.size, taken=self._num_taken
        )

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go to a position.

        Raises:
            InputError: The state is of another kind of flow, or of another number of workers; nothing was changed.
        """
        saved = StateReader(self, state, "ds", "is_over", "size", "taken")
        is_over, size, taken = saved.flag("is_over"), saved.count("size"), saved.count("taken")
        if size != self.size:
            raise InputError(
                f"ShardData got the position of one among {size} workers, and this is one among {self.size}: the rest "
                "of the data has to be dealt out anew, by tpack.dataflow.reshard"
            )
        self.ds.load_state_dict(saved["ds"])
        self._passes.go_to(is_over)
        self._num_taken = taken

    def end_pass(self) -> None:
        """Give up the rest of the newest pass."""
        self._passes.reset()
        self.ds.end_pass()

    def _of_remainder(self, dealt: Sequence[Reader], rank: int, size: int) -> Reader | None:
        """Return what this worker gets of an incomplete round, if anything."""
        if not dealt or self.remainder == "drop":
            return None
        if self.remainder == "error":
            raise InputError(
                f"{len(dealt)} data points are left at the end of a pass, too few for {size} workers: expected a "
                "multiple of their number, or remainder='wrap' or 'drop'"
            )
        if self.remainder == "keep":
            return dealt[rank] if rank < len(dealt) else None
        return dealt[rank % len(dealt)]

    def _known_place(self) -> tuple[int, int]:
        if self._place is None:
            self.take_place(*worker_place(os.environ))
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
    """Return a flow of one worker's share of a list of files, each a data point of one component, its name.

    The list is put in order first, since file systems list files in orders of their own.

    Args:
        files: names of files; the same in all workers.
        rank: see `ShardData`, as for the rest.
        size: the number of workers.
        shuffle: whether each pass has a new order, the same in all workers.
        remainder: what happens to files that are too few for all workers.
        seed: what the order is drawn from.

    Raises:
        ConfigError: There is no file, one is there twice, or as for `ShardData`.

    Example:
        ``MapData(shard_files(glob.glob("/data/*.png")), lambda point: [imageio.imread(point[0])])``
    """
    names = sorted(check_path("shard_files", f"files[{k}]", file) for k, file in enumerate(files))
    if not names or len(set(names)) < len(names):
        twice = sorted({name for name in names if names.count(name) > 1})[:3]
        raise ConfigError(
            f"shard_files got {f'{twice} more than once' if names else 'no file'}: expected names of files"
        )
    return ShardData(DataFromList([[name] for name in names], shuffle), rank, size, remainder=remainder, seed=seed)


def shards_in(ds: DataFlow) -> list[ShardData]:
    """Return the shards in a flow: itself, or those that it wraps."""
    return [flow for flow in flows_in(ds) if isinstance(flow, ShardData)]


def _check_length(length: int | None, size: int, remainder: str) -> None:
    """Refuse a number of points that cannot be dealt out; nothing where it is not known."""
    if length is None:
        return
    told = f"ShardData got {length} data points for {size} workers and remainder={remainder!r}"
    if remainder == "error" and length % size:
        raise ConfigError(f"{told}: {length % size} would be left")
    if remainder == "drop" and length < size:
        raise ConfigError(f"{told}: nothing would be left of a pass")


def _readers(ds: DataFlow) -> Iterator[Reader]:
    """Begin a pass, and yield of each point a function that returns it; one that is not called may never be read."""
    # Who reads its points in a way of its own knows best how: files that are read in order, for example.
    if isinstance(ds, IndexedDataFlow) and (ds._is_read_at_will or (type(ds)._points, type(ds).__iter__) == _PLAIN):
        yield from ds.unread()
        return
    for point in ds:
        yield partial(_itself, point)


def _itself(point: object) -> object:
    return point
