"""What a step had done that was broken off while it waited for data: nothing, or nobody knows.

A checkpoint of training as it stands is right if the step has changed no variable. TensorFlow does not tell which
operations it has run. But it tells which one failed, the one that waited; and what needs that one has not run.
"""

import tensorflow.compat.v1 as tf

from tpack.graph_copy import op_kinds
from tpack.step.op_traceback import operations_in
from tpack.tfutils.dependency import ancestors, is_handle
from tpack.types import Fetches


def data_taken_by(train_op: Fetches, error: BaseException, *, prefix: str = "") -> int | None:
    """Tell how many times a step began to take data before it failed, if it failed before it changed anything.

    Args:
        train_op: what the step ran.
        error: what the run raised; its message names the operation that failed.
        prefix: what stands before the operation's name where a copy of it was run.

    Returns:
        The number of operations that take data and have begun, the one that failed included; None if the step may have
        changed something, or it is not known where it failed.
    """
    targets = tf.nest.flatten(train_op)
    failed = _failed_operation(error, targets[0].graph, prefix)
    needed = ancestors(targets)
    if failed is None or failed.type not in op_kinds.TAKING_DATA or failed not in needed:
        return None
    before = ancestors([failed])
    for op in needed:
        may_have_run = op not in before and failed not in ancestors([op])
        if may_have_run and (op.type in op_kinds.TAKING_DATA or _changes_something(op)):
            return None
    # What counts the data and their time runs before they are there.
    return sum(op.type in op_kinds.TAKING_DATA for op in before)


def _failed_operation(error: BaseException, graph: tf.Graph, prefix: str) -> tf.Operation | None:
    """Return the operation that failed, which stands in an error's own message or in that of its cause."""
    while not isinstance(error, tf.errors.OpError):
        if error.__cause__ is None:
            return None
        error = error.__cause__
    operations = {op.name: op for op in graph.get_operations()}
    return next((operations.get(name.removeprefix(prefix)) for name in operations_in(error.message)), None)


def _changes_something(op: tf.Operation) -> bool:
    """Tell whether an operation may change a variable that is not local to this run."""
    if op.type in op_kinds.OPAQUE:
        return True
    if op.type in op_kinds.READING:
        return False
    local = {variable.op for variable in op.graph.get_collection(tf.GraphKeys.LOCAL_VARIABLES)}
    return any(tensor.op not in local for tensor in filter(is_handle, op.inputs))
