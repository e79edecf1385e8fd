"""Workers of a training as threads of this process, that exchange values as processes do."""

import threading
from collections.abc import Callable
from typing import Any

from tpack.utils import serialize

_LIMIT_SECS = 300.0


class FakePeers:
    """One of several workers; values go through bytes, and different topics are an error.

    Args:
        rank: the number of the worker.
        size: how many there are.
        given: what each gives, shared by all.
        barrier: where they wait for each other.
    """

    def __init__(self, rank: int, size: int, given: list[Any], barrier: threading.Barrier) -> None:
        self.rank = rank
        self.size = size
        self.topics: list[str] = []
        self._given = given
        self._barrier = barrier

    def gather(self, topic: str, value: Any, *, timeout_secs: float | None = None) -> list[Any]:
        self.topics.append(topic)
        self._given[self.rank] = (topic, serialize.dumps(value))
        self._barrier.wait(min(timeout_secs or _LIMIT_SECS, _LIMIT_SECS))
        given = list(self._given)
        self._barrier.wait(_LIMIT_SECS)
        assert {each for each, _ in given} == {topic}, "workers are in different exchanges"
        return [serialize.loads(each) for _, each in given]

    def broadcast(self, topic: str, value: Any = None, *, root: int = 0) -> Any:
        return self.gather(topic, value)[root]


def run_workers(size: int, function: Callable[[FakePeers], Any]) -> list[Any]:
    """Call a function in one thread for each worker; return what it returns, by rank.

    Raises:
        BaseException: What the first of them raised that did not wait for another one.
    """
    barrier = threading.Barrier(size)
    peers = [FakePeers(rank, size, given, barrier) for given in [[None] * size] for rank in range(size)]
    results: list[Any] = [None] * size
    errors: list[BaseException] = []

    def run(one: FakePeers) -> None:
        try:
            results[one.rank] = function(one)
        except BaseException as error:
            errors.append(error)
            barrier.abort()

    threads = [threading.Thread(target=run, args=(one,), daemon=True) for one in peers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(2 * _LIMIT_SECS)
    assert not any(thread.is_alive() for thread in threads), "a worker waits for ever"
    raised = [error for error in errors if not isinstance(error, threading.BrokenBarrierError)] or errors
    if raised:
        raise raised[0]
    return results
