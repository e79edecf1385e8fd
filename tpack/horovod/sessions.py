"""Sessions of a script, which become sessions on the server of its process.

Queues between the workers are on their servers, and a session of ``tf.Session()`` has no way there. So while there are
several workers, a session without a target gets that of this process's server. Its operations are placed in this
process, in a container of their graph. Its objects are destroyed with the last session of the graph, so that the next
one begins without values, as one without a server does. Two sessions of one graph at a time share variables.
"""

import threading
import uuid
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, Protocol
from weakref import WeakSet

import numpy as np
import tensorflow.compat.v1 as tf

from tpack.compat.operations import place_in_task
from tpack.compat.runtime import override_session_methods
from tpack.errors import ClusterError
from tpack.horovod.errors import CollectiveError
from tpack.horovod.negotiation import (
    StallWatch,
    TextExchange,
    as_text,
    compare_collectives,
    described,
    lines_of,
    session_on,
)
from tpack.multi_worker.cluster.peers import Peers
from tpack.multi_worker.servers import LOST_CONNECTION, NUM_CHANNELS, WorkerServer
from tpack.step.fetch_plan import graph_element, is_composite
from tpack.tfutils.sesscreate import choose_rewrites
from tpack.tower.per_graph import PerGraph
from tpack.utils.logger import log_once


class CollectiveNames:
    """The collective operations of a graph.

    Attributes:
        facts: {name of a tensor's operation: (number of the process set, line for `compare_collectives`)}.
        names: names that are in use, each with its process set.
        reductions: {fact: (results, what is sent) of reductions}.
        joins: what is fed to joins: the rank of the last worker.
        needed: the operations that runs of some elements need.
    """

    def __init__(self) -> None:
        self.reductions: dict[tuple[int, str], list[tuple[tuple[tf.Tensor, ...], tuple[tf.Tensor, ...]]]] = {}
        self.joins: list[tf.Tensor] = []
        self.facts: dict[str, tuple[int, str]] = {}
        self.names: set[tuple[int, str]] = set()
        self.needed: dict[tuple[Any, ...], dict[int, tuple[str, ...]]] = {}


JOINED = "join"
"""The line of a join."""

collective_names: PerGraph[CollectiveNames] = PerGraph(CollectiveNames)


class _Placement:
    """Placed operations of a graph, and its sessions."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.container = f"graph-{uuid.uuid4().hex}"
        self.num_placed = 0
        self.sessions: WeakSet[tf.Session] = WeakSet()

    def place_new(self, graph: tf.Graph, server: WorkerServer) -> None:
        """Place the operations that were made since the last call."""
        with self.lock:
            if graph.version > self.num_placed:
                operations = graph.get_operations()
                place_in_task(operations[self.num_placed :], server.device, self.container)
                self.num_placed = len(operations)

    def forget_values(self, graph: tf.Graph, server: WorkerServer) -> None:
        """Destroy variables, tables and queues of the graph on the server."""
        with self.lock:
            operations = graph.get_operations()[: self.num_placed]
        own = [each.node_def for each in operations if _is_stateful_handle(each, self.container)]
        if not own:
            return
        with tf.Graph().as_default() as destroying:
            nodes = tf.GraphDef(node=own, versions=graph.graph_def_versions)
            for node in nodes.node:
                node.attr.pop("_class", None)
            handles = tf.import_graph_def(nodes, return_elements=[f"{node.name}:0" for node in own], name="state")
            destroy = [tf.raw_ops.DestroyResourceOp(resource=handle, ignore_lookup_error=True) for handle in handles]
            everything = tf.group(*destroy)
        with session_on(server, destroying) as session:
            session.run(everything)


def _is_stateful_handle(operation: tf.Operation, container: str) -> bool:
    """Tell whether an operation makes a handle of an object in a container."""
    if operation.inputs or len(operation.outputs) != 1 or operation.outputs[0].dtype != tf.resource:
        return False
    return "container" in operation.node_def.attr and operation.get_attr("container") == container.encode()


_placements: PerGraph[_Placement] = PerGraph(_Placement)


class RuntimeOfSessions(Protocol):
    """The part of `tpack.horovod.runtime.Runtime` that sessions need."""

    server: WorkerServer
    peers: Peers

    @property
    def watch(self) -> StallWatch:
        """The watch over runs."""

    def exchange_of(self, number: int) -> TextExchange:
        """Return the exchange of texts of a process set."""

    def ranks_of(self, number: int) -> list[int]:
        """Return the ranks of a process set."""

    @property
    def has_join(self) -> bool:
        """Whether a worker may leave the others to themselves, so that they meet before each run."""

    def note_run(self) -> None:
        """Count a run in which all workers take part."""


class Interception:
    """Sessions of this process between ``init`` and ``shutdown``.

    Args:
        runtime: the state of this process, of several.
    """

    def __init__(self, runtime: RuntimeOfSessions) -> None:
        self._runtime = runtime
        self._sessions: WeakSet[tf.Session] = WeakSet()
        self._agreed: set[tuple[int, tuple[str, ...]]] = set()
        self._running: list[tf.Session] = []
        self._is_over = False
        self._changed = threading.Condition()
        self._restore = override_session_methods(
            __init__=self._init,
            _extend_graph=self._extend,
            _do_run=self._run,
            _make_callable_from_options=self._make_callable,
            make_callable=self._make_function,
            close=self._close,
        )

    def uninstall(self) -> None:
        """Let new sessions be those of TensorFlow again; the others stay on the server."""
        self._is_over = True
        self._restore()

    def break_off(self, grace_secs: float) -> bool:
        """Close the sessions whose runs wait for other workers; return whether these end within a time."""
        with self._changed:
            waiting = list(self._running)
        for session in waiting:
            threading.Thread(target=session.close, name="breaks off a run", daemon=True).start()
        with self._changed:
            return self._changed.wait_for(lambda: not set(waiting) & set(self._running), grace_secs)

    # Methods of sessions. Each gets the one that it replaces.

    def _init(self, original: Callable[..., None], session: tf.Session, *args: Any, **kwargs: Any) -> None:
        names = ("target", "graph", "config")
        given = dict(zip(names, args, strict=False)) | kwargs
        graph = given.get("graph") or tf.get_default_graph()
        config = given.get("config")
        if given.get("target") or not isinstance(config, tf.ConfigProto | None) or not isinstance(graph, tf.Graph):
            original(session, *args, **kwargs)
            return
        full = tf.ConfigProto()
        full.CopyFrom(config or tf.ConfigProto())
        full.rpc_options.num_channels_per_target = NUM_CHANNELS
        if not full.graph_options.HasField("rewrite_options"):
            if collective_names.of(graph).facts:
                choose_rewrites(full, graph)
            else:
                # Of a graph that is not complete nothing can be told.
                full.graph_options.rewrite_options.disable_meta_optimizer = True
        placement = _placements.of(graph)
        if len(placement.sessions):
            log_once("Two sessions of one graph are open: they share its variables, on the server of this process.")
        original(session, self._runtime.server.target, graph, full)
        self._sessions.add(session)
        placement.sessions.add(session)

    def _extend(self, original: Callable[..., None], session: tf.Session) -> None:
        if session in self._sessions:
            _placements.of(session.graph).place_new(session.graph, self._runtime.server)
        original(session)

    def _run(
        self,
        original: Callable[..., Any],
        session: tf.Session,
        handle: Any,
        targets: Sequence[tf.Operation],
        fetches: Sequence[tf.Tensor],
        feeds: Any,
        *rest: Any,
    ) -> Any:
        needed = self._needed(session, [*targets, *fetches], [each.deref() for each in feeds])
        if JOINED in needed.get(0, ()):
            last = self._join(original, session)
            feeds = {**feeds, **{each.ref(): np.int32(last) for each in collective_names.of(session.graph).joins}}
            needed = {number: tuple(line for line in lines if line != JOINED) for number, lines in needed.items()}
        if not any(needed.values()):
            return original(session, handle, targets, fetches, feeds, *rest)
        return self._together(session, needed, lambda: original(session, handle, targets, fetches, feeds, *rest))

    def _make_callable(self, original: Callable[..., Any], session: tf.Session, options: Any) -> Callable[..., Any]:
        graph = session.graph
        elements = [graph.as_graph_element(name) for name in (*options.fetch, *options.target)]
        needed = self._needed(session, elements, [graph.as_graph_element(name) for name in options.feed])
        if JOINED in needed.get(0, ()):
            raise CollectiveError("hvd.join() got a callable of a session: expected a call of its run")
        made: Callable[..., Any] = original(session, options)
        if not needed:
            return made
        return lambda *args, **kwargs: self._together(session, needed, lambda: made(*args, **kwargs))

    def _make_function(
        self,
        original: Callable[..., Any],
        session: tf.Session,
        fetches: Any,
        feed_list: Sequence[Any] | None = None,
        accept_options: bool = False,
    ) -> Callable[..., Any]:
        """Return a function that calls ``run``, if others take part in what it runs."""
        flat = () if is_composite(fetches) or session not in self._sessions else tf.nest.flatten(fetches)
        if not self._needed(session, [graph_element(session.graph, leaf) for leaf in flat], feed_list or ()):
            made: Callable[..., Any] = original(session, fetches, feed_list, accept_options)
            return made

        def run(*values: Any, **options: Any) -> Any:
            return session.run(fetches, dict(zip(feed_list or (), values, strict=True)), **options)

        return run

    def _close(self, original: Callable[..., None], session: tf.Session) -> None:
        was_open = session in self._sessions
        original(session)
        if not was_open:
            return
        self._sessions.discard(session)
        placement = _placements.of(session.graph)
        placement.sessions.discard(session)
        # After a loss a session would wait for a server that is gone, and the process ends.
        if not len(placement.sessions) and not self._is_over and self._runtime.peers.error is None:
            placement.forget_values(session.graph, self._runtime.server)

    # Runs with collective operations.

    def _needed(
        self, session: tf.Session, elements: Sequence[tf.Operation | tf.Tensor], fed: Sequence[tf.Tensor]
    ) -> dict[int, tuple[str, ...]]:
        """Return the lines of the collective operations that a run needs, by process set."""
        if session not in self._sessions:
            return {}
        names = collective_names.of(session.graph)
        if not names.facts:
            return {}
        key = (tuple(each.name for each in elements), tuple(each.name for each in fed))
        if key not in names.needed:
            names.needed[key] = _collectives_of(names.facts, elements, {each.name for each in fed})
        return names.needed[key]

    def _together(self, session: tf.Session, needed: dict[int, tuple[str, ...]], run: Callable[[], Any]) -> Any:
        """Run what the other workers run too."""
        runtime = self._runtime
        lines = [line for facts in needed.values() for line in facts]
        ranks = sorted({rank for number in needed for rank in runtime.ranks_of(number)})
        with self._waiting(session, f"a run of {described(lines)}", ranks):
            for number, facts in sorted(needed.items()):
                if facts:
                    self._agree(number, facts)
            if needed.get(0):
                runtime.note_run()
            return run()

    @contextmanager
    def _waiting(self, session: tf.Session, text: str, ranks: Sequence[int]) -> Iterator[None]:
        """Watch over a block that waits for other workers, and find out whether one of them was lost."""
        runtime = self._runtime
        with ExitStack() as stack:
            stack.callback(self._note_end, session)
            with self._changed:
                self._running.append(session)
            try:
                with runtime.watch.watch(text, ranks, session.close):
                    yield
            except CollectiveError:
                raise
            except (*LOST_CONNECTION, RuntimeError) as error:
                raise_if_lost(runtime.peers, error)
                raise

    def _join(self, original: Callable[..., Any], session: tf.Session) -> int:
        """Reduce zeros until all workers have joined; return the last one's rank."""
        runtime = self._runtime
        before: set[int] = set()
        with self._waiting(session, "hvd.join()", runtime.ranks_of(0)):
            while True:
                facts = [lines_of(text) for text in runtime.exchange_of(0).gather(as_text([JOINED]))]
                joined = {rank for rank, lines in enumerate(facts) if lines == [JOINED]}
                if len(joined) == len(facts):
                    return max(joined - before)
                before = joined
                others = sorted(set(range(len(facts))) - joined)
                compare_collectives(others, [facts[rank] for rank in others])
                self._reduce_zeros(original, session, facts[others[0]])

    def _reduce_zeros(self, original: Callable[..., Any], session: tf.Session, lines: Sequence[str]) -> None:
        """Take part in what the others run."""
        known = collective_names.of(session.graph).reductions
        lacking = [line for line in lines if (0, line) not in known]
        if lacking:
            raise CollectiveError(
                f"hvd.join() got {described(lacking)} from the others: expected reductions that this worker's graph "
                "has too, and no backward_passes_per_step"
            )
        made = [each for line in lines for each in known[0, line]]
        feeds = {tensor.ref(): _zeros(tensor) for _, sent in made for tensor in sent}
        self._runtime.note_run()
        original(session, None, [], [tensor for results, _ in made for tensor in results], feeds, None, None)

    def _note_end(self, session: tf.Session) -> None:
        with self._changed:
            self._running.remove(session)
            self._changed.notify_all()

    def _agree(self, number: int, facts: tuple[str, ...]) -> None:
        """Compare what a process set is about to run, before the first time."""
        if (number, facts) in self._agreed and not (self._runtime.has_join and number == 0):
            return
        told = [lines_of(text) for text in self._runtime.exchange_of(number).gather(as_text(facts))]
        here = [(rank, lines) for rank, lines in zip(self._runtime.ranks_of(number), told, strict=True)]
        trains = [(rank, lines) for rank, lines in here if lines != [JOINED]]
        compare_collectives([rank for rank, _ in trains], [lines for _, lines in trains])
        self._agreed.add((number, facts))


def _zeros(tensor: tf.Tensor) -> np.ndarray:
    """Return zeros for a reduction: of the shape of a dense tensor, and no row of others."""
    shape = [0 if size is None else size for size in tensor.shape.as_list()]
    return np.zeros(shape, tensor.dtype.as_numpy_dtype)


def raise_if_lost(peers: Peers, error: BaseException) -> None:
    """Raise the loss of another worker, if that was the reason of an error.

    Raises:
        PeerLostError: A worker was lost, or has failed.
        ClusterError: Another one has ended too early.
    """
    peers.wait_until_lost()
    lost: ClusterError | None = peers.error
    if lost is not None:
        raise lost from error


def _collectives_of(
    facts: dict[str, tuple[int, str]], elements: Sequence[tf.Operation | tf.Tensor], fed: Collection[str]
) -> dict[int, tuple[str, ...]]:
    """Return the lines of all collective operations before some elements of a graph, by process set."""
    found: dict[int, set[str]] = {}
    stack = [each for each in elements if each.name not in fed]
    seen = set()
    while stack:
        each = stack.pop()
        operation = each if isinstance(each, tf.Operation) else each.op
        if operation.name in seen:
            continue
        seen.add(operation.name)
        if operation.name in facts:
            number, line = facts[operation.name]
            found.setdefault(number, set()).add(line)
        stack += [tensor for tensor in operation.inputs if tensor.name not in fed]
        stack += operation.control_inputs
    return {number: tuple(sorted(lines)) for number, lines in found.items()}
