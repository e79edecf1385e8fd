"""Process sets: some of the workers, which exchange among themselves."""

from collections.abc import Sequence

from tpack.errors import ConfigError
from tpack.utils.validation import check_arguments, check_count, mismatch


@check_arguments
class ProcessSet:
    """Some of the workers of a job; `add_process_set` or ``init(process_sets=)`` registers it, in all of them.

    Args:
        ranks: their ranks, each once.

    Attributes:
        process_set_id: its number; None until it is registered.

    Raises:
        ConfigError: There is none, or one is there twice or is no rank.
    """

    def __init__(self, ranks: Sequence[int]) -> None:
        given = [check_count(self, "ranks", rank, 0) for rank in ranks]
        if not given or len(set(given)) < len(given):
            raise ConfigError(mismatch(self, "ranks", list(ranks), "at least one rank, each once"))
        self._ranks: tuple[int, ...] | None = tuple(sorted(given))
        self._own_rank: int | None = None
        self.process_set_id: int | None = None

    @property
    def ranks(self) -> list[int] | None:
        """The ranks of its workers, ascending; None for all workers before ``init``."""
        return None if self._ranks is None else list(self._ranks)

    def size(self) -> int | None:
        """Return the number of its workers; None before it is registered."""
        return None if self.process_set_id is None or self._ranks is None else len(self._ranks)

    def included(self) -> bool | None:
        """Return whether this worker is one of them; None before it is registered."""
        return None if self.process_set_id is None or self._ranks is None else self._own_rank in self._ranks

    def rank(self) -> int | None:
        """Return the rank of this worker among them; None before it is registered.

        Raises:
            ConfigError: This worker is not one of them.
        """
        if self.process_set_id is None or self._ranks is None:
            return None
        if self._own_rank not in self._ranks:
            raise ConfigError(f"{self}.rank got worker {self._own_rank}: expected one of the set; use included()")
        return self._ranks.index(self._own_rank)

    def register(self, number: int | None, ranks: Sequence[int] | None, own_rank: int | None) -> None:
        """Set its number, its ranks and the rank of this worker; all None if it is no longer registered."""
        self.process_set_id, self._own_rank = number, own_rank
        if ranks is not None or number is None:
            self._ranks = self._ranks if ranks is None else tuple(ranks)

    def __repr__(self) -> str:
        return f"ProcessSet({self.ranks})"


class _AllWorkers(ProcessSet):
    """The set of all workers, whose ranks are known after ``init``."""

    def __init__(self) -> None:
        self._ranks = None
        self._own_rank = None
        self.process_set_id = 0

    def __repr__(self) -> str:
        return "global_process_set"


global_process_set = _AllWorkers()
"""The set of all workers."""
