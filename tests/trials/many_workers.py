"""What one worker of many costs before the network counts: graphs, sockets, the rendezvous, the control channel, plans.

    python -m tests.trials.many_workers [--workers 64 256 1024] [--parts graph sockets meet control plan]
        [--graphs chosen "one level" "two levels" sharded servers]

- graph: a fork of a process that has loaded TensorFlow builds the graph of one worker of W: the exchange of ResNet-50's
  161 gradients, or of a tiny model's 4, in one level, two, or as tpack chooses, with the copies of first values as
  worker 0 and as another; the same with a divided optimizer and with 4 parameter servers. Operations, seconds, and the
  memory that the process takes more at its peak.
- sockets: worker 0 of W makes a session on its server, and runs a step's graph no further than that; the servers of the
  workers that it meets live in one other process. Connections, descriptors and threads of worker 0.
- meet: the rendezvous; the W - 1 others are light sockets that speak the protocol (`tests.helpers.light_peers`).
- control: the control channel of worker 0 with W - 1 such peers: until all are connected, barriers, exchanges of a
  value of 26 kB that is the same in all (the names of ResNet-50's variables), the share of a core that heartbeats take
  while nothing else happens, and how long it takes until all others have been told that one was killed.
- plan: the processes of a job and the environment of each.

It ends with 1 if a part takes more than 60 s or 4 GB.
"""

import argparse
import json
import math
import os
import resource
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import psutil
import tensorflow.compat.v1 as tf

from tests.helpers.light_peers import LightPeers
from tests.helpers.peer_groups import SECRET, member_of
from tpack.cli.launcher.plan import Host, environments_of, make_plan
from tpack.errors import ClusterError
from tpack.multi_worker.all_reduce import Exchange, copy_from_worker
from tpack.multi_worker.cluster.cluster_spec import ClusterMember
from tpack.multi_worker.cluster.consistency import check_consistency
from tpack.multi_worker.cluster.peers import Peers, connect_peers
from tpack.multi_worker.cluster.ports import PortReservation
from tpack.multi_worker.cluster.rendezvous import meet
from tpack.multi_worker.control.handshake import RendezvousOptions
from tpack.multi_worker.control.messages import Timeouts
from tpack.multi_worker.coordinated_stop import StopFlag
from tpack.multi_worker.parameter_server import ParameterServerBuilder, ServerPlacement
from tpack.multi_worker.replicated_builder import MultiWorkerReplicatedBuilder
from tpack.multi_worker.servers import NUM_CHANNELS, WorkerSessionCreator
from tpack.multi_worker.sharded_builder import MultiWorkerShardedBuilder
from tpack.multi_worker.worker_group import WorkerGroup
from tpack.utils import serialize

GRAPHS = ["chosen", "one level", "two levels", "sharded", "servers"]
LIMIT_SECS, LIMIT_BYTES = 60.0, 4 << 30
NUM_PS = 4
# More servers in one process take longer than what is measured.
MOST_SERVERS = 64
HEARTBEAT_SECS, IDLE_SECS = 10.0, 10.0
TIMEOUTS = Timeouts(HEARTBEAT_SECS, 60.0, 300.0, 1 << 28)
BARRIERS = 5


# Graphs


def resnet50() -> list[list[int]]:
    """Return the shapes of ResNet-50's 161 trained variables: 53 convolutions with batch normalisation, and a layer."""
    shapes: list[list[int]] = []

    def convolution(size: int, inputs: int, outputs: int) -> None:
        shapes.extend([[size, size, inputs, outputs], [outputs], [outputs]])

    convolution(7, 3, 64)
    inputs = 64
    for width, blocks in ((64, 3), (128, 4), (256, 6), (512, 3)):
        for block in range(blocks):
            convolution(1, inputs, width)
            convolution(3, width, width)
            convolution(1, width, 4 * width)
            if not block:
                convolution(1, inputs, 4 * width)
            inputs = 4 * width
    return [*shapes, [2048, 1000], [1000]]


MODELS = {"ResNet-50": resnet50, "tiny": lambda: [[16, 16], [16], [16, 4], [4]]}


def gradients_of(model: str) -> list[tuple[tf.Tensor, tf.Variable]]:
    """Create variables, and return what stands for their gradients."""
    variables = [tf.get_variable(f"w{n}", shape, use_resource=True) for n, shape in enumerate(MODELS[model]())]
    return [(variable * 2.0, variable) for variable in variables]


def member_of_many(workers: int, rank: int, num_ps: int = 0) -> ClusterMember:
    """Return a worker of many, each on a machine of its own."""
    cluster = {"worker": tuple(f"10.0.{n // 250}.{n % 250 + 1}:2222" for n in range(workers))}
    if num_ps:
        cluster["ps"] = tuple(f"10.1.0.{n + 1}:2222" for n in range(num_ps))
    return ClusterMember(cluster, "worker", rank)


def build(how: str, model: str, workers: int, rank: int) -> dict[str, Any]:
    """Build the graph of a worker, and return the number of its operations and of the tasks that it meets."""
    if workers > 2:
        # What TensorFlow does once.
        build("chosen", "tiny", 2, rank)
    began, before = time.monotonic(), _peak_bytes()

    def optimizer() -> tf.train.Optimizer:
        return tf.train.MomentumOptimizer(0.1, 0.9)

    with tf.Graph().as_default() as graph:
        tf.train.get_or_create_global_step()
        if how == "servers":
            member = member_of_many(workers, rank, NUM_PS)
            builder: Any = ParameterServerBuilder(1, placement=ServerPlacement(member, "run"), stop_flag=StopFlag())
            builder.build(lambda: gradients_of(model), optimizer)
        else:
            group = WorkerGroup.of_member(member_of_many(workers, rank), "run")
            kind = MultiWorkerShardedBuilder if how == "sharded" else MultiWorkerReplicatedBuilder
            levels = {"one level": 1, "two levels": 2}.get(how)
            builder = kind(1, group, exchange=Exchange(levels=levels), stop_flag=StopFlag())
            builder.build(lambda: gradients_of(model), optimizer)
            copy_from_worker(group, tf.global_variables())
            copy_from_worker(group, tf.global_variables(), name="untrained")
        operations = graph.get_operations()
        tasks = {tf.DeviceSpec.from_string(op.device).task for op in operations if "/job:worker" in op.device}
        found = {"operations": len(operations), "tasks": len(tasks - {rank, None})}
    return {"graph secs": time.monotonic() - began, "graph bytes": _peak_bytes() - before, **found}


def try_graphs(workers: int) -> Iterator[dict[str, Any]]:
    """Build the graphs of workers of a number of them."""
    for how in GRAPHS:
        for model in MODELS:
            if how == "sharded" and len(MODELS[model]()) < workers:
                continue
            for rank in (0, 1):
                found = in_a_fork(lambda how=how, model=model, rank=rank: build(how, model, workers, rank))
                yield {"part": f"graph, {how}, {model}, worker {rank}", **found}


# Sockets


def try_sockets(workers: int) -> Iterator[dict[str, Any]]:
    """Make the session of worker 0, with the servers that its graph names in another process; and with all, for few."""
    for kind in ("those it meets", "all") if workers <= MOST_SERVERS else ("those it meets",):
        reservations = [PortReservation() for _ in range(workers)]
        cluster = {"worker": tuple(f"127.0.0.1:{each.port}" for each in reservations)}
        asked, asks = os.pipe()
        ready, readies = os.pipe()
        with beside(lambda cluster=cluster, asked=asked, readies=readies: _serve_tasks(cluster, asked, readies)):
            found = in_a_fork(lambda kind=kind, c=cluster, a=asks, r=ready: _meet_servers(kind, c, a, r))
            yield {"part": f"sockets, servers: {kind}", **found}
        for descriptor in (asked, asks, ready, readies):
            os.close(descriptor)
        for each in reservations:
            each.close()


def _serve_tasks(cluster: dict[str, tuple[str, ...]], asked: int, readies: int) -> None:
    tasks = json.loads(os.read(asked, 1 << 16))
    servers = [tf.train.Server(cluster, "worker", task) for task in tasks]
    os.write(readies, b"r")
    # Until worker 0 has its figures.
    os.read(asked, 1)
    assert len(servers) == len(tasks)


def _meet_servers(kind: str, cluster: dict[str, tuple[str, ...]], asks: int, ready: int) -> dict[str, Any]:
    member = ClusterMember(cluster, "worker", 0)
    workers = len(cluster["worker"])
    config = tf.ConfigProto()
    with tf.Graph().as_default() as graph:
        group = WorkerGroup.of_member(member, "run")
        builder = MultiWorkerReplicatedBuilder(1, group, exchange=Exchange(levels=2), stop_flag=StopFlag())
        builder.build(lambda: gradients_of("tiny"), lambda: tf.train.MomentumOptimizer(0.1, 0.9))
        copy_from_worker(group, tf.global_variables())
        sizes = []
        for op in graph.get_operations():
            if op.type == "FIFOQueueV2" and "task:0" not in op.device:
                with tf.device(op.device):
                    sizes.append(tf.raw_ops.QueueSizeV2(handle=op.outputs[0]))
        tasks = {tf.DeviceSpec.from_string(op.device).task for op in graph.get_operations() if op.device} - {0, None}
        if kind == "all":
            tasks = set(range(1, workers))
            config.device_filters.append("/job:worker")
        os.write(asks, json.dumps(sorted(tasks)).encode())
        os.read(ready, 1)
        began = time.monotonic()
        with WorkerSessionCreator(member, config).create_session() as session:
            secs = time.monotonic() - began
            for _ in range(2 * NUM_CHANNELS):
                session.run(sizes)
            process = psutil.Process()
            connections = sum(each.status == psutil.CONN_ESTABLISHED for each in process.net_connections("tcp"))
            found = {"session secs": secs, "tasks": len(tasks), "connections": connections}
            found |= {"descriptors": _descriptors(), "threads": process.num_threads()}
            os.write(asks, b"e")
            return found


# Rendezvous and control channel


def try_meeting(workers: int) -> Iterator[dict[str, Any]]:
    """Meet as worker 0; the others are light."""
    with PortReservation() as reservation:
        options = RendezvousOptions(f"127.0.0.1:{reservation.port}", workers, "job", SECRET, 300.0)
        with beside(lambda: _join_lightly(options)):
            found = in_a_fork(lambda: {"addresses": len(meet(options, 0).addresses), "descriptors": _descriptors()})
        yield {"part": "rendezvous, worker 0", **found}


def _join_lightly(options: RendezvousOptions) -> None:
    peers = LightPeers(options, "rendezvous", TIMEOUTS)
    peers.serve_until(lambda: all(peer.seen and "addresses" in peer.seen[-1] for peer in peers.peers))
    peers.close()


def try_control(workers: int) -> Iterator[dict[str, Any]]:
    """Be worker 0 of the control channel; the others are light."""
    names = {f"group{n // 20}/block{n // 3 % 7}/conv{n}/W": "float32 (3, 3, 256, 256), trained" for n in range(430)}
    told, tells = os.pipe()
    with PortReservation() as reservation:
        options = RendezvousOptions(f"127.0.0.1:{reservation.port}", workers, "job", SECRET, 300.0)
        with beside(lambda: _take_part_lightly(options, serialize.dumps(names), tells)):
            os.close(tells)
            for found in in_a_fork(lambda: _serve_as_worker_0(options, names))["phases"]:
                yield {**found, "part": f"control, {found['part']}"}
            yield {"part": "control, a kill is known by all", "secs": float(os.read(told, 100) or math.nan)}
    os.close(told)


def _serve_as_worker_0(options: RendezvousOptions, names: dict[str, str]) -> dict[str, Any]:
    phases: list[dict[str, Any]] = []

    def note(part: str, do: Callable[[], Any]) -> Any:
        began, cpu = time.monotonic(), time.process_time()
        value = do()
        secs, cpu_secs = time.monotonic() - began, time.process_time() - cpu
        phases.append({"part": part, "secs": secs, "cpu_secs": cpu_secs, "descriptors": _descriptors()})
        return value

    peers: Peers = note(
        "all are connected", lambda: connect_peers(member_of(options, 0), heartbeat_secs=HEARTBEAT_SECS)
    )
    try:
        note(f"{BARRIERS} barriers", lambda: [peers.barrier(f"barrier {n}") for n in range(BARRIERS)])
        note(f"{IDLE_SECS:g} s of heartbeats", lambda: threading.Event().wait(IDLE_SECS))
        note("agreement", lambda: check_consistency(peers, {"variables": names}))
        note("26 kB from each", lambda: peers.gather("names", names))
        peers.barrier("the last")
        peers.wait_until_lost()
    except ClusterError as error:
        phases.append({"part": f"failed: {error}"})
    peers.close()
    return {"phases": phases}


def _take_part_lightly(options: RendezvousOptions, names: bytes, tells: int) -> None:
    digests = _digest(serialize.loads(names))
    peers = LightPeers(options, "worker", TIMEOUTS)
    peers.serve_until(lambda: peers.all_have("complete"))
    for n in range(BARRIERS):
        peers.gather(f"barrier {n}", b"")
    peers.gather("digests of what workers have", digests)
    peers.gather("names", names)
    peers.gather("the last", b"")
    began = time.monotonic()
    peers.peers[-1].channel.close()
    peers.serve_until(lambda: peers.all_have("lost"))
    os.write(tells, f"{time.monotonic() - began}".encode())
    peers.close()


def _digest(names: dict[str, str]) -> bytes:
    """Return what `check_consistency` sends of these variables."""
    sent: list[Any] = []

    class Recorder:
        def gather(self, topic: str, value: Any) -> list[Any]:
            sent.append(value)
            return [value]

    check_consistency.__wrapped__(Recorder(), {"variables": names})
    return serialize.dumps(sent[0])


def _descriptors() -> int:
    return psutil.Process().num_fds()


# Plans


def try_plans(workers: int) -> Iterator[dict[str, Any]]:
    """Plan jobs on machines of 8 workers, and on one."""
    for hosts in ([Host(f"node{n // 8}", 8, f"node{n // 8}") for n in range(workers)], [Host()] * workers):
        for num_ps in (0, NUM_PS):

            def plan(hosts: list[Host] = hosts, num_ps: int = num_ps) -> dict[str, Any]:
                processes = make_plan(hosts, num_ps, False)
                ports = {process.rank: 20000 + process.rank for process in processes}
                sizes = [len(json.dumps(each)) for each in environments_of(processes, ports, 19999)]
                return {"largest": max(sizes), "bytes": sum(sizes)}

            where = f"{len(set(hosts))} machines" if len(set(hosts)) > 1 else "one machine"
            yield {"part": f"plan, {where}, {num_ps} ps", **in_a_fork(plan)}


# Processes


def in_a_fork(function: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Call a function in a fork; return its result, its seconds, those of the processor, and the memory at its peak."""
    told, tells = os.pipe()
    pid = os.fork()
    if not pid:
        code = 1
        try:
            os.close(told)
            before = _peak_bytes()
            began, cpu = time.monotonic(), time.process_time()
            found = {"secs": 0.0, "cpu_secs": 0.0, **function()}
            found["secs"], found["cpu_secs"] = time.monotonic() - began, time.process_time() - cpu
            found["bytes more"] = _peak_bytes() - before
            with os.fdopen(tells, "w") as file:
                json.dump(found, file)
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    os.close(tells)
    with os.fdopen(told) as file:
        text = file.read()
    os.waitpid(pid, 0)
    assert text, "the fork failed"
    found = json.loads(text)
    assert isinstance(found, dict)
    return found


@contextmanager
def beside(function: Callable[[], None]) -> Iterator[None]:
    """Call a function in a fork during a block."""
    pid = os.fork()
    if not pid:
        code = 1
        try:
            function()
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    try:
        yield
    finally:
        _, status = os.waitpid(pid, 0)
    assert status == 0, "the process beside failed"


def _peak_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10


PARTS: dict[str, Callable[[int], Iterator[dict[str, Any]]]] = {
    "graph": try_graphs,
    "sockets": try_sockets,
    "meet": try_meeting,
    "control": try_control,
    "plan": try_plans,
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", nargs="+", type=int, default=[64, 256, 1024])
    parser.add_argument("--parts", nargs="+", choices=list(PARTS), default=list(PARTS))
    parser.add_argument("--graphs", nargs="+", choices=list(GRAPHS), default=list(GRAPHS))
    options = parser.parse_args()
    GRAPHS[:] = options.graphs
    wanted = max(options.workers) * 4 + 1024
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(wanted, hard), hard))
    faults = []
    for workers in options.workers:
        for part in options.parts:
            for found in PARTS[part](workers):
                print(f"W = {workers}: {json.dumps(_rounded(found))}", flush=True)
                if found.get("secs", 0.0) > LIMIT_SECS or found.get("bytes more", 0) > LIMIT_BYTES:
                    faults.append(f"{workers}: {found['part']}")
    print(f"load {os.getloadavg()[0]:.1f}; {len(faults)} beyond the limits: {faults}")
    return int(bool(faults))


def _rounded(found: dict[str, Any]) -> dict[str, Any]:
    short = {name: round(value, 3) if isinstance(value, float) else value for name, value in found.items()}
    if "bytes more" in short:
        short["MiB more"] = short.pop("bytes more") >> 20
    return short


if __name__ == "__main__":
    sys.exit(main())
