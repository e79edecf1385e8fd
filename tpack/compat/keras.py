"""Places in the code of Keras; comparisons of tensors and collections of graphs as that code expects them."""

import inspect
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from operator import attrgetter
from typing import Any

import tensorflow.compat.v1 as tfv1

KERAS_LAYER_FILES = (
    "/keras/src/layers/layer.py",
    "/tf_keras/src/engine/base_layer.py",
    "/tf_keras/src/engine/base_layer_v1.py",
)
KERAS_VARIABLE_FILE = "/keras/src/backend/common/variables.py"
# Where the object whose ``trainable`` counts for a new variable is ``self``: functions and their files, Keras's own in
# the place that it has had since 3.16 first.
KERAS_MAKING = {
    "_initialize": ("/keras/src/backend/tensorflow/ops/core.py", "/keras/src/backend/tensorflow/core.py"),
    "add_weight": KERAS_LAYER_FILES[1:],
}
# Code of Keras that calls layers and assigns to variables: package, class, method and the files it may be in.
_KERAS_PLACES = (
    ("keras", "layers.Layer", "__call__", KERAS_LAYER_FILES[:1]),
    ("tf_keras", "layers.Layer", "__call__", KERAS_LAYER_FILES[1:2]),
    ("keras", "Variable", "assign", (KERAS_VARIABLE_FILE,)),
    ("keras", "Variable", "_initialize", KERAS_MAKING["_initialize"]),
)
KERAS_BUILDING = ("_maybe_build", "build_wrapper")


def unknown_keras_places() -> list[str]:
    """Return the code of the loaded Keras that is in other files than `KERAS_LAYER_FILES` and `KERAS_VARIABLE_FILE`."""
    wrong = []
    for package, owner, method, files in _KERAS_PLACES:
        with suppress(AttributeError, KeyError):
            function = inspect.unwrap(attrgetter(f"{owner}.{method}")(sys.modules[package]))
            found = function.__code__.co_filename.replace("\\", "/")
            if not found.endswith(files):
                wrong.append(f"{package}.{owner}.{method} is in {found}, and not in {' or '.join(files)}")
    return wrong


def filter_collection(graph: tfv1.Graph, key: str, is_kept: Callable[[Any], bool]) -> None:
    """Leave items out of what a graph returns as a collection from now on; the collection itself keeps them."""
    whole = graph.get_collection

    def get_collection(name: str, scope: str | None = None) -> list[Any]:
        items: list[Any] = whole(name, scope)
        return [item for item in items if is_kept(item)] if name == key else items

    graph.get_collection = get_collection


@contextmanager
def elementwise_equality() -> Iterator[None]:
    """Compare tensors element by element in a block, where code other than TensorFlow's and Keras's compares them."""
    _change_equality(1)
    try:
        yield
    finally:
        _change_equality(-1)


class _Equality:
    """Comparison of tensors by ``==`` in a plain graph, which TensorFlow does by identity, as in eager mode."""

    num_blocks = 0
    by_identity = tfv1.Tensor.__eq__, tfv1.Tensor.__ne__
    lock = threading.Lock()


def _change_equality(added: int) -> None:
    def comparing(by_identity: Callable[..., Any], compare: Callable[..., Any]) -> Callable[..., Any]:
        def of_values(self: tfv1.Tensor, other: object) -> Any:
            file = sys._getframe(1).f_code.co_filename.replace("\\", "/")
            is_of_library = any(f"-packages/{name}/" in file for name in ("tensorflow", "keras", "tf_keras"))
            is_value = tfv1.is_tensor(other) or isinstance(other, (bool, int, float)) or hasattr(other, "__array__")
            return compare(self, other) if is_value and not is_of_library else by_identity(self, other)

        return of_values

    with _Equality.lock:
        _Equality.num_blocks += added
        equal, not_equal = _Equality.by_identity
        if _Equality.num_blocks:
            equal, not_equal = comparing(equal, tfv1.equal), comparing(not_equal, tfv1.not_equal)
        tfv1.Tensor.__eq__, tfv1.Tensor.__ne__ = equal, not_equal
