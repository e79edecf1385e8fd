"""Sessions for tests: a graph with eight logical CPU devices, the stand-in for a machine with eight GPUs."""

from typing import Any

import tensorflow.compat.v1 as tf


def cpu_session(graph: Any = None, *, num_cpus: int = 8, rewrites: bool = False) -> Any:
    """Return a new session on `graph` (default: the current one) that has `num_cpus` logical CPU devices.

    Nothing is placed softly: an op that asks for a device the session lacks is an error, so a test cannot pass on the
    wrong device.

    Args:
        graph: The graph.
        num_cpus: How many devices.
        rewrites: Whether TensorFlow rewrites the graph before it runs, which takes longer than running most graphs of
            tests. Tests of what TensorFlow could spoil by it, such as the order of additions, ask for it.
    """
    config = tf.ConfigProto(device_count={"CPU": num_cpus}, allow_soft_placement=False)
    config.graph_options.rewrite_options.disable_meta_optimizer = not rewrites
    return tf.Session(graph=graph, config=config)
