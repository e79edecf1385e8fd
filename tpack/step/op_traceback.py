"""The operation that failed in a step: the line of the program that made it, its memory, and the side effects before.

A step that is a callable of the session does not name the line. TensorFlow does not list the operations that have run,
but names the failed one, and operations that need it have not run.
"""

import linecache
import os
import re
import traceback
from collections import defaultdict
from collections.abc import Callable, Sequence

import tensorflow.compat.v1 as tf

from tpack.graph_copy import op_kinds
from tpack.tfutils.dependency import ancestors, is_handle
from tpack.types import Fetches

_TPACK = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_TRAIN = os.path.join(_TPACK, "train", "")
# Packages whose lines tell nothing of the program.
_LIBRARIES = (_TPACK + os.sep, *(os.path.join("-packages", name, "") for name in ("tensorflow", "keras", "tf_keras")))
_OPERATIONS = re.compile(r"\[\[(?:\{\{node )?([^\]}]+)")
_NODE = re.compile(r"\{\{(?:function_)?node ([^}]+)\}\}")
_TOWER = re.compile(r"^tower\d+/")
_LABELS = "outside the valid range"
_ALLOCATION = re.compile(r"^ +([\d.]+)(B|KiB|MiB|GiB) from (\S+)$", re.M)
_UNITS = {"B": 0, "KiB": 10, "MiB": 20, "GiB": 30}
_HINT = re.compile(r"\s*Hint: If you want to see a list of allocated tensors.*?(?:Eager mode\.|$)", re.S)
_AGAIN_MS = 60_000
_MOST_TENSORS = 8
"""The most tensors in a report on memory."""
_WAYS_OUT = (
    "What to try: a smaller batch (find_batch_size finds the largest), with accumulate=k of the trainer for the same "
    'steps; precision="bfloat16"; Recompute(optimizer, blocks), which keeps the inputs of blocks alone; '
    "shard_optimizer=True on several devices."
)


def operations_in(message: str) -> list[str]:
    """Return the names of the operations at the end of an error's message, the innermost first."""
    return _OPERATIONS.findall(message)


def with_origin(error: tf.errors.OpError, graph: tf.Graph) -> tf.errors.OpError:
    """Return an error of the same type with the program line of the failed operation; itself if unknown."""
    told = [line for name in _NODE.findall(error.message)[:1] if (line := _origin(name, graph)) is not None]
    if _LABELS in error.message and "label" in error.message:
        told.append("tpack.dataflow.dataset.check_labels(labels, num_classes) finds such labels before training.")
    if not told or type(error) is tf.errors.OpError:
        return error
    message = "\n".join([error.message, *told])
    return type(error)(error.node_def, error.op, message).with_traceback(error.__traceback__)


def with_allocations(
    error: tf.errors.OpError, graph: tf.Graph, again: Callable[[tf.RunOptions], object] | None
) -> tf.errors.OpError:
    """Return an error of exhausted memory with the largest tensors, the lines that made them, and what to try.

    The step is run once more, with a list of all tensors in its error: keeping it up to date would slow each step down.

    Args:
        error: the error of a step.
        graph: its graph.
        again: runs the step with options; None for a step that other processes are part of.
    """
    told = ""
    if again is not None:
        try:
            again(tf.RunOptions(report_tensor_allocations_upon_oom=True, timeout_in_ms=_AGAIN_MS))
        except tf.errors.ResourceExhaustedError as second:
            told = second.message
        except (tf.errors.OpError, RuntimeError):
            # The first error is the one that matters.
            told = ""
    sizes: defaultdict[str, float] = defaultdict(float)
    for number, unit, name in _ALLOCATION.findall(told):
        sizes[name] += float(number) * 2 ** _UNITS[unit]
    lines = []
    for name in sorted(sizes, key=sizes.__getitem__, reverse=True)[:_MOST_TENSORS]:
        lines.append(f"  {sizes[name] / 2**20:,.1f} MiB: {_origin(name, graph) or name}")
    largest = ["The largest tensors at that time:", *lines] if lines else []
    head = _HINT.sub("", error.message).strip()
    return tf.errors.ResourceExhaustedError(error.node_def, error.op, "\n".join([head, *largest, _WAYS_OUT]))


def _origin(name: str, graph: tf.Graph) -> str | None:
    """Return the place where an operation, or the original of a copy in a tower, was made."""
    for like in (name, *(_TOWER.sub(f"tower{number}/", name) for number in (1, 0))):
        try:
            frame = _frame_of_program(graph.get_operation_by_name(like).traceback or ())
        except KeyError:
            continue
        if frame is not None:
            code = linecache.getline(frame.filename, frame.lineno or 0).strip()
            return f"{name} was made in {frame.filename}, line {frame.lineno}, in {frame.name}: {code}"
    return None


def _frame_of_program(frames: Sequence[traceback.FrameSummary]) -> traceback.FrameSummary | None:
    """Return the innermost line of the program; None if a trainer made the operation."""
    for position in reversed(range(len(frames))):
        if not any(library in frames[position].filename for library in _LIBRARIES):
            is_of_trainer = any(inner.filename.startswith(_TRAIN) for inner in frames[position + 1 :])
            return None if is_of_trainer else frames[position]
    return None


def data_taken_by(train_op: Fetches, error: BaseException, *, prefix: str = "") -> int | None:
    """Return the number of dequeues that a step began before it failed, if it failed before any side effect.

    Args:
        train_op: the operation of the step.
        error: the error of the run; its message names the operation that failed.
        prefix: the prefix of the operation's name where a copy of it ran.

    Returns:
        The number of dequeues, the failed one included; None if the step may have had a side effect, or the failed
        operation is unknown.
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
