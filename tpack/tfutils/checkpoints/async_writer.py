"""Write checkpoints while training goes on: the step waits until the values are copied, and not for the disk.

What a saver saves are the inputs of one operation. `SavedCopy` fetches them in the training's session, copies them, and
is itself a session: in a graph that consists of that operation alone, which is fed the copies. So a saver saves it as
it would save the training, with the same files, names and limits, whatever kinds of variables there are.

`Background` does one thing at a time in a thread, and loses no error.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

from tpack.utils.concurrency import StoppableThread

_NUM_NAMES = 3
"""The inputs of the saving operation before the values: the prefix, the names, and which parts of variables are."""


class SavedCopy(tf.Session):
    """A session whose variables are, to one saver, the copies that were made last.

    The memory for the copies is taken with the first and kept.

    Args:
        saver: a ``tf.train.Saver`` that is not sharded.
        graph: the saver's.
    """

    def __init__(self, saver: tf.train.Saver, graph: tf.Graph) -> None:
        saving, self._values = _saving_operation(saver, graph)
        part, placeholders = _graph_of(saving, self._values)
        super().__init__(graph=part, config=tf.ConfigProto(device_count={"GPU": 0}))
        self._placeholders = placeholders
        self._copies: list[Any] = []

    def copy_from(self, session: tf.Session) -> None:
        """Copy the values that the saver's variables have in a session.

        Nothing may be reading the former copies.
        """
        kinds = (tensor.dtype.as_numpy_dtype for tensor in self._values)
        fetched = session.run(self._values)
        values = [np.asarray(value, kind) for value, kind in zip(fetched, kinds, strict=True)]
        if [value.shape for value in values] != [copy.shape for copy in self._copies]:
            self._copies = [np.empty_like(value) for value in values]
        # What is fetched may be the very memory of a variable, which the next step changes.
        for copy, value in zip(self._copies, values, strict=True):
            np.copyto(copy, value)

    def run(self, fetches: Any, feed_dict: Mapping[Any, Any] | None = None, *others: Any) -> Any:
        """Run operations of the saver, on the copies."""
        fed = {**(feed_dict or {}), **dict(zip(self._placeholders, self._copies, strict=True))}
        return super().run(fetches, fed, *others)


class Background:
    """Does one task at a time in a thread of its own, which ends with the process.

    Args:
        name: of the thread.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._thread: StoppableThread | None = None

    @property
    def is_busy(self) -> bool:
        """Whether a task is being done."""
        return self._thread is not None and self._thread.is_alive()

    def begin(self, task: Callable[[], object]) -> None:
        """Do a task in the background, once the last one is over.

        Raises:
            Exception: what the last task raised; then this one is not begun.
        """
        self.wait()
        self._thread = StoppableThread(target=task, name=self._name, daemon=True)
        self._thread.start()

    def wait(self) -> None:
        """Wait until the task is over; there need not be one.

        Raises:
            Exception: what it raised, once.
        """
        thread = self._thread
        if thread is not None:
            thread.join()
            self._thread = None
            thread.reraise()


def _saving_operation(saver: tf.train.Saver, graph: tf.Graph) -> tuple[tf.Operation, list[tf.Tensor]]:
    """Return the end of what a saver runs in order to save, and the tensors that it writes."""
    end = graph.get_tensor_by_name(saver.as_saver_def().save_tensor_name).op
    (save,) = (op for op in end.control_inputs if op.type == "SaveV2")
    return end, list(save.inputs[_NUM_NAMES:])


def _graph_of(end: tf.Operation, values: list[tf.Tensor]) -> tuple[tf.Graph, list[tf.Tensor]]:
    """Return a graph of what a saver runs, under the same names, and the placeholders in it for what it writes."""
    part = tf.Graph()
    definition = tf.GraphDef(versions=part.as_graph_def().versions)
    for op in _needed(end, {value.op.name for value in values}):
        node = definition.node.add()
        node.CopyFrom(op.node_def)
        node.device = ""
    with part.as_default():
        fed = {value.name: tf.placeholder(value.dtype.base_dtype, value.shape) for value in values}
        tf.import_graph_def(definition, input_map=fed, name="")
    return part, list(fed.values())


def _needed(end: tf.Operation, given: set[str]) -> list[tf.Operation]:
    """Return the operations that lead to one, without those that are given and what leads to them."""
    found: dict[str, tf.Operation] = {}
    waiting = [end]
    while waiting:
        op = waiting.pop()
        if op.name not in found and op.name not in given:
            found[op.name] = op
            waiting += [tensor.op for tensor in op.inputs]
            waiting += op.control_inputs
    return list(found.values())
