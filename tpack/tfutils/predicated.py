"""A gate for operations: while it is closed, the operations behind it do not run.

Skipping a step by gradients of zero fails, since most optimizers change weights even then, and Adam's sparse update
decays its moments. So all operations of an optimizer wait for one output of a ``Switch``; operations that wait for an
output not taken do not run, on any device. They stay ordinary ones of the graph, under their names; ``tf.cond`` would
put them into a function.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import tensorflow.compat.v1 as tf

from tpack.tfutils.dependency import ancestors
from tpack.tower.collections import CollectionSnapshot


class Gate:
    """Lets operations run while a condition, a boolean scalar tensor, holds.

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

        Summaries that are added in the block are empty while the gate is closed: a missing one would fail the run of
        the merged summary.
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
        """Return a tensor that is available after operations behind an open gate, and at once if it is closed."""
        with tf.device(self._opened.device):
            with tf.control_dependencies(list(operations)):
                after = tf.identity(self._opened)
            return tf.raw_ops.Merge(inputs=[self._closed, after]).output

    def either(self, behind: tf.Tensor, otherwise: tf.Tensor) -> tf.Tensor:
        """Return a tensor from behind the gate, or another one of the same shape while it is closed."""
        with tf.device(behind.device):
            with tf.control_dependencies([self._closed]):
                kept = tf.identity(otherwise)
            either = tf.raw_ops.Merge(inputs=[kept, behind]).output
        either.set_shape(behind.shape)
        return either

    def _or_empty(self, summary: tf.Tensor) -> tf.Tensor:
        with tf.device(summary.device):
            with tf.control_dependencies([self._closed]):
                nothing = tf.constant("")
            return tf.raw_ops.Merge(inputs=[nothing, summary]).output
