"""One process of `scaling_held_out.py`: tpack's exchange of gradients, whose computation is replaced by sleeps.

It is started by `cluster_processes.Row`. A request is ``[shapes, design, sleep_secs, steps]``: the shape of each
gradient, the text of a `Design`, the seconds of a step's computation, and how many steps are measured. The answer is
the median of the seconds of a step, and the mean of the processor's seconds in this process. The request
``[megabytes]`` measures the links with so many, as ``tpack cluster check`` does; the answer is the median of their
seconds of a hop, and of their bytes a second.

Gradients are float32 and become ready one after the other, evenly over the second two thirds of the sleep, the first
one of the list last, as in a backward pass.
"""

import itertools
import time
from dataclasses import replace
from statistics import median

import numpy as np
import tensorflow.compat.v1 as tf
from cluster_exchange_worker import session_config
from cluster_line import place, requests, say

from tpack.multi_worker.all_reduce import all_reduce_between_workers
from tpack.multi_worker.cluster.cluster_spec import ClusterMember
from tpack.multi_worker.cluster.peers import connect_peers
from tpack.multi_worker.cluster.resolver import resolve_cluster
from tpack.multi_worker.scaling.link_benchmark import LinkOptions, measure_links
from tpack.multi_worker.scaling.study import Design
from tpack.multi_worker.servers import start_server, task_device
from tpack.multi_worker.worker_group import WorkerGroup
from tpack.utils.tf_config import ClusterTask

WARMUP_STEPS = 3
FORWARD = 1 / 3
"""The part of a step's computation before the first gradient."""
SECRET = {"TPACK_CLUSTER_SECRET": "of one machine, whose processes have a network each"}
LINK_SECS = 120.0
"""How long a link is waited for."""
NUM_SLEEPS = 8


def build(member, rank, sizes, design, sleep_secs, run):
    """Build a step in the default graph; return its operation."""
    device = f"{task_device(member, rank)}/device:CPU:0"
    group = WorkerGroup([task_device(member, each) for each in range(member.num_workers)], rank, run)
    grads, ready = [None] * len(sizes), tf.no_op()
    with tf.device(device):
        with tf.variable_scope(tf.get_variable_scope(), use_resource=True):
            tf.train.get_or_create_global_step()
        if sleep_secs:
            ready = _sleep(sleep_secs * FORWARD, [])
        each_secs = sleep_secs * (1 - FORWARD) / min(NUM_SLEEPS, len(sizes))
        variables = [
            tf.get_variable(f"v{n}", shape, initializer=tf.zeros_initializer(), use_resource=True)
            for n, shape in enumerate(sizes)
        ]
        for members in np.array_split(range(len(sizes))[::-1], min(NUM_SLEEPS, len(sizes))):
            ready = _sleep(each_secs, [ready]) if sleep_secs else ready
            with tf.control_dependencies([ready]):
                for n in members:
                    grads[n] = variables[n].read_value()
    order = list(range(len(sizes)))[::-1]
    if design is not None:
        # Codecs that begin after some steps begin at once here.
        exchange = replace(Design.parse(design).exchange, start_step=0)
        grads = all_reduce_between_workers(group, grads, exchange=exchange, ready_order=order)
    with tf.device(device):
        updates = [
            tf.raw_ops.AssignVariableOp(resource=variable.handle, value=grad)
            for variable, grad in zip(variables, grads, strict=True)
        ]
        with tf.control_dependencies(updates):
            return tf.train.get_global_step().assign_add(1).op


def _sleep(secs, after):
    with tf.control_dependencies(after):
        return tf.numpy_function(lambda: time.sleep(secs), [], [], stateful=True)


def config():
    """Return the config of the server and of sessions: many processes share the cores."""
    found = session_config()
    found.intra_op_parallelism_threads = 1
    return found


def measure(member, rank, target, request, run, sessions):
    """Build what is asked for, make its steps in a new session, and return the median seconds and the processor's."""
    sizes, design, sleep_secs, steps = request
    with tf.Graph().as_default() as graph, tf.container(run):
        op = build(member, rank, sizes, design, sleep_secs, run)
        initializers = [variable.initializer for variable in tf.global_variables() + tf.local_variables()]
    session = tf.Session(target, graph, config())
    sessions.append(session)
    session.run(initializers)
    step = session.make_callable(op)
    for _ in range(WARMUP_STEPS):
        step()
    times, before = [time.perf_counter()], time.process_time()
    for _ in range(steps):
        step()
        times.append(time.perf_counter())
    busy = (time.process_time() - before) / steps
    return [median(end - begin for begin, end in itertools.pairwise(times)), busy]


def measure_network(addresses, rank, megabytes):
    """Return the latency and the bandwidth of the links between all processes."""
    member = resolve_cluster(ClusterTask({"worker": list(addresses)}, "worker", rank), environment=SECRET)
    with connect_peers(member) as peers:
        speed = measure_links(member, peers, LinkOptions(megabytes, 3, LINK_SECS))
    rates = [rate for pair in speed.pairs for rate in (pair.there, pair.back)]
    return [median(pair.latency_secs for pair in speed.pairs), median(rates)]


def main():
    rank, addresses, _ = place()
    member = ClusterMember({"worker": tuple(addresses)}, "worker", rank)
    server = start_server(member, config=config())
    say("ready")
    # All sessions stay open: others may not have ended their last step when this process has.
    sessions = []
    for number, request in enumerate(requests()):
        if len(request) == 1:
            say(measure_network(addresses, rank, *request))
            continue
        say(measure(member, rank, server.target, request, f"request{number}", sessions))


if __name__ == "__main__":
    main()
