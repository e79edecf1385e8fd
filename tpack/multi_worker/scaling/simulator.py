"""Discrete-event simulation of a step: tasks of processors, links and devices, and the chain of them that ends last.

Workers are alike, so one of them is simulated, and what it receives comes when it sends the same itself. Parameter
servers are nodes of their own. Workers of one machine share its cores and its link: each has its part of them, since
all use them at the same time. The messages of a hop are divided into a few batches, which pass the processor of the
sender, its link, the way, the receiver's link and its processor one after the other.
"""

import heapq
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import NormalDist

from tpack.multi_worker.codecs.base import Codec
from tpack.multi_worker.scaling.network import NetworkSpeed
from tpack.multi_worker.scaling.schedule import ELSEWHERE, WORKER, Course, Hop, Schedule, Work

CAUSES = ("computation", "stragglers", "latency", "bandwidth", "messages", "copies", "sums", "codec", "other")
"""What a step's time is spent on, as `StepTime.causes` has it."""

_BATCHES = 8


@dataclass(frozen=True)
class Computation:
    """The computation of a step, which no exchange delays.

    Attributes:
        secs: its mean.
        jitter_secs: its standard deviation from step to step.
        ready: when each gradient is ready, in the order of the schedule's gradients, as a share of it.
    """

    secs: float
    ready: Sequence[float]
    jitter_secs: float = 0.0

    def slowest_secs(self, workers: int, steps: int = 1) -> float:
        """Return how much later than the mean the slowest of W workers has computed some steps, if it is normal."""
        if workers == 1:
            return 0.0
        # Blom's approximation of the expected largest of W.
        return self.jitter_secs * math.sqrt(steps) * NormalDist().inv_cdf((workers - 0.375) / (workers + 0.25))


@dataclass(frozen=True)
class Machine:
    """Share of a machine that a worker has.

    Attributes:
        cores: those of a machine.
        workers: how many workers share it.
        server_cores: those of a parameter server.
    """

    cores: float
    workers: int = 1
    server_cores: float = 1.0


@dataclass(frozen=True)
class StepTime:
    """A simulated step.

    Attributes:
        secs: its duration.
        causes: the seconds of each of `CAUSES` in the chain of tasks that ends last; their sum is the duration.
    """

    secs: float
    causes: dict[str, float]

    @property
    def limit(self) -> str:
        """The cause, other than computation, of most of the time that a step takes longer; "computation" if little."""
        others = {cause: secs for cause, secs in self.causes.items() if cause != "computation"}
        most = max(others, key=lambda cause: others[cause])
        return "computation" if sum(others.values()) < 0.02 * self.secs else most


@dataclass
class _Resource:
    """Some servers of one kind, each of which works on one task at a time, the first that is ready first."""

    free_at: list[float]
    slowness: float = 1.0


@dataclass
class _Task:
    resource: str | None
    causes: dict[str, float]
    after: Sequence[int]
    begin: float = 0.0
    end: float = 0.0
    binding: int | None = None
    next_ones: list[int] = field(default_factory=list)

    @property
    def secs(self) -> float:
        return sum(self.causes.values())


class Timeline:
    """Tasks with the tasks that precede them, on resources.

    A task without a resource waits for nothing but these.
    """

    def __init__(self) -> None:
        self._tasks: list[_Task] = []
        self._resources: dict[str, _Resource] = {}

    def provide(self, name: str, servers: float) -> None:
        """Add a resource; less than one server, or a part of one more, makes the whole ones slower or faster."""
        whole = max(1, math.floor(servers))
        self._resources[name] = _Resource([0.0] * whole, max(1.0, whole / servers))

    def add(self, resource: str | None, causes: dict[str, float], after: Sequence[int] = ()) -> int:
        """Add a task and return its number.

        Args:
            resource: the name of what it occupies; None for nothing.
            causes: its seconds by cause.
            after: the tasks that precede it.
        """
        self._tasks.append(_Task(resource, causes, after))
        return len(self._tasks) - 1

    def run(self) -> StepTime:
        """Return the time until the last task ends, and its causes."""
        tasks = self._tasks
        waiting = [len(set(task.after)) for task in tasks]
        for number, task in enumerate(tasks):
            for before in set(task.after):
                tasks[before].next_ones.append(number)
        ready = [(0.0, number) for number, count in enumerate(waiting) if not count]
        last_on: dict[tuple[str, int], int] = {}
        while ready:
            at, number = heapq.heappop(ready)
            self._run_task(number, at, last_on)
            for following in tasks[number].next_ones:
                waiting[following] -= 1
                if not waiting[following]:
                    latest = max(tasks[following].after, key=lambda before: tasks[before].end)
                    tasks[following].binding = latest
                    heapq.heappush(ready, (tasks[latest].end, following))
        return self._result()

    def _run_task(self, number: int, at: float, last_on: dict[tuple[str, int], int]) -> None:
        task = self._tasks[number]
        resource = None if task.resource is None else self._resources[task.resource]
        if resource is None or task.resource is None:
            task.begin, task.end = at, at + task.secs
            return
        server = min(range(len(resource.free_at)), key=resource.free_at.__getitem__)
        if resource.free_at[server] > at:
            at, task.binding = resource.free_at[server], last_on[task.resource, server]
        if resource.slowness != 1.0:
            task.causes = {cause: secs * resource.slowness for cause, secs in task.causes.items()}
        task.begin, task.end = at, at + task.secs
        resource.free_at[server], last_on[task.resource, server] = task.end, number

    def _result(self) -> StepTime:
        causes = dict.fromkeys(CAUSES, 0.0)
        number: int | None = max(range(len(self._tasks)), key=lambda n: self._tasks[n].end, default=None)
        secs = 0.0 if number is None else self._tasks[number].end
        while number is not None:
            task = self._tasks[number]
            for cause, part in task.causes.items():
                causes[cause] += part
            number = task.binding
        return StepTime(secs, causes)


class _Step:
    """The tasks of a step."""

    def __init__(self, network: NetworkSpeed, machine: Machine, codec_secs: tuple[float, float]) -> None:
        self.timeline = Timeline()
        self._network, self._machine = network, machine
        self._encode_secs, self._decode_secs = codec_secs
        self._known: set[str] = set()

    def node(self, name: str) -> str | None:
        """Provide the processor and both directions of the link of a node; return None for one that is idle."""
        if name == ELSEWHERE:
            return None
        if name not in self._known:
            self._known.add(name)
            is_worker = name == WORKER
            own = self._machine.cores / self._machine.workers if is_worker else self._machine.server_cores
            self.timeline.provide(f"{name} cores", own)
            for direction in ("out", "in"):
                self.timeline.provide(f"{name} {direction}", 1 / self._machine.workers if is_worker else 1)
        return name

    def processor(self, name: str, causes: dict[str, float], after: Sequence[int]) -> int:
        """Add work of a node's processor."""
        node = self.node(name)
        return self.timeline.add(f"{node} cores" if node else None, causes, after)

    def course(self, course: Course, after: Sequence[int]) -> list[int]:
        """Add the tasks of a bucket; return those that end it."""
        for stage in course.stages:
            after = [task for lane in stage for task in self._lane(lane, after)]
        return list(after)

    def _lane(self, lane: Sequence[Hop | Work], after: Sequence[int]) -> Sequence[int]:
        for each in lane:
            after = self._hop(each, after) if isinstance(each, Hop) else self._work(each, after)
        return after

    def _work(self, work: Work, after: Sequence[int]) -> Sequence[int]:
        causes = {
            "sums": work.summed_bytes * self._network.sum_secs,
            "codec": work.encoded * self._encode_secs + work.decoded * self._decode_secs,
        }
        causes = {cause: secs for cause, secs in causes.items() if secs}
        return [self.processor(work.node, causes, after)] if causes else after

    def _hop(self, hop: Hop, after: Sequence[int]) -> Sequence[int]:
        count = max(1, min(_BATCHES, max(hop.sent, hop.received)))
        return [self._batch(hop, count, after) for _ in range(count)]

    def _batch(self, hop: Hop, count: int, after: Sequence[int]) -> int:
        """Add the tasks of a part of the messages of a hop."""
        network, timeline = self._network, self.timeline

        def handled(messages: int, size_bytes: int) -> dict[str, float]:
            # Either end has half of the work.
            return {
                "messages": messages / count * network.message_secs / 2,
                "copies": size_bytes / count * network.byte_secs / 2,
            }

        def carried(node: str, direction: str, size_bytes: int, after: Sequence[int]) -> Sequence[int]:
            secs = size_bytes / count * hop.remote / network.bandwidth
            known = self.node(node)
            resource = f"{known} {direction}" if known else None
            return [timeline.add(resource, {"bandwidth": secs}, after)] if secs else after

        sent = [self.processor(hop.sender, handled(hop.sent, hop.sent_bytes), after)]
        # What arrives begins to do so before all of it has left, so both links are busy at the same time.
        left = carried(hop.sender, "out", hop.sent_bytes, sent)
        first, last = (timeline.add(None, {"latency": network.latency_secs}, each) for each in (sent, left))
        arrived = carried(hop.receiver, "in", hop.received_bytes, [first])
        return self.processor(hop.receiver, handled(hop.received, hop.received_bytes), [last, *arrived])


def simulate_step(
    schedule: Schedule,
    computation: Computation,
    network: NetworkSpeed,
    machine: Machine,
    workers: int,
    *,
    codec: Codec | None = None,
) -> StepTime:
    """Return the time of a step in which W workers exchange.

    Args:
        schedule: that of one of the workers.
        computation: that of each.
        network: what was measured.
        machine: what a worker has of its machine.
        workers: W, for the slowest of them.
        codec: that of the exchange.
    """
    step = _Step(network, machine, network.codec_secs(codec))
    timeline = step.timeline
    begin = step.processor(WORKER, {"other": network.step_secs / 2}, ())
    # A peer is called when the step begins, and answers and cleans up when it ends.
    calling = schedule.peers * network.peer_secs
    calls = step.processor(WORKER, {"messages": calling * network.call_share}, [begin])
    fetched = [task for course in schedule.before for task in step.course(course, [begin])] or [begin]
    timeline.provide("device", 1)
    slowest = computation.slowest_secs(workers)
    total = computation.secs + slowest
    points = sorted({0.0, 1.0, *computation.ready})
    reached, before, earlier = {}, fetched, 0.0
    for point in points:
        share = point - earlier
        causes = {"computation": share * computation.secs, "stragglers": share * slowest}
        before = [timeline.add("device", causes, before)] if total else before
        reached[point], earlier = before, point
    ends = [*before, calls]
    for course in schedule.courses:
        ready = max((computation.ready[n] for n in course.members), default=1.0)
        ends += step.course(course, [*reached[ready], calls])
    step.processor(WORKER, {"other": network.step_secs / 2, "messages": calling * (1 - network.call_share)}, ends)
    return timeline.run()
