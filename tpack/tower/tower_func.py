"""A tower function: the user's model code, with handles of all towers in which it was called.

Its `InputSignature` describes its inputs and is checked once, where it is made. A `TowerHandle` looks up tensors,
variables and collections of one call, by the names that the function used.

In a graph, Keras 3 adds the update of a layer, such as that of a moving average, to no collection. Updates in a
training tower are added to UPDATE_OPS here, which is run with each step.
"""

import inspect
import re
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeAlias, overload

import tensorflow.compat.v1 as tf

from tpack.compat.operations import run_after
from tpack.errors import ConfigError, TowerError, WrongTypeError
from tpack.graph_copy import op_kinds
from tpack.tower.collections import WORKER_RANK_KEY
from tpack.tower.context import TowerContext, add_model_variable, current_tower_context, get_current_tower_context
from tpack.tower.keras_values import frozen_among, gives_value, is_keras_loaded, is_layer_update
from tpack.tower.names import VARIABLE_KEYS, join_scope, near_names, op_and_tensor_name
from tpack.utils.validation import check_arguments, mismatch, shown

ModelFunction: TypeAlias = Callable[..., Any]
"""Builds a model from one tensor for each input."""

# What TensorFlow allows as the name of an operation at the top of a graph.
_WHAT_A_GRAPH_IS = (
    "the model is built once, as a graph, and its tensors have values only while a step runs: expected operations of "
    "TensorFlow, such as tf.cond or tf.where in place of if, and tf.map_fn of for; use tf.print, tf.summary.scalar or "
    "the callback ProcessTensors to see values"
)
# Errors of TensorFlow and Python where a value is needed while the graph is built.
_LACKS_VALUE = re.compile(
    r"symbolic .?tf.Tensor|'SymbolicTensor' object has no attribute '(numpy|item|tolist)'|not 'SymbolicTensor'"
    r"|numpy\(\) is only available when eager|'SymbolicTensor' object cannot be interpreted as an integer"
)
_NAME = re.compile(r"[A-Za-z0-9.][A-Za-z0-9_.\-/]*")

# Odd, so that towers' seeds of 32 bits differ, and large, so that they are not neighbours.
_SEED_STRIDE = 0x9E3779B1
_MOST_TOWERS = 4096
"""Towers of a worker whose seeds differ from those of the next worker."""


@check_arguments
class TowerFunc:
    """Wrap a function of input tensors; each call must happen inside a tower and adds a handle to `towers`.

    Args:
        tower_fn: builds the model from one tensor for each entry of the signature.
        input_signature: a ``tf.TensorSpec`` for each input, with different names.

    Raises:
        ConfigError: The signature holds something else, a missing or invalid name, or a name twice; or the function
            takes another number of inputs.
    """

    def __init__(self, tower_fn: ModelFunction, input_signature: Iterable[tf.TensorSpec]) -> None:
        self._tower_fn = tower_fn
        self._input_signature = InputSignature(input_signature)
        _check_takes(tower_fn, self.input_names)
        self._handles: list[TowerHandle] = []

    @property
    def function(self) -> ModelFunction:
        """The wrapped function."""
        return self._tower_fn

    @property
    def input_signature(self) -> "InputSignature":
        """The inputs, as ``tf.TensorSpec``."""
        return InputSignature(self._input_signature)

    @property
    def input_names(self) -> list[str]:
        """The names of the inputs."""
        return self._input_signature.names

    @property
    def towers(self) -> "TowerHandles":
        """A handle of each call so far."""
        return TowerHandles(self._handles)

    def without_towers(self) -> "TowerFunc":
        """Return a tower function of the same function and signature without towers."""
        return TowerFunc(self._tower_fn, self._input_signature)

    def __reduce__(self) -> tuple[type["TowerFunc"], tuple[ModelFunction, "InputSignature"]]:
        # Towers belong to a graph, which stays in its process.
        return TowerFunc, (self._tower_fn, self._input_signature)

    def __call__(self, *inputs: tf.Tensor) -> Any:
        """Build one tower from a tensor for each entry of the signature; return the result of the wrapped function.

        Raises:
            TowerError: The number of inputs is not that of the signature, no tower is current, or an earlier tower has
                the same name.
        """
        context = current_tower_context()
        if context.name and context.name in [handle.name for handle in self._handles]:
            raise TowerError(f"there is a tower {context.name!r} already: give this one another name")
        if len(inputs) != len(self._input_signature):
            takes = f"{len(self._input_signature)} inputs ({', '.join(self.input_names)})"
            raise TowerError(f"the tower function takes {takes}, got {len(inputs)}")
        updates = KerasUpdates(context.name)
        try:
            with _keras_draws_by_tower():
                output = self._tower_fn(*inputs)
        except (TypeError, AttributeError, NotImplementedError) as error:
            if _LACKS_VALUE.search(str(error)):
                error.args = (f"{str(error).partition('. ')[0]}: {_WHAT_A_GRAPH_IS}",)
            raise
        if context.updates_variables:
            updates.collect(context.recorder.variables)
            # A frozen variable is a part of the model, as a moving average is.
            for variable in frozen_among(context.recorder.variables):
                add_model_variable(variable)
        self.add_tower(inputs, output)
        return output

    def add_tower(self, inputs: Sequence[tf.Tensor], output: object) -> None:
        """Add a handle of the current tower, which was built without calling this, with its inputs and output."""
        context = current_tower_context()
        self._handles.append(TowerHandle(context, inputs, output, self.input_names))
        context.repeat_in_copies(self.add_tower, list(inputs), output)


@contextmanager
def _keras_draws_by_tower() -> Iterator[None]:
    """Let Keras layers draw other random numbers in each tower of each worker; their seed is the same in all."""
    keras: Any = sys.modules.get("keras")
    if keras is None:
        yield
        return
    generator = keras.random.SeedGenerator
    # Towers of several threads are open at a time: the last one restores the method.
    with _draws.lock:
        if not _draws.num_open:
            _draws.original, generator.next = generator.next, _next_of_tower
        _draws.num_open += 1
    try:
        yield
    finally:
        with _draws.lock:
            _draws.num_open -= 1
            if not _draws.num_open:
                generator.next = _draws.original


class _Draws:
    """Keras's method that draws, replaced while towers are open."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.num_open = 0
        self.original: Callable[..., Any]


_draws = _Draws()


def _next_of_tower(self: Any, *args: Any, **kwargs: Any) -> Any:
    seed, tower = _draws.original(self, *args, **kwargs), get_current_tower_context()
    if tower is None or not tower.is_training:
        return seed
    number = tower.index + sum(tf.get_collection(WORKER_RANK_KEY)) * _MOST_TOWERS
    return seed + tf.constant([number * _SEED_STRIDE % 2**31, 0], seed.dtype) if number else seed


def _check_takes(function: ModelFunction, names: Sequence[str]) -> None:
    """Refuse a function that cannot be called with one tensor for each input, if its signature is known."""
    try:
        signature = inspect.signature(function)
    except (ValueError, TypeError):
        return
    try:
        signature.bind(*names)
    except TypeError as error:
        given = f"{len(names)} inputs ({', '.join(names)})"
        raise ConfigError(
            f"{shown(function)} got {given}: expected a parameter for each, and it has {signature}"
        ) from error


class InputSignature(list[tf.TensorSpec]):
    """The inputs of a tower function, ``tf.TensorSpec`` with different names; a copy is not checked again.

    Raises:
        ConfigError: An entry is not a ``tf.TensorSpec``, has no name, or has the name of another.
    """

    def __init__(self, specs: Iterable[tf.TensorSpec]) -> None:
        if not isinstance(specs, Iterable) or isinstance(specs, (str, dict)):
            raise WrongTypeError(mismatch("TowerFunc", "input_signature", specs, "a list of tf.TensorSpec"))
        super().__init__(specs)
        if not isinstance(specs, InputSignature):
            self._check()

    @property
    def names(self) -> list[str]:
        """The names of the inputs."""
        return [spec.name for spec in self]

    def _check(self) -> None:
        for position, spec in enumerate(self):
            entry = f"input_signature[{position}]"
            if not isinstance(spec, tf.TensorSpec) or not spec.name:
                raise ConfigError(mismatch("TowerFunc", entry, spec, "a tf.TensorSpec with a name"))
            if not _NAME.fullmatch(spec.name):
                expected = "letters, digits and _ . - /, the first one a letter or digit"
                raise ConfigError(mismatch("TowerFunc", f"{entry}.name", spec.name, expected))
        if len(set(self.names)) < len(self):
            raise ConfigError(mismatch("TowerFunc", "input_signature", self.names, "different names"))


class TowerHandle:
    """One finished call of a tower function.

    Args:
        context: the tower it was called in.
        inputs: the input tensors, one for each entry of the signature.
        output: the result of the function.
        input_names: the names of the inputs in the signature.
    """

    def __init__(
        self, context: TowerContext, inputs: Sequence[tf.Tensor], output: object, input_names: Sequence[str]
    ) -> None:
        self.context = context
        self.inputs = list(inputs)
        self.output: Any = output
        self._graph = tf.get_default_graph()
        self._inputs_by_name = dict(zip(input_names, self.inputs, strict=True))

    @property
    def name(self) -> str:
        """The name of the tower."""
        return self.context.name

    @property
    def ns_name(self) -> str:
        """The name scope of the tower; empty for none."""
        return self.context.ns_name

    @property
    def vs_name(self) -> str:
        """The variable scope of the tower; empty for none."""
        return self.context.vs_name

    @property
    def is_training(self) -> bool:
        """Whether the tower was built for training."""
        return self.context.is_training

    def get_tensor(self, name: str) -> tf.Tensor:
        """Return a tensor of this tower.

        Args:
            name: an input's name in the signature, a name inside the tower function, or a full name, in this order.

        Raises:
            TowerError: There is none. The message lists near names.
        """
        op_name, tensor_name = op_and_tensor_name(name)
        if op_name in self._inputs_by_name and tensor_name == f"{op_name}:0":
            return self._inputs_by_name[op_name]
        for candidate in (join_scope(self.ns_name, tensor_name), tensor_name):
            try:
                return self._graph.get_tensor_by_name(candidate)
            except (KeyError, ValueError):
                continue
        prefix = join_scope(self.ns_name, "")
        inside = [op.name[len(prefix) :] for op in self._graph.get_operations() if op.name.startswith(prefix)]
        inputs = ", ".join(self._inputs_by_name) or "none"
        raise TowerError(
            f"no tensor {name!r} in {self.context!r} or in the graph{near_names(op_name, inside)}; its inputs: {inputs}"
        )

    def get_tensors(self, names: Iterable[str]) -> list[tf.Tensor]:
        """Return several tensors, as `get_tensor` does each."""
        return [self.get_tensor(name) for name in names]

    def get_variable(self, name: str) -> tf.Variable:
        """Return a variable that this tower uses.

        Args:
            name: as in the tower function, without the tower's variable scope; ``":0"`` is allowed.

        Raises:
            TowerError: There is none.
        """
        full_name = join_scope(self.vs_name, op_and_tensor_name(name)[0])
        variables = {join_scope(self.vs_name, inner): v for inner, v in self.context.recorder.by_name().items()}
        variables.update({v.op.name: v for key in VARIABLE_KEYS for v in self._graph.get_collection(key)})
        variables.update({v.op.name: v for v in self.context.recorder.variables})
        if full_name not in variables:
            raise TowerError(f"no variable {full_name!r} in {self.context!r}{near_names(full_name, variables)}")
        return variables[full_name]

    def get_variables(self, names: Iterable[str]) -> list[tf.Variable]:
        """Return several variables, as `get_variable` does each."""
        return [self.get_variable(name) for name in names]

    def get_collection(self, key: str | None = None, name: str | None = None) -> list[Any]:
        """Return the tower's additions to a collection, whose key is given as either argument, as scripts do.

        Raises:
            TowerError: Not exactly one of the two is given.
        """
        if (key is None) == (name is None):
            raise TowerError(f"expected the key of one collection, got key={key!r} and name={name!r}")
        return self.context.get_collection_in_tower(key if key is not None else str(name))

    def __getitem__(self, name: str) -> tf.Tensor | tf.Variable:
        """Return the tensor ``name``, or else the variable of that name."""
        try:
            return self.get_tensor(name)
        except TowerError as no_tensor:
            try:
                return self.get_variable(name)
            except TowerError:
                raise no_tensor from None

    def __repr__(self) -> str:
        return f"TowerHandle of {self.context!r}"


class TowerHandles(Sequence[TowerHandle]):
    """The handles of all calls of a tower function, in order, by number or by the tower's name."""

    def __init__(self, handles: Sequence[TowerHandle]) -> None:
        self._handles = list(handles)

    def training(self) -> "TowerHandles":
        """Return the towers built for training."""
        return TowerHandles([handle for handle in self._handles if handle.is_training])

    def inference(self) -> "TowerHandles":
        """Return the towers built for prediction."""
        return TowerHandles([handle for handle in self._handles if not handle.is_training])

    @overload
    def __getitem__(self, which: int | str) -> TowerHandle: ...

    @overload
    def __getitem__(self, which: slice) -> "TowerHandles": ...

    def __getitem__(self, which: int | str | slice) -> "TowerHandle | TowerHandles":
        """Return one handle by its number or its tower's name, or several by a slice."""
        if isinstance(which, slice):
            return TowerHandles(self._handles[which])
        if isinstance(which, int):
            return self._handles[which]
        for handle in self._handles:
            if handle.name == which:
                return handle
        raise TowerError(f"no tower is called {which!r}; there are {[handle.name for handle in self._handles]}")

    def __len__(self) -> int:
        return len(self._handles)

    def __iter__(self) -> Iterator[TowerHandle]:
        return iter(self._handles)

    def __repr__(self) -> str:
        return f"TowerHandles({self._handles!r})"


class KerasUpdates:
    """The updates of Keras layers in the current graph from now on, in the tower of a name scope."""

    def __init__(self, name_scope: str) -> None:
        self._prefix = join_scope(name_scope, "")
        self._graph = tf.get_default_graph()
        self._num_before = len(self._graph.get_operations()) if is_keras_loaded() else 0

    def collect(self, variables: Iterable[tf.Variable]) -> None:
        """Add the updates to the collection UPDATE_OPS, each to run after the tower's earlier reads of its variable.

        Without an order, random numbers might be drawn from the state before or after its update. The updated variables
        become part of the model, as moving averages of tpack's layers are. Initialisers of ``variables`` are not
        updates.
        """
        if not is_keras_loaded():
            return
        # A variable of several devices is initialised by those of its components, and updated through them.
        parts = [(part, whole) for whole in variables for part in getattr(whole, "components", [whole])]
        initializers = {part.initializer.name for part, _ in parts}
        by_handle = {part.handle.name: whole for part, whole in parts if hasattr(part, "handle")}
        known = {id(op) for op in self._graph.get_collection(tf.GraphKeys.UPDATE_OPS)}
        reads: dict[str, list[tf.Operation]] = {}
        for op in self._graph.get_operations()[self._num_before :]:
            if not op.name.startswith(self._prefix):
                continue
            if op.type == "ReadVariableOp":
                # One that waits for a first value is no part of the model, and would give that value anew in each step.
                if not any(map(gives_value, op.control_inputs)):
                    reads.setdefault(op.inputs[0].name, []).append(op)
            elif (
                op.type in op_kinds.ASSIGNMENTS
                and op.name not in initializers
                and id(op) not in known
                and is_layer_update(op)
            ):
                run_after(op, reads.get(op.inputs[0].name, []))
                self._graph.add_to_collection(tf.GraphKeys.UPDATE_OPS, op)
                if op.inputs[0].name in by_handle:
                    add_model_variable(by_handle[op.inputs[0].name])
