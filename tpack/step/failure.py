"""Side effects of a step that was cancelled while it waited for data.

Saving after a cancelled step is safe if the step changed no variable. TensorFlow does not report which operations have
run, only which one failed; the operations that depend on the failed one have not run.
"""

import tensorflow.compat.v1 as tf

from tpack.graph_copy import op_kinds
from tpack.step.op_traceback import operations_in
from tpack.tfutils.dependency import ancestors, is_handle
from tpack.types import Fetches


def data_taken_by(train_op: Fetches, error: BaseException, *, prefix: str = "") -> int | None:
    """Return how many dequeues a step began before it failed, if it failed before any side effect.

    Args:
        train_op: the operation of the step.
        error: the error of the run; its message names the operation that failed.
        prefix: the prefix of the operation's name where a copy of it ran.

    Returns:
        The number of operations that take data and have begun, the failed one included; None if the step may have had a
        side effect, or the failed operation is unknown.
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
    # Operations that count the data and their time run before the data arrive.
    return sum(op.type in op_kinds.TAKING_DATA for op in before)


def _failed_operation(error: BaseException, graph: tf.Graph, prefix: str) -> tf.Operation | None:
    """Return the operation that an error or its cause names."""
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
