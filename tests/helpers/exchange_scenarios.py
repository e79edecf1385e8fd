"""What workers do in tests of the exchange and of servers, beside `tests.helpers.worker_scenarios`."""

import functools
import os
import socket
from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

from tests.helpers.adasum_oracle import adasum
from tpack.errors import TpackError
from tpack.multi_worker.all_reduce import Arrivals, Exchange, all_reduce_between_workers, copy_from_worker
from tpack.multi_worker.cluster.cluster_spec import ClusterMember
from tpack.multi_worker.cluster.peers import Peers, connect_peers
from tpack.multi_worker.cluster.resolver import resolve_cluster
from tpack.multi_worker.servers import WorkerSessionCreator, start_server, task_device
from tpack.multi_worker.worker_group import WorkerGroup
from tpack.tower.grads import ReduceOp
from tpack.utils.addresses import parse_address

STEPS = 3


def gradients_of(rank: int, step: int, dtype: str) -> list[np.ndarray]:
    """Return dense gradients of a worker in a step: odd shapes, a scalar, nothing, several buckets, one in parts."""
    rng = np.random.default_rng([rank, step])
    return [rng.normal(size=shape).astype(dtype) for shape in [(5, 3), (), (0, 4), (1001,), (7,), (70_001, 3)]]


def rows_of(rank: int) -> tuple[np.ndarray, np.ndarray]:
    """Return values and indices of a worker's sparse gradient: another number of rows on each, one of them twice."""
    indices = np.arange(rank + 2) // 2
    return (np.ones([rank + 2, 2]) * (rank + 1)).astype("float32"), indices


def exchange_once(member: ClusterMember, peers: Peers, run: str, op: str, wire_dtype: str | None) -> list[Any]:
    """Exchange gradients for some steps; return what came out of each."""
    group = WorkerGroup.of_member(member, run)
    with tf.Graph().as_default():
        step = tf.placeholder(tf.int32, [])
        dense = [
            tf.ensure_shape(tf.gather(tf.constant(np.stack(steps)), step), steps[0].shape)
            for dtype in ("float32", "float64")
            for steps in zip(*(gradients_of(group.rank, number, dtype) for number in range(STEPS)), strict=True)
        ]
        values, indices = rows_of(group.rank)
        sparse = tf.IndexedSlices(tf.constant(values) * (1.0 + tf.cast(step, tf.float32)), tf.constant(indices))
        how = Exchange(wire_dtype, bucket_bytes=2000)
        reduced = all_reduce_between_workers(group, [*dense, sparse], ReduceOp(op), exchange=how)
        creator = WorkerSessionCreator(member, before_connecting=functools.partial(peers.barrier, "servers"))
        with creator.create_session() as session:
            found = [session.run(reduced, {step: number}) for number in range(STEPS)]
            peers.barrier("the end")
    return [[(each.values, each.indices) if hasattr(each, "indices") else each for each in step] for step in found]


def copy_once(member: ClusterMember, peers: Peers) -> dict[str, Any]:
    """Copy variables from worker 1, twice in one session."""
    group = WorkerGroup.of_member(member, "copies")
    with tf.Graph().as_default():
        start = tf.constant([float(group.rank), 1.0])
        variables = [
            tf.get_variable("resource", initializer=start, use_resource=True),
            tf.get_variable("ref", initializer=start * 2, use_resource=False),
        ]
        copy = copy_from_worker(group, variables if group.rank else variables[::-1], root=1)
        others = [tf.get_variable("own" if group.rank else "another", [])]
        copy_others = copy_from_worker(group, others, root=1, name="others")
        creator = WorkerSessionCreator(member, before_connecting=functools.partial(peers.barrier, "servers"))
        with creator.create_session() as session:
            unset = [bool(session.run(tf.is_variable_initialized(variable))) for variable in variables]
            session.run([variable.initializer for variable in variables])
            session.run(copy)
            session.run(copy)
            copied = session.run(variables)
            session.run(others[0].initializer)
            said = _error(lambda: session.run(copy_others))
            peers.barrier("the end")
    return {"unset": unset, "copied": copied, "device": variables[0].device, "other names": said}


def exchange() -> dict[str, Any]:
    """Exchange in several ways, one after the other in one process, as several trainings would."""
    member = resolve_cluster()
    with connect_peers(member) as peers:
        found: dict[str, Any] = {
            f"{op} {wire_dtype}": exchange_once(member, peers, f"run {op} {wire_dtype}", op, wire_dtype)
            for op, wire_dtype in [("sum", None), ("mean", None), ("mean", "bfloat16")]
        }
    return found


def servers() -> dict[str, Any]:
    """Make two sessions, one after the other, and look at the server on which they were."""
    member = resolve_cluster()
    with connect_peers(member) as peers:
        found = {name: copy_once(member, peers) for name in ("copies", "again")}
        found["server"] = _look_at_server(member)
        peers.barrier("all is looked at")
    return found


def _look_at_server(member: ClusterMember) -> dict[str, Any]:
    """Find out where the others' servers can be reached, and what starting another one says."""
    _, port = parse_address("ClusterMember", "workers", member.workers[1 - (member.rank or 0)])
    found: dict[str, Any] = {"there": _connects("127.0.0.1", port), "elsewhere": _connects("127.0.0.2", port)}
    found["same"] = start_server(member) is start_server(member)
    found["more devices"] = _error(lambda: start_server(member, num_cpu_devices=9))
    taken = ClusterMember({"worker": tuple(reversed(member.workers))}, "worker", member.rank or 0)
    found["port in use"] = _error(lambda: start_server(taken))
    found["devices"] = [task_device(member), task_device(member, 1)]
    return found


def _connects(host: str, port: int) -> bool:
    with socket.socket() as connection:
        connection.settimeout(0.3)
        try:
            connection.connect((host, port))
        except OSError:
            return False
    return True


def _error(function: Any) -> str:
    try:
        function()
    except (TpackError, tf.errors.OpError) as error:
        return f"{type(error).__name__}: {error}"
    return f"nothing, in process {os.getpid()}"


def levels() -> dict[str, Any]:
    """Exchange a bucket in one and in two levels, with a count of arrivals, and another by Adasum."""
    member = resolve_cluster()
    rank = member.rank or 0
    rows = [np.random.default_rng(number).integers(-99, 99, size=(2, 90_000)) / 8 for number in range(4)]
    found: dict[str, Any] = {"wanted": adasum([of_rank[0] for of_rank in rows])}
    with connect_peers(member) as peers, tf.Graph().as_default() as graph:
        group, arrivals = WorkerGroup.of_member(member, "levels"), Arrivals()
        own = list(tf.unstack(tf.constant(rows[rank], tf.float32)))
        fetches = {
            "one": all_reduce_between_workers(group, own, name="one", exchange=Exchange(levels=1)),
            "two": all_reduce_between_workers(group, own, name="two", exchange=Exchange(levels=2, arrivals=arrivals)),
        }
        queues = [op for op in graph.get_operations() if op.type == "FIFOQueueV2"]
        found["queues"] = sum(b"/two/" in op.get_attr("shared_name") for op in queues)
        how = Exchange(op="adasum")
        with tf.variable_scope("copied"):
            of_rank = tf.get_variable("rank", [], initializer=tf.constant_initializer(rank), use_resource=True)
            copy = copy_from_worker(group, [of_rank], root=1)
        fetches["adasum"] = all_reduce_between_workers(group, own[:1], name="adasum", exchange=how)[0]
        creator = WorkerSessionCreator(member, before_connecting=functools.partial(peers.barrier, "servers"))
        with creator.create_session() as session:
            session.run([tf.local_variables_initializer(), of_rank.initializer])
            for _ in range(STEPS):
                found |= session.run(fetches)
            session.run(copy)
            found["copied"] = session.run(of_rank)
            found["missing"] = [arrivals.missing(session) for _ in range(2)][1]
            peers.barrier("the end")
    return found


def few_of_many(size: int) -> dict[str, Any]:
    """Exchange between two workers of many, of which no others run, by a graph that has operations in these two."""
    met = resolve_cluster()
    others = tuple(f"127.0.0.1:{port}" for port in range(1, size - 1))
    member = ClusterMember({"worker": (*met.workers, *others)}, "worker", met.rank or 0)
    with connect_peers(met) as peers, tf.Graph().as_default():
        group = WorkerGroup([task_device(member, rank) for rank in range(2)], met.rank or 0, "few")
        total = all_reduce_between_workers(group, [tf.constant([1.0 + group.rank])], ReduceOp.SUM)
        creator = WorkerSessionCreator(member, before_connecting=functools.partial(peers.barrier, "servers"))
        with creator.create_session() as session:
            found = {"total": session.run(total), "devices": [each.name for each in session.list_devices()]}
            peers.barrier("the end")
    return found
