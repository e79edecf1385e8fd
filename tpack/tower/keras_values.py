"""Values assigned to variables of Keras layers while a graph is built: they become the variables' initial values.

Loading a model or setting weights assigns to variables. In a graph, Keras 3 makes operations of that which are never
run, and pretrained weights would be lost. A value that is assigned outside a layer's call, and computable before
anything runs, becomes the variable's initial value: in every replica, and in a predictor without a checkpoint. So do
values that ``tf_keras`` assigned in a session of its own. A checkpoint is restored later, so it takes precedence.

An assignment in a layer's call is an update, such as that of a moving average, and runs with every step.

Keras freezes a variable by ``trainable=False`` on a layer or model, often after making it, which does not change
TensorFlow's collection of trainable variables. A graph of towers returns it without those frozen at the time.
"""

import sys
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from types import FrameType
from typing import Any, NamedTuple

import tensorflow.compat.v1 as tf

from tpack.compat.graphs import BaseVariable
from tpack.compat.keras import (
    KERAS_BUILDING,
    KERAS_LAYER_FILES,
    KERAS_MAKING,
    KERAS_VARIABLE_FILE,
    filter_collection,
    unknown_keras_places,
)
from tpack.compat.operations import set_initial_value
from tpack.errors import GraphBuildError
from tpack.tower.per_graph import PerGraph, built_graph
from tpack.utils import logger

# What TensorFlow says where a variable is read that was made eagerly, or in another graph.
_OF_ELSEWHERE = ("capture an EagerTensor without building a function", "must be from the same graph")

Place = tuple[str, str]
"""The file and the function of a line of code."""


def is_keras_loaded() -> bool:
    """Tell whether this process has imported Keras 3 or ``tf_keras``."""
    return "keras" in sys.modules or "tf_keras" in sys.modules


def is_layer_update(op: tf.Operation) -> bool:
    """Tell whether an operation was made in the call of a layer, and not while one builds its variables."""
    return _is_in_call(_places_of(op))


def gives_value(op: tf.Operation) -> bool:
    """Tell whether an operation is an assignment by Keras 3 to a variable, outside of the calls of layers."""
    return op.type == "AssignVariableOp" and _gives_value(_places_of(op))


def is_giving_value() -> bool:
    """Tell whether Keras 3 is assigning to a variable in this thread, outside of the calls of layers."""
    if not is_keras_loaded():
        return False
    places: list[Place] = []
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        places.append((frame.f_code.co_filename, frame.f_code.co_name))
        frame = frame.f_back
    return _gives_value(places)


_owners: PerGraph[dict[int, tuple[BaseVariable, Any]]] = PerGraph(dict)
"""Variables with the objects of Keras that have their ``trainable``, by ``id`` of the variable."""


def record_owner(variable: BaseVariable) -> None:
    """Record the object of Keras that makes a variable: a ``keras.Variable``, or a layer of ``tf_keras``."""
    if not is_keras_loaded():
        return
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        code = frame.f_code
        if code.co_filename.endswith(KERAS_MAKING.get(code.co_name, ())):
            owners = _owners.here()
            if not owners:
                is_trained = partial(_is_trained, owners)
                filter_collection(built_graph(), tf.GraphKeys.TRAINABLE_VARIABLES, is_trained)
            owners[id(variable)] = variable, frame.f_locals["self"]
            return
        frame = frame.f_back


def frozen_among(variables: Iterable[tf.Variable]) -> list[tf.Variable]:
    """Return the variables that would be trained without ``trainable=False`` on their Keras layer or model."""
    owners = _owners.here()
    return [variable for variable in variables if variable.trainable and not _is_trained(owners, variable)]


def _is_trained(owners: Mapping[int, tuple[BaseVariable, Any]], variable: tf.Variable) -> bool:
    return id(variable) not in owners or bool(owners[id(variable)][1].trainable)


def check_own_layers(error: BaseException) -> None:
    """Explain an error of a tower function that is caused by a Keras layer with its variables elsewhere.

    Raises:
        GraphBuildError: It is such an error.
    """
    text = str(error)
    if "Exception encountered when calling" in text and any(sign in text for sign in _OF_ELSEWHERE):
        raise GraphBuildError(
            "a Keras layer in a tower has variables from outside, eager ones or another graph's; use "
            "weights = model.get_weights() outside, and inside model = keras.models.clone_model(model); "
            "model.set_weights(weights)"
        ) from error


class KerasValues:
    """The values that Keras assigns to variables of the current graph from now on.

    Args:
        from_start: include earlier ones.

    Raises:
        GraphBuildError: The loaded Keras has its code in other files than `tpack.compat` knows.
    """

    def __init__(self, *, from_start: bool = False) -> None:
        self._graph = tf.get_default_graph()
        is_loaded = is_keras_loaded()
        if is_loaded and (unknown := unknown_keras_places()):
            raise GraphBuildError(f"this Keras is not supported: {'; '.join(unknown)}; use a version that tpack tests")
        self._num_before = 0 if from_start or not is_loaded else len(self._graph.get_operations())

    def keep(self, variables: Iterable[tf.Variable]) -> None:
        """Initialise a tower's variables with the values that were assigned last.

        A later change of the initialiser, as by ``tf.train.init_from_checkpoint``, takes precedence.
        """
        if not is_keras_loaded():
            return
        parts = _parts(variables)
        for handle, op in self._given_last(parts).items():
            value = _known_value(op)
            if value is not None:
                part, whole = parts[handle]
                set_initial_value(part, value)
                if part is getattr(whole, "primary", whole):
                    whole._initial_value = value
        _keep_values_of_tf_keras([variables.part for variables in parts.values()])

    def _given_last(self, parts: Mapping[str, "_Part"]) -> dict[str, tf.Operation]:
        """Return the last assignment to each handle."""
        initializers: dict[str, list[str]] = {}
        for handle, variables in parts.items():
            for variable in variables:
                initializers.setdefault(variable.initializer.name, []).append(handle)
        given: dict[str, tf.Operation] = {}
        for op in self._graph.get_operations()[self._num_before :]:
            for handle in initializers.get(op.name, ()):
                given.pop(handle, None)
            is_first = op.name in initializers
            if not is_first and op.type == "AssignVariableOp" and op.inputs[0].name in parts and gives_value(op):
                given[op.inputs[0].name] = op
        return given


class _Part(NamedTuple):
    """A plain variable, and the one of several devices that it is a component of, or itself."""

    part: BaseVariable
    whole: BaseVariable


def _parts(variables: Iterable[tf.Variable]) -> dict[str, _Part]:
    """Return the resource variables that variables consist of, by the names of their handles."""
    return {
        part.handle.name: _Part(part, whole)
        for whole in variables
        for part in getattr(whole, "components", [whole])
        if hasattr(part, "handle") and part.initializer is not None
    }


def _keep_values_of_tf_keras(variables: Sequence[BaseVariable]) -> None:
    """Initialise variables with the values from ``tf_keras``, which are in a session of its own."""
    backend = sys.modules.get("tf_keras.src.backend")
    # The mark that it leaves on a variable to which it assigns; it initialises all in its session.
    given = [variable for variable in variables if hasattr(variable, "_assign_placeholder")]
    if backend is None or not given:
        return
    values = backend.get_session().run(given)
    for variable, value in zip(given, values, strict=True):
        with tf.init_scope(), tf.device(variable.device), tf.name_scope(f"{variable.op.name}/given/"):
            initial_value = tf.constant(value)
            # The session has run the initialiser, and would not run again if that were changed.
            variable._initializer_op = variable.assign(initial_value, read_value=False)
            variable._initial_value = initial_value


def _known_value(op: tf.Operation) -> tf.Tensor | None:
    """Return the value of an assignment if it can be computed before everything else, or None."""
    value = op.inputs[1]
    waiting = [value.op]
    seen = set(waiting)
    while waiting:
        needed = waiting.pop()
        if needed.type.startswith("Placeholder") or any(t.dtype in (tf.resource, tf.variant) for t in needed.outputs):
            return _constant(op)
        for other in [*(tensor.op for tensor in needed.inputs), *needed.control_inputs]:
            if other not in seen:
                seen.add(other)
                waiting.append(other)
    return value


def _constant(op: tf.Operation) -> tf.Tensor | None:
    """Return the value of an assignment as a constant; None, with a warning, if it is not constant."""
    value = tf.get_static_value(op.inputs[1])
    if value is not None:
        with tf.init_scope():
            return tf.constant(value)
    if op.inputs[1].dtype.is_floating:
        logger.warning(
            f"{op.inputs[0].op.name} keeps its first value: the one assigned outside the call of a layer depends on "
            "variables or inputs. Set weights to arrays"
        )
    return None


def _places_of(op: tf.Operation) -> list[Place]:
    """Return the places where an operation was made, the innermost first; empty for a copy."""
    return [(frame.filename, frame.name) for frame in reversed(op.traceback or ())]


def _gives_value(places: list[Place]) -> bool:
    assigns = any(name == "assign" and file.endswith(KERAS_VARIABLE_FILE) for file, name in places)
    return assigns and not _is_in_call(places)


def _is_in_call(places: list[Place]) -> bool:
    """Tell from places, the innermost first, whether the innermost layer is called, and not built."""
    for file, name in places:
        if name in ("__call__", *KERAS_BUILDING) and file.endswith(KERAS_LAYER_FILES):
            return name == "__call__"
    return False
