"""The default graph that a script of TensorFlow 1 builds into without saying so.

In TensorFlow 1 there was always a default graph. Today code outside of a ``with graph.as_default():`` is executed
eagerly, and a script that begins with ``tf.placeholder`` or ``tf.constant`` ends with an error, or computes what no
session knows. So the first time that such a script asks `tpack.tf1` for what builds, its thread gets a default graph,
and keeps it. It is one graph for all threads of the program, as it was.

Nothing is switched for the rest of the program: other threads, and code inside of any graph, are as they were. A
program that also executes eagerly in this thread builds inside of ``with tf.Graph().as_default():``, and asks for no
such name elsewhere; or it calls `leave_default_graph`.
"""

import threading
from contextlib import ExitStack
from types import FunctionType, ModuleType

import tensorflow.compat.v1 as tf

__all__ = ["leave_default_graph", "reset_default_graph"]

_NAMESPACES = (
    "audio bitwise data debugging image io layers linalg losses manip math metrics nn quantization queue ragged random "
    "sets signal sparse spectral strings summary train"
)
"""Those whose functions build."""

_CLASSES = "ConditionalAccumulator InteractiveSession Session SparseConditionalAccumulator Variable"
"""Those whose objects build, beside queues and readers."""

_OTHER_FUNCTIONS = (
    "as_dtype executing_eagerly executing_eagerly_outside_functions get_logger get_static_value init_scope is_tensor "
    "leave_default_graph load_file_system_library load_library load_op_library make_ndarray make_tensor_proto "
    "py_function reset_default_graph wrap_function"
)
"""Those that are asked before or instead of building."""


class _Thread(threading.local):
    """The script's graph that a thread has entered, and the context that leaves it."""

    def __init__(self) -> None:
        self.graph: tf.Graph | None = None
        self.entered = ExitStack()


_thread = _Thread()
_graphs: list[tf.Graph] = []
"""The script's graph, if it has one already."""


def builds(name: str, value: object) -> bool:
    """Tell whether a name of ``tf``, with its value, is asked for in order to build."""
    if isinstance(value, ModuleType):
        return name in _NAMESPACES.split()
    if isinstance(value, type):
        return name in _CLASSES.split() or name.endswith(("Queue", "Reader"))
    is_switch = name.startswith(("enable_", "disable_")) or name.endswith("_enabled")
    return isinstance(value, FunctionType) and not is_switch and name not in _OTHER_FUNCTIONS.split()


def enter_default_graph() -> None:
    """Make the script's graph the default one of this thread, if the thread executes eagerly and did not ask before.

    Threads that Python has not started are TensorFlow's own, which run Python functions of the graph.
    """
    if not tf.executing_eagerly() or _is_current(_thread.graph):
        return
    if isinstance(threading.current_thread(), threading._DummyThread):
        return
    if not _graphs:
        _graphs.append(tf.Graph())
    _enter(_graphs[0])


def _is_current(graph: tf.Graph | None) -> bool:
    """Tell whether a graph is the script's, and not one from before `reset_default_graph`."""
    return graph is not None and graph in _graphs


def _enter(graph: tf.Graph) -> None:
    _thread.entered.enter_context(graph.as_default())
    _thread.graph = graph


def reset_default_graph() -> None:
    """Put an empty graph into the place of the default one, as TensorFlow's function of this name does.

    Raises:
        AssertionError: A graph of the script's own is the default one here: leave its ``with`` block first.
    """
    if _thread.graph is None or tf.get_default_graph() is not _thread.graph or _is_in_session():
        tf.reset_default_graph()
        _graphs.clear()
        return
    _thread.entered.close()
    _graphs[:] = [tf.Graph()]
    _enter(_graphs[0])


def _is_in_session() -> bool:
    """Tell whether this is inside of ``with tf.Session():``, which has entered the graph once more."""
    return not isinstance(tf.get_default_session(), tf.InteractiveSession | None)


def leave_default_graph() -> None:
    """Let this thread execute eagerly again, and forget the graph.

    Raises:
        AssertionError: A block that was entered since then, such as ``with tf.Session():``, has not been left.
    """
    _thread.entered.close()
    _thread.graph = None
    _graphs.clear()
