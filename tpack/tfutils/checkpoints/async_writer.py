"""Write checkpoints while training continues: the step waits for a copy of the values, not for the disk.

`SavedCopy` fetches the inputs of the saving operation in the training's session, copies them, and is a session of a
graph with that operation alone, which is fed the copies. So the saver writes the same files under the same names and
limits, for all kinds of variables.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

from tpack.utils.concurrency import StoppableThread

_NUM_NAMES = 3
"""The inputs of the saving operation before the values: the prefix, the names, and which parts of variables are."""


class SavedCopy(tf.Session):
    """A session in which the variables of a saver, which is not sharded, have the values that were copied last.

    The memory for the copies is allocated once. Create it after the training's session, which sets the number of
    threads of an operation for the process.
    """

    def __init__(self, saver: tf.train.Saver, graph: tf.Graph) -> None:
        saving = graph.get_tensor_by_name(saver.as_saver_def().save_tensor_name).op
        (save,) = (op for op in saving.control_inputs if op.type == "SaveV2")
        self._values: list[tf.Tensor] = list(save.inputs[_NUM_NAMES:])
        part, placeholders = _graph_of(saving, self._values)
        super().__init__(graph=part, config=tf.ConfigProto(device_count={"GPU": 0}))
        self._placeholders = placeholders
        self._copies: list[Any] = []

    def copy_from(self, session: tf.Session) -> None:
        """Copy the values of the saver's variables in a session, while the former copies are not being read."""
        kinds = (tensor.dtype.as_numpy_dtype for tensor in self._values)
        fetched = session.run(self._values)
        values = [np.asarray(value, kind) for value, kind in zip(fetched, kinds, strict=True)]
        if [value.shape for value in values] != [copy.shape for copy in self._copies]:
            self._copies = [np.empty_like(value) for value in values]
        # What is fetched may be the very memory of a variable, which the next step changes.
        for copy, value in zip(self._copies, values, strict=True):
            np.copyto(copy, value)

    def run(self, fetches: Any, feed_dict: Mapping[Any, Any] | None = None, *others: Any) -> Any:
        """Run operations of the saver on the copies."""
        fed = {**(feed_dict or {}), **dict(zip(self._placeholders, self._copies, strict=True))}
        return super().run(fetches, fed, *others)


class Background:
    """Runs one task at a time in a thread of this name, which ends with the process."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._thread: StoppableThread | None = None

    @property
    def is_busy(self) -> bool:
        """Whether a task is running."""
        return self._thread is not None and self._thread.is_alive()

    def begin(self, task: Callable[[], object]) -> None:
        """Start a task in the background when the last one has ended; raise the error of the last one instead."""
        self.wait()
        self._thread = StoppableThread(target=task, name=self._name, daemon=True)
        self._thread.start()

    def wait(self) -> None:
        """Wait until the task, if any, has ended, and raise its error, once."""
        thread = self._thread
        if thread is not None:
            thread.join()
            self._thread = None
            thread.reraise()


def _graph_of(end: tf.Operation, values: list[tf.Tensor]) -> tuple[tf.Graph, list[tf.Tensor]]:
    """Return a graph of a saver's operations, under the same names, and placeholders for the saved values."""
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
    """Return the operations that lead to one, without the given ones and those that lead to them."""
    found: dict[str, tf.Operation] = {}
    waiting = [end]
    while waiting:
        op = waiting.pop()
        if op.name not in found and op.name not in given:
            found[op.name] = op
            waiting += [tensor.op for tensor in op.inputs]
            waiting += op.control_inputs
    return list(found.values())
