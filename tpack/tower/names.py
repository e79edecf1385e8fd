"""Names of towers, operations, tensors and collections of variables.

A tensor is called ``op:index``; scripts write both ``"cost"`` and ``"cost:0"`` for the same tensor. The graph has a
resource variable's handle under the variable's name, while scripts that request it expect the value.
"""

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from inspect import ismethod

import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError, GraphBuildError
from tpack.utils.validation import check_arguments, mismatch

VARIABLE_KEYS = (
    tf.GraphKeys.GLOBAL_VARIABLES,
    tf.GraphKeys.LOCAL_VARIABLES,
    tf.GraphKeys.MODEL_VARIABLES,
    tf.GraphKeys.TRAINABLE_VARIABLES,
)
"""Collections of variables: shared by all towers, unless each has its own variables."""

_MAX_NEAR = 5
# What TensorFlow says of a handle in the place of a value.
_OF_HANDLES = (
    "with dtype resource:",
    "has DataType resource not in list of allowed values",
    "`dtype` <dtype: 'resource'> is not compatible",
)
# What it says of tensors and variables that were made elsewhere.
_OF_OTHER_GRAPHS = ("must be from the same graph as", "capture an EagerTensor without building a function")


@check_arguments
def tower_name(index: int) -> str:
    """Return the name of tower ``index``: ``tower0``, ``tower1``, ..."""
    return f"tower{index}"


@check_arguments
def op_and_tensor_name(name: str) -> tuple[str, str]:
    """Split a script's name of a tensor into the names of its operation and of the tensor.

    ``"scope/op"``, which means output 0, becomes ``("scope/op", "scope/op:0")``.

    Raises:
        ConfigError: The name is empty, or the part after the colon is not an output index.
    """
    op, colon, index = name.partition(":")
    if not op or (colon and not index.isdigit()):
        raise ConfigError(mismatch("op_and_tensor_name", "name", name, "'op_name' or 'op_name:output_index'"))
    return op, f"{op}:{index or 0}"


def join_scope(scope: str, name: str) -> str:
    """Join a scope, which may be empty, and a name with one slash."""
    return f"{scope}/{name}" if scope else name


def near_names(name: str, known: Iterable[str]) -> str:
    """Return the known names that resemble an unknown one, as the end of a message; empty if none does.

    The same name in another scope comes before a similar name.
    """
    unique = list(dict.fromkeys(known))
    last = name.rpartition("/")[2]
    elsewhere = [each for each in unique if each.rpartition("/")[2] == last]
    near = list(dict.fromkeys([*elsewhere, *get_close_matches(name, unique, n=_MAX_NEAR)]))[:_MAX_NEAR]
    return f"; near names: {', '.join(near)}" if near else ""


class Scope:
    """The name scope of a tower, empty for none, anywhere in names, as in ``tower1/gradients/tower1/mul_grad``."""

    def __init__(self, name: str) -> None:
        self.name = name
        # TensorFlow's optimizers write update_NAME for the update of a variable.
        begin = rf"(?:(?<![^/@])|(?<=/update_)){re.escape(name)}"
        self._part = re.compile(rf"{begin}(?=/|$)")
        self._with_slash = re.compile(f"{begin}/")
        # What is around the scope in each name that was asked for: a name is renamed for each of many towers.
        self._around: dict[str, list[str]] = {}

    def is_in(self, text: str) -> bool:
        """Tell whether the scope is part of a name."""
        return bool(self.name) and self._part.search(text) is not None

    def renamed(self, text: str, other: "Scope") -> str:
        """Return the name in another tower."""
        if not self.name or self.name not in text:
            return text
        if not other.name:
            return self._with_slash.sub("", text)
        around = self._around.get(text)
        if around is None:
            around = self._around[text] = self._part.split(text)
        return other.name.join(around)


def value_if_variable(tensor: tf.Tensor) -> tf.Tensor:
    """Return the value of a variable for its handle, in a graph that is not finalized; any other tensor itself."""
    if tensor.dtype != tf.resource:
        return tensor
    variables = (variable for key in VARIABLE_KEYS for variable in tensor.graph.get_collection(key))
    return next((variable.read_value() for variable in variables if variable.op is tensor.op), tensor)


@contextmanager
def values_by_name(graph: tf.Graph) -> Iterator[None]:
    """Make ``graph.get_tensor_by_name`` return the values of variables in a block, instead of their handles.

    Scripts from TensorFlow 1 copy ``graph.get_tensor_by_name("net/w:0")`` to another variable. The graph must not be
    finalized.

    Raises:
        GraphBuildError: The block uses a handle from elsewhere as a value.
    """
    plain = graph.get_tensor_by_name
    if not ismethod(plain):
        # A block around this one gives values already.
        yield
        return
    graph.get_tensor_by_name = lambda name: value_if_variable(plain(name))
    try:
        yield
    except (TypeError, ValueError) as error:
        check_handle_use(error)
        raise
    finally:
        del graph.get_tensor_by_name


def check_handle_use(error: BaseException) -> None:
    """Explain an error of TensorFlow that is caused by the handle of a variable in place of its value.

    Raises:
        GraphBuildError: It is such an error.
    """
    if isinstance(error, TypeError | ValueError) and any(sign in str(error) for sign in _OF_HANDLES):
        raise GraphBuildError(
            f"the handle of a variable is used as its value: {error}. graph.get_tensor_by_name and outputs[0] give the "
            "handle; use the variable, from tf.get_variable or tower.get_variable('net/w'), and its read_value()"
        ) from error


def check_same_graph(error: BaseException) -> None:
    """Explain an error of TensorFlow that is caused by a tensor or variable made in another graph, or eagerly.

    Raises:
        GraphBuildError: It is such an error.
    """
    text = " ".join(str(error).split())
    if isinstance(error, ValueError | RuntimeError) and any(sign in text for sign in _OF_OTHER_GRAPHS):
        which = (
            f"{text.partition(' must be ')[0]} of another graph" if _OF_OTHER_GRAPHS[0] in text else "an eager tensor"
        )
        raise GraphBuildError(
            f"the model got {which}: expected tensors and variables made while it is built; make it in build_graph, or "
            "use tf.constant(array) for its value"
        ) from error
