"""Benchmark of the links between workers: latency and throughput of each pair, and the processor's time of exchanges.

Pairs are measured in turn, in the same order in all workers; the others wait. It uses the means of training: queues on
the workers' servers, and the all-reduce of gradients.
"""

import os
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.errors import ClusterError
from tpack.multi_worker.all_reduce import Exchange, all_reduce_between_workers
from tpack.multi_worker.cluster.cluster_spec import ClusterMember
from tpack.multi_worker.cluster.cpu_share import share_of_cores
from tpack.multi_worker.cluster.peers import Peers
from tpack.multi_worker.gradient_buckets import BUCKET_BYTES
from tpack.multi_worker.servers import WorkerSessionCreator, task_device
from tpack.multi_worker.worker_group import WorkerGroup
from tpack.reduction.sums import add_pair, on_device
from tpack.tfutils.sesscreate import get_default_sess_config
from tpack.utils.validation import check_arguments, check_count, check_number

_HOPS = 16
"""Hops there and back in a run, so that its overhead counts little."""

_PIECES = 4
"""The tensors that a worker sends side by side, as it does with gradients."""

_WARMUP_RUNS = 2

_WAYS = 4
"""The number of measurements for each pair."""

PROBES: tuple[tuple[int, int, int], ...] = (
    (1, 256, BUCKET_BYTES),
    (8, 256, 1),
    (32, 256, 1),
    (16, 2**14, BUCKET_BYTES),
    (1, 2**20, BUCKET_BYTES),
    (4, 2**20, BUCKET_BYTES),
    (40, 2**16, BUCKET_BYTES),
)
"""Exchanges whose processor's time is measured: the number of arrays, the elements of each, and the bucket's bytes."""

_PAUSES, _PAUSE_SECS = 4, 0.01
"""Pauses in these, after each of which some gradients are ready, as in a backward pass.

An exchange of what is ready at different times costs the processor more than one of the same messages at a time.
"""
# The size of a bucket: most sums are made in the processor's cache.
_SUM_ELEMENTS, _NUM_SUMS = 2**18, 32


@check_arguments
@dataclass(frozen=True)
class LinkOptions:
    """Options of the benchmark.

    Args:
        megabytes: the amount that is sent, and reduced, at a time: millions of bytes.
        runs: the number of repetitions; medians count.
        timeout_secs: how long a worker waits for another one.
        with_processors: also measure the processor's time of exchanges and sums.

    Raises:
        ConfigError: A number is out of range.
    """

    megabytes: float = 8.0
    runs: int = 5
    timeout_secs: float = 60.0
    with_processors: bool = False

    def __post_init__(self) -> None:
        check_number(self, "megabytes", self.megabytes, 0, is_low_allowed=False)
        check_count(self, "runs", self.runs)
        check_number(self, "timeout_secs", self.timeout_secs, 0, is_low_allowed=False)

    @property
    def num_elements(self) -> int:
        """The number of float32 values that are sent: whole pieces."""
        return max(1, round(self.megabytes * 1e6 / 4 / _PIECES)) * _PIECES

    @property
    def pair_secs(self) -> float:
        """The time that others wait for a pair, each run of which may reach its limit."""
        return self.timeout_secs * _WAYS * (_WARMUP_RUNS + self.runs + 1)


@dataclass(frozen=True)
class LinkSpeed:
    """Result of two workers, the first of lower rank: latency of a number, bytes a second each way and reduced."""

    first: int
    second: int
    latency_secs: float
    there: float
    back: float
    all_reduce: float


@dataclass(frozen=True)
class ClusterSpeed:
    """Result of a cluster: its pairs, and bytes a second of gradients that all workers reduce together."""

    pairs: tuple[LinkSpeed, ...]
    all_reduce: float
    probes: tuple[
        float, ...
    ] = ()  # the processor's seconds that each of `PROBES` adds to a step, the mean over the workers
    call_secs: float = 0.0  # the processor's seconds of a step before its first gradient, to call the peers
    sum_secs: float = 0.0  # the processor's seconds of a byte that is added
    step_secs: float = 0.0  # the processor's seconds of a step of nothing
    cores: int = 1  # those of the machine of worker 0


@check_arguments
def measure_links(member: ClusterMember, peers: Peers, options: LinkOptions | None = None) -> ClusterSpeed:
    """Measure all pairs of workers, one after the other, and all together; all workers call it.

    Raises:
        ClusterError: There is one worker only, or a worker did not answer in time, or was lost; the message names it.
    """
    if peers.size < 2:
        raise ClusterError(f"measure_links got one worker: expected at least two; use tpack launch -n 2 ({member})")
    how = options or LinkOptions()
    ranks = range(peers.size)
    pairs = [(first, second) for first in ranks for second in ranks if first < second]
    probe = _Probe(member, peers, how)
    with tf.Graph().as_default() as graph:
        with_own = {pair: probe.build_pair(pair) for pair in pairs if peers.rank in pair}
        together = probe.build_all_reduce(list(ranks), "all")
        exchanges = [probe.build_exchange(number) for number in range(len(PROBES) * how.with_processors)]
        late = probe.build_exchange(0, is_late=True)
        adding, nothing, paused = probe.build_sum(), tf.no_op(), probe.build_pauses()[-1]
        with probe.open_session(graph):
            times: list[Any] = []
            for pair in pairs:
                peers.barrier(f"the pair {pair[0]} and {pair[1]}", timeout_secs=how.pair_secs)
                if pair in with_own:
                    times.append([[*pair], probe.measure_pair(pair, with_own[pair])])
            peers.barrier("all together", timeout_secs=how.pair_secs)
            own_secs = probe.median_secs(together, "'all_reduce' with all")
            idle = probe.processor_secs(paused, "pauses") if exchanges else 0.0
            busy = [max(0.0, probe.processor_secs(op, "an exchange with all") - idle) for op in exchanges]
            call_secs = max(0.0, probe.processor_secs_before(late) - idle) if exchanges else 0.0
            step_secs = probe.processor_secs(nothing, "nothing") if exchanges else 0.0
            adding_secs = max(0.0, probe.processor_secs(adding, "sums") - step_secs) if exchanges else 0.0
            sum_secs = adding_secs / (2 * 4 * _SUM_ELEMENTS * _NUM_SUMS)
            own = [times, own_secs, busy, call_secs, sum_secs, step_secs, os.cpu_count() or 1]
            of_pairs, of_all, *of_processors = zip(*peers.gather("what the pairs take", own), strict=True)
    probes, calls, sums, steps, cores = of_processors
    return ClusterSpeed(
        tuple(_merged(pairs, of_pairs, how)),
        how.num_elements * 4 / max(of_all),
        tuple(map(statistics.mean, zip(*probes, strict=True))),
        statistics.mean(calls),
        statistics.median(sums),
        statistics.median(steps),
        cores[0],
    )


def _merged(pairs: Sequence[tuple[int, int]], gathered: Sequence[Any], how: LinkOptions) -> Iterator[LinkSpeed]:
    size_bytes = how.num_elements * 4
    times = [{tuple(pair): secs for pair, secs in each} for each in gathered]
    for first, second in pairs:
        here, there = times[first][first, second], times[second][first, second]
        # The receiver measures the time.
        yield LinkSpeed(
            first,
            second,
            here["hops"] / (2 * _HOPS),
            size_bytes / there["there"],
            size_bytes / here["back"],
            size_bytes / max(here["all_reduce"], there["all_reduce"]),
        )


class _Probe:
    """Operations of this worker with others, and their times."""

    def __init__(self, member: ClusterMember, peers: Peers, how: LinkOptions) -> None:
        self._member, self._peers, self._how = member, peers, how
        self._num_cores = share_of_cores(peers)
        self._initializers: list[tf.Operation] = []
        self._busy_at_last_pause = 0.0
        self._run_name = peers.broadcast("the name of the measurement", time.time_ns())

    def open_session(self, graph: tf.Graph) -> tf.Session:
        """Open a session with a timeout for each operation."""
        config = get_default_sess_config()
        config.operation_timeout_in_ms = round(self._how.timeout_secs * 1e3)
        creator = WorkerSessionCreator(
            self._member,
            config,
            num_cores=self._num_cores,
            before_connecting=lambda: self._peers.barrier("the start of their servers"),
        )
        with graph.as_default():
            self._session = creator.create_session()
        self._session.run(self._initializers)
        return self._session

    def build_pair(self, pair: tuple[int, int]) -> dict[str, tf.Operation]:
        """Build this worker's operations with another one."""
        first, second = pair
        name = f"pair{first}_{second}"
        group = self._group([first, second], name)
        return {
            "hops": _hops(group),
            "there": _stream(group, 0, "there", self._how.num_elements),
            "back": _stream(group, 1, "back", self._how.num_elements),
            "all_reduce": self.build_all_reduce([first, second], f"{name}_reduced"),
        }

    def build_all_reduce(self, ranks: Sequence[int], name: str) -> tf.Operation:
        """Build this worker's part of an all-reduce."""
        group = self._group(ranks, name)
        with on_device(group.device()):
            grad = tf.fill([self._how.num_elements], float(self._peers.rank))
        (reduced,) = all_reduce_between_workers(group, [grad])
        return reduced.op

    def build_exchange(self, number: int, *, is_late: bool = False) -> tf.Operation:
        """Build this worker's part of one of `PROBES`, or of one whose gradients all follow the last pause."""
        count, num_elements, bucket_bytes = PROBES[number]
        name = f"late{number}" if is_late else f"probe{number}"
        group = self._group(range(self._peers.size), name)
        with on_device(group.device()):
            weights = [self._variable(f"{name}_{n}", num_elements) for n in range(count)]
            pauses = self.build_pauses()
            grads = []
            for n, weight in enumerate(weights):
                with tf.control_dependencies([pauses[-1 if is_late else n * _PAUSES // count]]):
                    grads.append(weight.read_value())
        exchange = Exchange(bucket_bytes=bucket_bytes, levels=1)
        reduced = all_reduce_between_workers(group, grads, exchange=exchange, ready_order=range(count))
        with on_device(group.device()):
            # A training writes to its variables, too: their memory is other memory in each step.
            pairs = zip(weights, reduced, strict=True)
            return tf.group(pauses[-1], *(weight.assign(each, read_value=False) for weight, each in pairs))

    def build_pauses(self) -> list[tf.Operation]:
        """Build the pauses of a probe, one after the other."""
        pauses: list[tf.Operation] = []
        for _ in range(_PAUSES):
            with tf.control_dependencies(pauses[-1:]):
                pauses.append(tf.numpy_function(self._pause, [], [], stateful=True))
        return pauses

    def _pause(self) -> None:
        time.sleep(_PAUSE_SECS)
        self._busy_at_last_pause = time.process_time()

    def _variable(self, name: str, num_elements: int) -> tf.Variable:
        variable = tf.get_variable(name, initializer=tf.zeros([num_elements]), use_resource=True)
        self._initializers.append(variable.initializer)
        return variable

    def build_sum(self) -> tf.Operation:
        """Build sums of two vectors of this worker, one after the other."""
        with on_device(task_device(self._member, self._peers.rank) + "/device:CPU:0"):
            total, other = [self._variable(f"summand{number}", _SUM_ELEMENTS).read_value() for number in range(2)]
            for _ in range(_NUM_SUMS):
                total = add_pair(total, other)
            return total.op

    def _group(self, ranks: Sequence[int], name: str) -> WorkerGroup:
        tasks = [task_device(self._member, rank) for rank in ranks]
        return WorkerGroup(tasks, list(ranks).index(self._peers.rank), f"check{self._run_name}_{name}")

    def measure_pair(self, pair: tuple[int, int], ops: dict[str, tf.Operation]) -> dict[str, float]:
        """Return the seconds of each operation, at this end."""
        (other,) = (rank for rank in pair if rank != self._peers.rank)
        return {name: self.median_secs(op, f"'{name}' with worker {other}") for name, op in ops.items()}

    def median_secs(self, op: tf.Operation, what: str) -> float:
        """Return the seconds of running an operation."""
        return self._median(op, what, time.perf_counter)

    def processor_secs(self, op: tf.Operation, what: str) -> float:
        """Return the seconds that all threads of this process take for an operation."""
        return self._median(op, what, time.process_time)

    def processor_secs_before(self, op: tf.Operation) -> float:
        """Return the seconds that all threads of this process take for an operation before its last pause ends."""
        run, secs = self._session.make_callable(op), []
        for _ in range(_WARMUP_RUNS + self._how.runs):
            start = time.process_time()
            run()
            secs.append(self._busy_at_last_pause - start)
        return statistics.median(secs[_WARMUP_RUNS:])

    def _median(self, op: tf.Operation, what: str, clock: Callable[[], float]) -> float:
        run: Callable[[], Any] = self._session.make_callable(op)
        secs = []
        for _ in range(_WARMUP_RUNS + self._how.runs):
            start = clock()
            try:
                run()
            except tf.errors.OpError as error:
                # The error of a worker that was lost tells more.
                self._peers.wait_until_lost()
                self._peers.check()
                limit = f"{self._how.timeout_secs:g} s"
                raise ClusterError(
                    f"worker {self._peers.rank} could not finish {what} within {limit}: {error.message}"
                ) from error
            secs.append(clock() - start)
        return statistics.median(secs[_WARMUP_RUNS:])


def _hops(group: WorkerGroup) -> tf.Operation:
    """Send a number to the other worker and back again, several times."""
    other = 1 - group.rank
    with on_device(group.device()):
        ball = tf.zeros([])
    handed_on: list[tf.Operation] = []
    for hop in range(2 * _HOPS):
        if hop % 2 == group.rank:
            handed_on = [group.put("hop", other, [ball])]
        else:
            with tf.control_dependencies(handed_on):
                (ball,) = group.take("hop", other, [tf.float32], [tf.TensorShape([])])
    with on_device(group.device()):
        return tf.group(tf.identity(ball), *handed_on)


def _stream(group: WorkerGroup, sender: int, name: str, num_elements: int) -> tf.Operation:
    pieces = [tf.TensorShape([num_elements // _PIECES])] * _PIECES
    if group.rank == sender:
        with on_device(group.device()):
            tensors = [tf.zeros(shape) for shape in pieces]
        return group.put(name, 1 - sender, tensors)
    taken = group.take(name, sender, [tf.float32] * _PIECES, pieces)
    with on_device(group.device()):
        return tf.group(*map(tf.identity, taken))
