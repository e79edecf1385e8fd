"""One process of `cluster_exchange.py`: tpack's and TensorFlow's ways to take the mean of arrays over processes.

It is started by `cluster_processes.Row` with the number of elements and of arrays. For each request ``[way, steps]`` it
makes so many steps and answers with the seconds of one; with 0 steps it answers with the first element, to see that it
is the mean. A step takes the arrays from variables, exchanges them and assigns the result, so that all ways read and
write alike.
"""

import functools
import json
import os
import time

import tensorflow.compat.v1 as tf
from cluster_line import place, requests, say

import tpack.horovod as hvd
from tpack.multi_worker.all_reduce import all_reduce_between_workers
from tpack.multi_worker.cluster.cluster_spec import ClusterMember
from tpack.multi_worker.servers import NUM_CHANNELS, start_server, task_device
from tpack.multi_worker.worker_group import WorkerGroup

LEADER = "/job:worker/replica:0/task:0"
RING = "collective ring"
HOROVOD = "hvd.allreduce"


def session_config():
    """Return the config of servers and sessions: without rewrites, which would copy nothing and only take time."""
    config = tf.ConfigProto()
    config.rpc_options.num_channels_per_target = NUM_CHANNELS
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    config.experimental.collective_group_leader = LEADER
    return config


class Arrays:
    """The variables of one worker; all elements are its rank and 1."""

    def __init__(self, member, rank, sizes):
        self.rank = rank
        self.device = f"{task_device(member, rank)}/device:CPU:0"
        with tf.device(self.device):
            self.variables = [
                tf.Variable(tf.fill([size], float(rank + 1)), use_resource=True, name=f"array{n}_of_{rank}")
                for n, size in enumerate(sizes)
            ]
            self.values = [variable.read_value() * 1.0 for variable in self.variables]

    def assign(self, results):
        """Return the operations that assign the results."""
        with tf.device(self.device):
            return [
                tf.raw_ops.AssignVariableOp(resource=variable.handle, value=result)
                for variable, result in zip(self.variables, results, strict=True)
            ]


def nothing(member, sizes):
    """Each worker assigns its own values: what a step takes without an exchange."""
    arrays = Arrays(member, member.rank, sizes)
    return [arrays], arrays.assign(arrays.values)


def one_graph(member, sizes):
    """One graph over all workers, driven by the chief: parts are copied to their owners, added and copied back."""
    if member.rank:
        return None
    workers = [Arrays(member, rank, sizes) for rank in range(member.num_workers)]
    results = [[] for _ in workers]
    for values in zip(*(worker.values for worker in workers), strict=True):
        parts = []
        for worker, value in zip(workers, values, strict=True):
            with tf.device(worker.device):
                parts.append(tf.split(value, len(workers)))
        means = []
        for worker, column in zip(workers, zip(*parts, strict=True), strict=True):
            with tf.device(worker.device):
                means.append(tf.add_n(column) / len(workers))
        for worker in workers:
            with tf.device(worker.device):
                results[worker.rank].append(tf.concat(means, 0))
    return workers, [op for worker in workers for op in worker.assign(results[worker.rank])]


def queues(member, sizes):
    """Take the exchange of tpack's trainers: a graph for each worker, which meet in queues."""
    arrays = Arrays(member, member.rank, sizes)
    group = WorkerGroup.of_member(member, "exchange")
    return [arrays], arrays.assign(all_reduce_between_workers(group, arrays.values))


def collective(member, sizes):
    """TensorFlow's collective ring, one operation for each array."""
    arrays = Arrays(member, member.rank, sizes)
    with tf.device(arrays.device):
        results = [
            tf.raw_ops.CollectiveReduce(
                input=value,
                group_size=member.num_workers,
                group_key=1,
                instance_key=number,
                merge_op="Add",
                final_op="Div",
                subdiv_offsets=[0],
                communication_hint="ring",
                timeout_seconds=60,
            )
            for number, value in enumerate(arrays.values)
        ]
    return [arrays], arrays.assign(results)


def horovod(member, sizes):
    """Horovod's names for the exchange of tpack's trainers, in a session of the script's own."""
    task = {"type": "worker", "index": member.rank}
    os.environ["TF_CONFIG"] = json.dumps({"cluster": {"worker": list(member.workers)}, "task": task})
    hvd.init()
    arrays = Arrays(member, member.rank, sizes)
    return [arrays], arrays.assign(hvd.grouped_allreduce(arrays.values))


WAYS = {"nothing": nothing, "queues": queues, HOROVOD: horovod, "one graph": one_graph, RING: collective}


def make_way(member, target, sizes, way):
    """Build one way in this process; return the function that makes a number of steps."""
    with tf.Graph().as_default() as graph:
        built = WAYS[way](member, sizes)
        if built is None:
            return lambda steps: None
        workers, ops = built
        with tf.device(workers[0].device):
            first = tf.identity(workers[0].variables[-1].read_value()[0])
        session = tf.Session("" if way == HOROVOD else target, graph, session_config())
        session.run([variable.initializer for worker in workers for variable in worker.variables])
        step = session.make_callable(tf.group(*ops))

    def run_round(steps):
        if not steps:
            return float(session.run(first))
        start = time.perf_counter()
        for _ in range(steps):
            step()
        return (time.perf_counter() - start) / steps

    return run_round


def main():
    rank, addresses, (elements, num_arrays) = place()
    member = ClusterMember({"worker": tuple(addresses)}, "worker", rank)
    server = start_server(member, config=session_config())
    # Each array can be dealt out evenly.
    length = max(1, int(elements) // (int(num_arrays) * len(addresses))) * len(addresses)
    make = functools.cache(functools.partial(make_way, member, server.target, [length] * int(num_arrays)))
    say("ready")
    for way, steps in requests():
        say(make(way)(steps))


if __name__ == "__main__":
    main()
