"""What a failed run means for who trains: input that ended, or a dataset that failed.

TensorFlow names the operation that gave up, which for data is never the place where things went wrong.
"""

import re
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.errors import DataExhaustedError, InputError

# The message of an error ends with the operations it came through, the innermost first.
_OPERATION = re.compile(r"\[\[(?:\{\{node )?([^\]}]+)")


def explain_failure(error: Any, graph: Any) -> InputError | None:
    """Return the error to raise from ``error``, or None when TensorFlow's own says best what happened.

    Args:
        error: a ``tf.errors.OpError`` that a run raised.
        graph: the graph that was run.
    """
    if isinstance(error, tf.errors.OutOfRangeError):
        return DataExhaustedError(
            "a step found no more data: its input ended before training did. Repeat the data, or train fewer steps"
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
