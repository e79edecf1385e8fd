"""What a failed run means for who trains: input that ended, a dataset that failed, or a step that took too long.

TensorFlow names the operation that gave up, which for data is never the place where things went wrong.
"""

import re
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.errors import DataExhaustedError, InputError, StepTimeoutError, TpackError

# The message of an error ends with the operations it came through, the innermost first.
_OPERATION = re.compile(r"\[\[(?:\{\{node )?([^\]}]+)")


def explain_failure(error: Any, graph: Any, timeout_in_ms: int = 0) -> TpackError | None:
    """Return the error to raise from ``error``, or None when TensorFlow's own says best what happened.

    Args:
        error: a ``tf.errors.OpError`` that a run raised.
        graph: the graph that was run.
        timeout_in_ms: how long the run was allowed to take; 0 for no limit.
    """
    if isinstance(error, tf.errors.OutOfRangeError):
        return DataExhaustedError(
            "a step found no more data: its input ended before training did. Repeat the data, or train fewer steps"
        )
    # An operation with a time limit of its own names itself.
    if timeout_in_ms and isinstance(error, tf.errors.DeadlineExceededError) and not _OPERATION.search(error.message):
        return StepTimeoutError(
            f"a run took longer than the {timeout_in_ms} ms that its options allow. The callback Watchdog finds out "
            "what a step waits for"
        )
    for name in _OPERATION.findall(error.message):
        if _is_next_element(graph, name):
            return InputError(f"the dataset of {name} failed: {_reason(error.message)}")
    return None


def _reason(message: str) -> str:
    """Return the line before the operations: before that there may be tracebacks, of Python or of the graph."""
    return message.partition("[[")[0].strip().splitlines()[-1].strip()


def _is_next_element(graph: Any, name: str) -> bool:
    try:
        return bool(graph.get_operation_by_name(name).type == "IteratorGetNext")
    except (KeyError, ValueError):
        # Operations inside the functions of a dataset are not the graph's own.
        return False
