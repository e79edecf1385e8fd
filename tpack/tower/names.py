"""Names of towers, operations and tensors.

A tensor is called ``op:index``; scripts write both ``"cost"`` and ``"cost:0"`` for the same tensor. The graph has a
resource variable's handle under the variable's name, and scripts that ask for it expect the value.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from inspect import ismethod

import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError, GraphBuildError
from tpack.tower.collections import VARIABLE_KEYS
from tpack.utils.validation import check_arguments

# What TensorFlow says of a handle in the place of a value.
_OF_HANDLES = ("with dtype resource:", "has DataType resource not in list of allowed values")


@check_arguments
def tower_name(index: int) -> str:
    """Return the name of tower ``index``: ``tower0``, ``tower1``, ..."""
    return f"tower{index}"


@check_arguments
def op_and_tensor_name(name: str) -> tuple[str, str]:
    """Split what a script calls a tensor into the names of its operation and of the tensor.

    Args:
        name: ``"scope/op"``, which means output 0, or ``"scope/op:3"``.

    Returns:
        ``("scope/op", "scope/op:0")`` or ``("scope/op", "scope/op:3")``.

    Raises:
        ConfigError: The name is empty, or what follows the colon is not an output index.
    """
    op, colon, index = name.partition(":")
    if not op or (colon and not index.isdigit()):
        raise ConfigError(f"{name!r} is no name of a tensor: expected 'op_name' or 'op_name:output_index'")
    return op, f"{op}:{index or 0}"


def join_scope(scope: str, name: str) -> str:
    """Join a scope, which may be empty, and a name with one slash."""
    return f"{scope}/{name}" if scope else name


class Scope:
    """The name scope of a tower, which is part of names anywhere in them, as in ``tower1/gradients/tower1/mul_grad``.

    Args:
        name: such as ``"tower1"``; empty for none.
    """

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
        """Return a name as it is in another tower."""
        if not self.name or self.name not in text:
            return text
        if not other.name:
            return self._with_slash.sub("", text)
        around = self._around.get(text)
        if around is None:
            around = self._around[text] = self._part.split(text)
        return other.name.join(around)


def value_if_variable(tensor: tf.Tensor) -> tf.Tensor:
    """Return the value of the variable whose handle a tensor is; any other tensor itself.

    Args:
        tensor: its graph must not be finalized if it is a handle.
    """
    if tensor.dtype != tf.resource:
        return tensor
    variables = (variable for key in VARIABLE_KEYS for variable in tensor.graph.get_collection(key))
    return next((variable.read_value() for variable in variables if variable.op is tensor.op), tensor)


@contextmanager
def values_by_name(graph: tf.Graph) -> Iterator[None]:
    """Make ``graph.get_tensor_by_name`` return the values of variables in a block, instead of their handles.

    Scripts from a time when a variable was its value copy ``graph.get_tensor_by_name("net/w:0")`` to another variable.

    Args:
        graph: not finalized.

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
            f"the handle of a variable is used as if it were the value: {error}. graph.get_tensor_by_name('net/w:0') "
            "gives the handle, as does an operation's outputs[0]. Take the variable, from tf.get_variable or "
            "tower.get_variable('net/w'), and its read_value()"
        ) from error
