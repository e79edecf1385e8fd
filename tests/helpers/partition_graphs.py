"""Where operations really ran: read from the partition graphs of a run, not from what the graph asks for."""

import re
from typing import Any

import tensorflow.compat.v1 as tf

# An operation whose value is known in advance, such as an empty tensor, becomes a constant on the same device.
_FOLDED = re.compile(r"/_\d+__cf__\d+$")
# They carry a value from one device to another, and are named after it.
_TRANSFERS = frozenset({"_Send", "_Recv", "_HostSend", "_HostRecv"})


def placed_devices(session: Any, fetches: Any, feed_dict: dict[Any, Any] | None = None) -> dict[str, str]:
    """Run `fetches` once and return the device on which each operation of that run was.

    The keys are the names of the operations that TensorFlow's optimizer left in the graph, those of the fetches among
    them unless two compute the same. The devices are canonical names without job and task, such as "/device:CPU:3".
    """
    return run_with_devices(session, fetches, feed_dict)[1]


def run_with_devices(session: Any, fetches: Any, feed_dict: dict[Any, Any] | None = None) -> tuple[Any, dict[str, str]]:
    """Run `fetches` once and return their values and what `placed_devices` returns."""
    metadata = tf.RunMetadata()
    values = session.run(fetches, feed_dict, tf.RunOptions(output_partition_graphs=True), metadata)
    devices = {}
    for partition in metadata.partition_graphs:
        for node in partition.node:
            if node.op in _TRANSFERS:
                continue
            spec = tf.DeviceSpec.from_string(node.device)
            devices[_FOLDED.sub("", node.name)] = f"/device:{spec.device_type}:{spec.device_index}"
    return values, devices
