"""Where in a program an operation was made that failed: a step that is a callable of the session does not say it."""

import linecache
import os
import re
import traceback
from collections.abc import Sequence

import tensorflow.compat.v1 as tf

_TPACK = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
_TRAIN = os.path.join(_TPACK, "train", "")
# Packages whose lines tell nothing of the program.
_LIBRARIES = (_TPACK + os.sep, *(os.path.join("-packages", name, "") for name in ("tensorflow", "keras", "tf_keras")))
_OPERATIONS = re.compile(r"\[\[(?:\{\{node )?([^\]}]+)")
_NODE = re.compile(r"\{\{(?:function_)?node ([^}]+)\}\}")
_TOWER = re.compile(r"^tower\d+/")
_LABELS = "outside the valid range"


def operations_in(message: str) -> list[str]:
    """Return the names of the operations at the end of an error's message, the innermost first."""
    return _OPERATIONS.findall(message)


def with_origin(error: tf.errors.OpError, graph: tf.Graph) -> tf.errors.OpError:
    """Return an error of the same type that says which line of the program made the operation that failed.

    Args:
        error: as TensorFlow raised it.
        graph: which was run.

    Returns:
        The error itself where this is not known.
    """
    told = [line for name in _NODE.findall(error.message)[:1] if (line := _origin(name, graph)) is not None]
    if _LABELS in error.message and "label" in error.message:
        told.append("tpack.dataflow.dataset.check_labels(labels, num_classes) finds such labels before training.")
    if not told or type(error) is tf.errors.OpError:
        return error
    message = "\n".join([error.message, *told])
    return type(error)(error.node_def, error.op, message).with_traceback(error.__traceback__)


def _origin(name: str, graph: tf.Graph) -> str | None:
    """Return in words where an operation was made; in a tower that was copied, where its like was."""
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
    """Return the innermost line of the program; None where it only called a trainer, which made the operation."""
    for position in reversed(range(len(frames))):
        if not any(library in frames[position].filename for library in _LIBRARIES):
            is_of_trainer = any(inner.filename.startswith(_TRAIN) for inner in frames[position + 1 :])
            return None if is_of_trainer else frames[position]
    return None
