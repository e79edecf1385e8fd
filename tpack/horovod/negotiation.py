"""Agreement of the workers on the collective operations that they run, and on those that never come.

TensorFlow's queues, in which the workers' graphs meet, wait without a limit. So before a worker runs a set of
collective operations for the first time, it compares their names, shapes and dtypes with those of the others; and when
a run takes long, it looks at what the others wait for.
"""

import json
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import tensorflow.compat.v1 as tf

from tpack.compat.operations import place_in_task
from tpack.horovod.errors import CollectiveError
from tpack.multi_worker.control.server import workers
from tpack.multi_worker.servers import NUM_CHANNELS, WorkerServer
from tpack.multi_worker.worker_group import WorkerGroup
from tpack.reduction.sums import on_device
from tpack.utils import logger

_MOST_SHOWN = 5
_STATUS_CONTAINER = "tpack_horovod"


def session_on(server: WorkerServer, graph: tf.Graph) -> tf.Session:
    """Return a session of tpack's own for a complete graph on the server of this process."""
    place_in_task(graph.get_operations(), server.device, f"graph-{uuid.uuid4().hex}")
    config = tf.ConfigProto()
    config.rpc_options.num_channels_per_target = NUM_CHANNELS
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    return tf.Session(server.target, graph=graph, config=config)


class TextExchange:
    """Exchange of texts between the workers of a group, beside their graphs.

    Args:
        group: the workers, of which there are several.
        server: that of this process.
    """

    def __init__(self, group: WorkerGroup, server: WorkerServer) -> None:
        with tf.Graph().as_default() as graph:
            text = tf.placeholder(tf.string, [])
            sends = [group.put("texts", rank, [text]) for rank in group.others]
            with tf.control_dependencies(sends):
                own = tf.identity(text)
            texts = [
                own if rank == group.rank else group.take("texts", rank, [tf.string], [tf.TensorShape([])])[0]
                for rank in range(group.size)
            ]
        self._session = session_on(server, graph)
        self._gather = self._session.make_callable(texts, [text])
        self._lock = threading.Lock()

    def gather(self, text: str) -> list[str]:
        """Return the texts of all, by rank in the group; all call it, and wait for each other."""
        with self._lock:
            return [each.decode() for each in self._gather(text.encode())]

    def close(self) -> None:
        """End a call that waits, and further ones."""
        self._session.close()


def compare_collectives(ranks: Sequence[int], facts: Sequence[Sequence[str]]) -> None:
    """Raise an error if workers are about to run different collective operations.

    Args:
        ranks: those of the workers.
        facts: for each of them, a line for each operation, which begins with its kind and name.

    Raises:
        CollectiveError: They differ; the message names ranks, operations, shapes and dtypes.
    """
    if len({tuple(each) for each in facts}) == 1:
        return
    by_name: dict[str, dict[int, str]] = {}
    for rank, lines in zip(ranks, facts, strict=True):
        for line in lines:
            kind, name, rest = line.split(" ", 2)
            by_name.setdefault(name, {})[rank] = f"{kind} {rest}"
    lines = []
    for name, of_rank in by_name.items():
        told: dict[str, list[int]] = {}
        for rank in ranks:
            told.setdefault(of_rank.get(rank, "nothing"), []).append(rank)
        if len(told) > 1:
            lines.append(f"{name}: " + ", ".join(f"{fact} in {workers(those)}" for fact, those in told.items()))
    more = f"; and {len(lines) - _MOST_SHOWN} more" if len(lines) > _MOST_SHOWN else ""
    raise CollectiveError(
        "a run got collective operations that differ between the workers: expected the same in all of them; "
        + "; ".join(lines[:_MOST_SHOWN])
        + more
    )


@dataclass
class _Run:
    """A run that waits for other workers."""

    text: str
    ranks: Sequence[int]
    break_off: Callable[[], None]
    has_warned: bool = False
    began: float = field(default_factory=time.monotonic)
    error: CollectiveError | None = None


class StallWatch:
    """Looks, in a thread, at runs that take long: at what each worker waits for.

    Two that wait for different operations, both without an end, get an error. One that has not come is named in the
    log, and after a longer time in an error.

    Args:
        group: all workers.
        server: that of this process.
        warn_secs: when a run is looked at.
        end_secs: when the run gets an error if another worker has not come; None for never.
    """

    def __init__(self, group: WorkerGroup, server: WorkerServer, *, warn_secs: float, end_secs: float | None) -> None:
        self._group, self._server = group, server
        self._warn_secs, self._end_secs = warn_secs, end_secs
        self._runs: dict[int, _Run] = {}
        self._lock = threading.Lock()
        self._is_over = threading.Event()
        self._seen: list[str] = []
        self._shown: _Run | None = None
        self._build()
        self._thread = threading.Thread(target=self._serve, name="watch over collective operations", daemon=True)

    def _build(self) -> None:
        with tf.Graph().as_default() as graph:
            self._text = tf.placeholder(tf.string, [])
            states = [self._state(rank) for rank in range(self._group.size)]
            with on_device(self._group.device()):
                self._say = tf.raw_ops.AssignVariableOp(resource=states[self._group.rank], value=self._text)
            self._told = []
            for rank, state in enumerate(states):
                with on_device(self._group.device(rank)):
                    self._told.append(tf.raw_ops.ReadVariableOp(resource=state, dtype=tf.string))
        self._session = session_on(self._server, graph)
        self._publish("")

    def _state(self, rank: int) -> tf.Tensor:
        with on_device(self._group.device(rank)):
            return tf.raw_ops.VarHandleOp(
                dtype=tf.string, shape=[], shared_name=f"{self._group.run}/waits/{rank}", container=_STATUS_CONTAINER
            )

    def start(self) -> None:
        """Start the thread, when the states of all workers exist."""
        self._thread.start()

    @contextmanager
    def watch(self, text: str, ranks: Sequence[int], break_off: Callable[[], None]) -> Iterator[None]:
        """Watch over a block that waits for the others.

        Args:
            text: what it runs.
            ranks: the workers that take part.
            break_off: makes it return; called from the thread.

        Raises:
            CollectiveError: The others wait for something else, or did not come.
        """
        run = _Run(text, ranks, break_off)
        with self._lock:
            self._runs[id(run)] = run
        try:
            yield
        except Exception as error:
            if run.error is not None:
                raise run.error from error
            raise
        finally:
            with self._lock:
                del self._runs[id(run)]
                # Before the next run: the others must not see this one beside theirs.
                if self._shown is run:
                    self._show(None)

    def close(self, text: str) -> None:
        """End the thread, and tell the others what this process waits for from now on."""
        self._is_over.set()
        if self._thread.is_alive():
            self._thread.join()
        try:
            self._publish(f"0 {text}")
        except tf.errors.OpError as error:
            logger.warning(f"The end of this process could not be told to the others' runs: {error.message}")
        self._session.close()

    def _publish(self, text: str) -> None:
        self._session.run(self._say, {self._text: text})

    def _show(self, run: _Run | None) -> None:
        """Tell the others which run waits for long; the lock is held."""
        self._shown = run
        self._publish("" if run is None else f"{run.began} {run.text}")

    def _serve(self) -> None:
        try:
            while not self._is_over.wait(self._warn_secs / 4):
                with self._lock:
                    run = min(self._runs.values(), key=lambda each: each.began, default=None)
                    if run is not None and time.monotonic() <= run.began + self._warn_secs:
                        run = None
                    if run is not self._shown:
                        self._show(run)
                if run is not None and run.error is None:
                    self._look(run)
        except tf.errors.OpError as error:
            # The loss of a worker is found by its heartbeats.
            logger.warning(f"Runs of collective operations are no longer watched: {error.message}")

    def _look(self, run: _Run) -> None:
        before, told = self._seen, [text.decode() for text in self._session.run(self._told)]
        self._seen = told
        missing = [rank for rank in run.ranks if not told[rank]]
        waits = {rank: told[rank].partition(" ")[2] for rank in run.ranks if told[rank]}
        secs = time.monotonic() - run.began
        if not missing and len(set(waits.values())) > 1 and before == told:
            where = "; ".join(f"worker {rank} waits in {text}" for rank, text in sorted(waits.items()))
            self._end(run, f"the workers wait for each other in different runs: {where}")
        elif missing and self._end_secs is not None and secs > self._end_secs:
            self._end(run, f"{run.text} got nothing from {workers(missing)} for {secs:.0f} s: expected the same run")
        elif missing and not run.has_warned:
            run.has_warned = True
            logger.warning(f"{run.text} has waited for {secs:.0f} s: {workers(missing)} has not come to it.")

    def _end(self, run: _Run, text: str) -> None:
        run.error = CollectiveError(text)
        run.break_off()


def described(facts: Sequence[str]) -> str:
    """Return operations as a short text."""
    shown = [" ".join(line.split(" ", 2)[:2]) for line in facts[:_MOST_SHOWN]]
    more = f" and {len(facts) - _MOST_SHOWN} more" if len(facts) > _MOST_SHOWN else ""
    return ", ".join(shown) + more


def as_text(facts: Sequence[str]) -> str:
    """Return lines as text for the others, for `lines_of`."""
    return json.dumps(list(facts))


def lines_of(text: str) -> list[str]:
    """Return the lines of `as_text`."""
    return [str(line) for line in json.loads(text)]
