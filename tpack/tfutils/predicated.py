"""A gate for operations: while it is closed, the operations behind it do not run.

An optimizer that must skip a step cannot be given gradients of zero, since most change weights even then. So all its
operations wait for one output of a ``Switch``, and nothing that waits for an output not taken runs, on any device.
Holding back only its gradients is not enough: Adam's sparse update decays its moments without a gradient. The
operations behind the gate stay ordinary ones of the graph, under their names; ``tf.cond`` would put them into a
function, where nothing else can reach them.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import tensorflow.compat.v1 as tf

from tpack.tfutils.dependency import ancestors
from tpack.tower.collections import CollectionSnapshot


class Gate:
    """Lets operations run while a condition holds.

    Args:
        is_open: the condition, a boolean scalar tensor.

    Example:
        gate = Gate(is_finite)
        with gate.behind():
            update = optimizer.apply_gradients(pairs)
        done = gate.wait_for([update])
    """

    def __init__(self, is_open: tf.Tensor) -> None:
        with tf.device(is_open.device):
            switch = tf.raw_ops.Switch(data=is_open, pred=is_open)
            # Two tensors of which one is there. What waits for a tensor waits for its operation, and a switch always
            # runs: hence the identities.
            self._opened = tf.identity(switch.output_true)
            self._closed = tf.identity(switch.output_false)

    @contextmanager
    def behind(self) -> Iterator[None]:
        """Put the operations that are made in the block behind the gate; variables that are created are not.

        Summaries that are added in the block are empty ones while the gate is closed. One that is not there would fail
        the run of all that it is merged with.
        """
        before = CollectionSnapshot()
        with tf.control_dependencies([self._opened]):
            yield
        graph = tf.get_default_graph()
        for key in graph.get_all_collection_keys():
            added = [item for item in before.added(key) if isinstance(item, tf.Tensor) and item.dtype == tf.string]
            kept = {id(item): self._or_empty(item) for item in added if self._opened.op in ancestors([item])}
            collection = graph.get_collection_ref(key)
            collection[:] = [kept.get(id(item), item) for item in collection]

    def wait_for(self, operations: Iterable[tf.Operation | tf.Tensor]) -> tf.Tensor:
        """Return a tensor that is there in any case: after operations behind the gate if it is open, else at once."""
        with tf.device(self._opened.device):
            with tf.control_dependencies(list(operations)):
                after = tf.identity(self._opened)
            return tf.raw_ops.Merge(inputs=[self._closed, after]).output

    def _or_empty(self, summary: tf.Tensor) -> tf.Tensor:
        with tf.device(summary.device):
            with tf.control_dependencies([self._closed]):
                nothing = tf.constant("")
            return tf.raw_ops.Merge(inputs=[nothing, summary]).output
