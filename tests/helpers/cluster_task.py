"""One task of a cluster on this machine, in a process of its own: ``python -m tests.helpers.cluster_task``.

The arguments are the number of the task, the number of its CPU devices, and the ports of all tasks. It writes a line
when it listens, and ends when its standard input does.
"""

import sys

import tensorflow.compat.v1 as tf


def main() -> None:
    task, num_cpus, *ports = map(int, sys.argv[1:])
    config = tf.ConfigProto(device_count={"CPU": num_cpus})
    cluster = tf.train.ClusterSpec({"worker": [f"127.0.0.1:{port}" for port in ports]})
    server = tf.train.Server(cluster, job_name="worker", task_index=task, config=config)
    print(server.target, flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
