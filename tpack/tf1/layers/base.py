"""The base of all layers: an object that makes its variables when it is first called, in a variable scope of its own.

A layer that is called again uses the same variables, wherever that happens. What it adds to the model besides its
output goes into collections when the call ends: losses into REGULARIZATION_LOSSES, updates into UPDATE_OPS. A variable
that there was before, by ``reuse`` of the scope, is regularised no second time; but once in each tower that trains it.

Two names belong to a layer. Its ``name`` is the one that was given, or one that no other layer of the graph has, such
as ``dense_1``. Its ``scope_name`` is that of the variable scope, in which variables and operations are: the first free
one when it is first called, such as ``dense``.
"""

import copy
import operator
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError, MissingNameError, WrongTypeError
from tpack.tf1.layers import arguments
from tpack.tf1.layers.arguments import Initializer, InputSpec, Regularizer
from tpack.tfutils.dependency import ancestors
from tpack.tower.context import get_current_tower_context
from tpack.tower.per_graph import PerGraph, built_graph
from tpack.utils.validation import check_function

_WORD_STARTS = re.compile("(?<=.)(?=[A-Z][a-z0-9])|(?<=[a-z])(?=[A-Z])")
_num_layers: PerGraph[Counter[str]] = PerGraph(Counter)

# For each variable that is regularised, by its layer's scope and name: in which training towers, None for no tower.
_regularized: PerGraph[dict[str, set[int | None]]] = PerGraph(dict)


class Layer:
    """A layer to derive from: ``build`` makes the variables by `add_weight`, ``call`` computes the output.

    Args:
        trainable: whether the variables are trained, and go into TRAINABLE_VARIABLES.
        name: of the layer, and of its scope if that is free; the default is made of the class's name.
        dtype: of the variables; the default is that of the first input.
        **kwargs: ``activity_regularizer``, a function that returns a loss of each output, which is divided by the
            batch size; ``_scope``, a variable scope or its name to use as it is; ``_reuse``, as ``reuse`` of a
            variable scope.

    Attributes:
        built: whether the variables are there.
        input_spec: an `InputSpec`, or one for each input, that the input is held against; None for no check.
        trainable: as above.
        activity_regularizer: as above.

    Raises:
        WrongTypeError: There is no argument of such a name.

    Example:
        class Scale(tf.layers.Layer):
            def build(self, input_shape):
                self.factor = self.add_weight("factor", [input_shape[-1]])

            def call(self, inputs):
                return inputs * self.factor
    """

    # What the layer was made of, for its configuration.
    _arguments: tuple[tuple[Any, ...], dict[str, Any]]

    def __new__(cls, *args: Any, **kwargs: Any) -> "Layer":
        """Make a layer that knows what it is made of, whatever its class does with it."""
        layer = super().__new__(cls)
        layer._arguments = (args, kwargs)
        return layer

    def __init__(self, trainable: bool = True, name: str | None = None, dtype: Any = None, **kwargs: Any) -> None:
        scope, self._reuse = kwargs.pop("_scope", None), kwargs.pop("_reuse", None)
        self.activity_regularizer: Regularizer = kwargs.pop("activity_regularizer", None)
        if kwargs:
            raise WrongTypeError(f"{type(self).__name__} got {', '.join(kwargs)}: it has no such argument")
        self._base_name = _snake_case(type(self).__name__) if name is None else name
        self._name = _free_name(self._base_name) if name is None else name
        self._dtype = None if dtype is None else tf.as_dtype(dtype).name
        self._trainable_weights: list[tf.Variable] = []
        self._non_trainable_weights: list[tf.Variable] = []
        self._losses: list[_Loss] = []
        self._updates: list[tf.Operation | tf.Tensor] = []
        self._num_collected = 0
        self._regularized: list[tuple[str, Any, Callable[..., Any]]] = []
        # The inputs and outputs of each call.
        self._calls: list[tuple[Any, Any]] = []
        self._graph: tf.Graph | None = None
        self.trainable = trainable
        self.built = False
        self.input_spec: InputSpec | Sequence[InputSpec] | None = None
        self._scope: tf.VariableScope | None = None
        if scope is not None:
            self._capture(tf.variable_scope(scope))

    def build(self, input_shape: Any) -> None:
        """Make the variables for a ``tf.TensorShape``, or a nest of them; called once, in the layer's scope."""
        self.built = True

    def call(self, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        """Return the output of an input; a subclass overrides it, and takes what else it likes."""
        return inputs

    def __call__(self, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        """Compute the output, and make the variables if they are not there.

        Args:
            inputs: a tensor, an array or a nest of them.
            *args: for `call`.
            **kwargs: for `call`; but ``scope``, a variable scope or its name, is the layer's scope if this is its
                first use.

        Raises:
            ConfigError: The input does not fit the layer's ``input_spec``, or no graph is being built.
        """
        self._set_scope(kwargs.pop("scope", None))
        with self._in_scope(reuse=True if self.built else self._reuse):
            inputs = tf.nest.map_structure(_as_tensor, inputs)
            self._build_once(inputs)
            outputs = self.call(inputs, *args, **kwargs)
            self._calls.append((inputs, outputs))
            self._regularize_activity(inputs, outputs)
        self._collect_updates()
        return outputs

    def apply(self, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        """Call the layer."""
        return self(inputs, *args, **kwargs)

    def add_weight(
        self,
        name: str,
        shape: Any = None,
        dtype: Any = None,
        initializer: Initializer = None,
        regularizer: Regularizer = None,
        trainable: bool | None = None,
        constraint: Callable[[tf.Tensor], tf.Tensor] | None = None,
        use_resource: bool | None = None,
        synchronization: tf.VariableSynchronization = tf.VariableSynchronization.AUTO,
        aggregation: tf.VariableAggregation = tf.VariableAggregation.NONE,
        partitioner: Callable[..., Any] | None = None,
        **kwargs: Any,
    ) -> Any:
        """Make a variable of the layer by ``tf.get_variable``, or get it where the scope reuses variables.

        Args:
            name: in the layer's scope.
            shape: its shape.
            dtype: the default is that of the layer, and float32 where it has none.
            initializer: None for that of the scope, or TensorFlow's default.
            regularizer: a function of the variable that returns a loss for REGULARIZATION_LOSSES. It is called when
                the variable is made, and for each part of one that is partitioned.
            trainable: None for True, except where ``synchronization`` is ON_READ.
            constraint: what optimizers do to the variable after each update.
            use_resource: as for ``tf.get_variable``.
            synchronization: the same.
            aggregation: the same.
            partitioner: the same.
            **kwargs: ``getter``, to use in place of ``tf.get_variable``, ``collections`` and ``caching_device``.

        Returns:
            The variable, or what a custom getter made of it.
        """
        getter = check_function(self, "getter", kwargs.pop("getter", tf.get_variable))
        if trainable is None:
            trainable = synchronization != tf.VariableSynchronization.ON_READ
        self._set_scope(None)
        with self._in_scope(reuse=True if self.built else self._reuse), _made_variables() as made:
            variable = getter(
                name,
                shape,
                dtype=tf.as_dtype(dtype or self._dtype or tf.float32),
                initializer=initializer,
                trainable=trainable and self.trainable,
                constraint=constraint,
                use_resource=use_resource,
                synchronization=synchronization,
                aggregation=aggregation,
                partitioner=partitioner,
                **kwargs,
            )
            if regularizer is not None:
                self._regularized.append((name, variable, regularizer))
                self._regularize(*self._regularized[-1], is_new=bool(made))
        self._remember(variable, trainable=trainable)
        return variable

    def add_variable(self, *args: Any, **kwargs: Any) -> Any:
        """Make a variable of the layer: an older name of `add_weight`."""
        return self.add_weight(*args, **kwargs)

    def add_loss(self, losses: Any, inputs: Any = None) -> None:
        """Add losses to the layer and to REGULARIZATION_LOSSES.

        Args:
            losses: a scalar tensor, a function that returns one, or a list of these; None is left out.
            inputs: the inputs that they depend on, or None for losses that are the same for all inputs.
        """
        for loss in losses if isinstance(losses, list | tuple) else [losses]:
            value = loss() if callable(loss) and not tf.is_tensor(loss) else loss
            if value is not None:
                value = tf.convert_to_tensor(value)
                self._losses.append(_Loss(value, is_of_inputs=inputs is not None))
                tf.add_to_collection(tf.GraphKeys.REGULARIZATION_LOSSES, value)

    def add_update(self, updates: Any, inputs: Any = None) -> None:
        """Add an operation, a tensor or a list of these to UPDATE_OPS at the end of the call.

        ``inputs`` is not needed: which updates depend on inputs is seen in the graph.
        """
        for update in updates if isinstance(updates, list | tuple) else [updates]:
            self._updates.append(update.op if isinstance(update, tf.Variable) else update)

    @property
    def name(self) -> str:
        """The name of the layer."""
        return self._name

    @property
    def scope_name(self) -> str:
        """The name of the layer's variable scope; raise ConfigError if the layer has not been called yet."""
        if self._scope is None:
            raise ConfigError(f"{self._name} has no scope_name before its first call, which finds a free name")
        return str(self._scope.name)

    @property
    def graph(self) -> tf.Graph | None:
        """The graph of the first call, or None before it."""
        return self._graph

    @property
    def dtype(self) -> str | None:
        """The name of the dtype of its variables; None before the first call if none was given."""
        return self._dtype

    @property
    def trainable_weights(self) -> list[Any]:
        """The variables that are trained."""
        return list(self._trainable_weights) if self.trainable else []

    @property
    def non_trainable_weights(self) -> list[Any]:
        """The variables that are not trained."""
        return list(self._non_trainable_weights) if self.trainable else self._all_weights()

    @property
    def weights(self) -> list[Any]:
        """All variables, those that are trained first."""
        return self._all_weights()

    variables = weights
    trainable_variables = trainable_weights
    non_trainable_variables = non_trainable_weights

    @property
    def losses(self) -> list[tf.Tensor]:
        """The losses of all calls, then those of variables."""
        return [loss.value for loss in sorted(self._losses, key=lambda loss: loss.is_of_variable)]

    @property
    def updates(self) -> list[Any]:
        """The updates of all calls; none while the layer is not ``trainable``."""
        return list(self._updates) if self.trainable else []

    def get_losses_for(self, inputs: Any) -> list[tf.Tensor]:
        """Return the losses that depend on some inputs, or, for None, those that depend on none."""
        if inputs is None:
            return [loss.value for loss in self._losses if not loss.is_of_inputs]
        of_inputs = [loss.value for loss in self._losses if loss.is_of_inputs]
        return _depending(of_inputs, tf.nest.flatten(inputs))

    def get_updates_for(self, inputs: Any) -> list[Any]:
        """Return the updates that depend on some inputs, or, for None, those that depend on no input of any call."""
        if inputs is not None:
            return _depending(self.updates, tf.nest.flatten(inputs))
        of_inputs = _depending(self.updates, tf.nest.flatten([inputs for inputs, _ in self._calls]))
        return [update for update in self.updates if not any(update is other for other in of_inputs)]

    @property
    def input(self) -> Any:
        """The input of a layer that is called on one only; raise MissingNameError otherwise, see `get_input_at`."""
        return self._only("input", [inputs for inputs, _ in self._calls])

    @property
    def output(self) -> Any:
        """The output of a layer that is called once; raise MissingNameError otherwise, see `get_output_at`."""
        return self._only("output", [outputs for _, outputs in self._calls])

    @property
    def input_shape(self) -> Any:
        """The static shape of `input`, a tuple in which None is unknown, or a nest of them."""
        return _shapes(self.input)

    @property
    def output_shape(self) -> Any:
        """The static shape of `output`, a tuple in which None is unknown, or a nest of them."""
        return _shapes(self.output)

    def get_input_at(self, node_index: int) -> Any:
        """Return the input of a call, by its number; raise ConfigError if there is no such call."""
        return self._call_at(node_index)[0]

    def get_output_at(self, node_index: int) -> Any:
        """Return the output of a call, by its number; raise ConfigError if there is no such call."""
        return self._call_at(node_index)[1]

    def get_weights(self) -> list[np.ndarray]:
        """Return the values of `weights` in the default session; raise ConfigError if there is none."""
        weights = self.weights
        return list(arguments.default_session(self, "get_weights").run(weights)) if weights else []

    def set_weights(self, weights: Sequence[Any]) -> None:
        """Set all variables, in the order of `weights`, in the default session.

        Raises:
            ConfigError: They are more or fewer, or there is no default session.
            CheckpointError: One does not fit its variable; none is set.
        """
        arguments.load_weights(self, self.weights, weights)

    def get_config(self) -> dict[str, Any]:
        """Return the arguments that make a layer like this one, without its variables.

        An initializer is a dict of its class and arguments, and a function of ``tf.nn`` its name, as TensorFlow 1 has
        them. Any other function or object is itself, where TensorFlow 1 has a name that makes something else.

        Raises:
            ConfigError: The class takes arguments without names, and so has to say itself.
        """
        return arguments.config_of(self, *self._arguments)

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> "Layer":
        """Make a layer from the result of `get_config`; raise WrongTypeError if the class lacks an argument."""
        return cls(**config)

    def count_params(self) -> int:
        """Return how many numbers the variables hold; raise ConfigError if they are not there yet."""
        if not self.built:
            raise ConfigError(f"{self._name} has no variables to count before its first call")
        return sum(int(np.prod(weight.shape.as_list())) for weight in self._all_weights())

    def compute_output_shape(self, input_shape: Any) -> tf.TensorShape:
        """Return the shape of the output for one of the input, without a graph.

        Raises:
            NotImplementedError: The class does not say.
        """
        raise NotImplementedError(f"{type(self).__name__} does not say what shape comes out of {input_shape}")

    def __deepcopy__(self, memo: dict[int, Any]) -> "Layer":
        twin = copy.copy(self)
        memo[id(self)] = twin
        own = {name: value for name, value in vars(self).items() if name not in ("_scope", "_graph", "_calls")}
        vars(twin).update({name: copy.deepcopy(value, memo) for name, value in own.items()}, _calls=list(self._calls))
        return twin

    def _only(self, what: str, values: list[Any]) -> Any:
        if not values:
            raise MissingNameError(f"{self._name} has no {what} before its first call")
        is_same = all(map(operator.is_, tf.nest.flatten(values[:1] * len(values)), tf.nest.flatten(values)))
        if not is_same:
            raise MissingNameError(
                f"{self._name} was called {len(values)} times and has no single {what}: use get_{what}_at(0) to "
                f"get_{what}_at({len(values) - 1})"
            )
        return values[0]

    def _call_at(self, index: int) -> tuple[Any, Any]:
        if not 0 <= index < len(self._calls):
            raise ConfigError(f"{self._name} was called {len(self._calls)} times, and has no call {index}")
        return self._calls[index]

    def _all_weights(self) -> list[Any]:
        return [*self._trainable_weights, *self._non_trainable_weights]

    def _set_scope(self, scope: tf.VariableScope | str | None) -> None:
        """Choose the variable scope, unless that has been done."""
        if self._scope is None:
            if tf.executing_eagerly():
                raise ConfigError(
                    f"{self._name} was called outside of a graph: layers build graphs; open a tf.Graph, or call "
                    "tf.disable_eager_execution() before"
                )
            if self._reuse:
                self._capture(tf.variable_scope(self._base_name if scope is None else scope))
            else:
                self._capture(tf.variable_scope(scope, default_name=self._base_name))

    def _capture(self, opening: tf.variable_scope) -> None:
        with opening as scope:
            self._scope = scope

    @contextmanager
    def _in_scope(self, reuse: Any) -> Iterator[None]:
        """Open the layer's variable scope, and the name scope that it had when it was chosen."""
        with (
            tf.variable_scope(self._scope, reuse=reuse, auxiliary_name_scope=False) as scope,
            tf.name_scope(scope.original_name_scope),
        ):
            yield

    def _build_once(self, inputs: Any) -> None:
        tensors = tf.nest.flatten(inputs)
        self._check_inputs(tensors)
        if self.built:
            for regularized in self._regularized:
                self._regularize(*regularized, is_new=False)
            return
        self._graph = built_graph()
        if self._dtype is None and tensors:
            self._dtype = tensors[0].dtype.base_dtype.name
        self.build(tf.nest.map_structure(lambda tensor: tensor.shape, inputs))
        self.built = True
        # What the class wants of its input may be known only now.
        self._check_inputs(tensors)

    def _check_inputs(self, inputs: Sequence[tf.Tensor]) -> None:
        if self.input_spec is None:
            return
        specs = self.input_spec if isinstance(self.input_spec, list | tuple) else [self.input_spec]
        if len(inputs) != len(specs):
            raise ConfigError(f"{self._name} got {len(inputs)} inputs: expected {len(specs)}")
        for spec, tensor in zip(specs, inputs, strict=True):
            refusal = spec.refusal(tensor)
            if refusal is not None:
                raise ConfigError(
                    f"{self._name} got an input of {tensor.dtype.name} and shape {tensor.shape}: {refusal}"
                )

    def _regularize(self, name: str, variable: Any, regularizer: Callable[..., Any], *, is_new: bool) -> None:
        if not _is_to_regularize(name, is_new=is_new):
            return
        # A variable is made outside of loops and functions, and so is its loss.
        for part in _parts(variable):
            with tf.init_scope(), tf.name_scope(f"{name}/Regularizer"):
                loss = regularizer(part)
            if loss is not None:
                self._losses.append(_Loss(tf.convert_to_tensor(loss), is_of_variable=True))
                tf.add_to_collection(tf.GraphKeys.REGULARIZATION_LOSSES, self._losses[-1].value)

    def _regularize_activity(self, inputs: Any, outputs: Any) -> None:
        if self.activity_regularizer is None:
            return
        for output in tf.nest.flatten(outputs):
            with tf.name_scope("ActivityRegularizer"):
                loss = self.activity_regularizer(output)
                if loss is not None:
                    batch_size = tf.cast(tf.shape(output)[0], loss.dtype)
                    self.add_loss(loss / batch_size, inputs=inputs)

    def _remember(self, variable: Any, *, trainable: bool) -> None:
        for part in _parts(variable):
            # A custom getter may have decided otherwise, as one that freezes variables does.
            is_trained = trainable and getattr(part, "trainable", False)
            weights = self._trainable_weights if is_trained else self._non_trainable_weights
            if not any(part is weight for weight in weights):
                weights.append(part)

    def _collect_updates(self) -> None:
        if self.trainable:
            for update in self._updates[self._num_collected :]:
                tf.add_to_collection(tf.GraphKeys.UPDATE_OPS, update)
        self._num_collected = len(self._updates)


class _Loss:
    def __init__(self, value: tf.Tensor, *, is_of_inputs: bool = False, is_of_variable: bool = False) -> None:
        self.value = value
        self.is_of_inputs = is_of_inputs
        self.is_of_variable = is_of_variable


@contextmanager
def _made_variables() -> Iterator[list[Any]]:
    """Give a list of the variables that are made in the block, and not found."""
    made: list[Any] = []

    def make(creator: Callable[..., Any], **kwargs: Any) -> Any:
        made.append(creator(**kwargs))
        return made[-1]

    with tf.variable_creator_scope(make):
        yield made


def _is_to_regularize(name: str, *, is_new: bool) -> bool:
    """Tell whether a variable gets its loss now, and write it down: where it is made, and once in each training tower.

    Where towers share variables, each tower's cost has all losses, so that the mean of the gradients has them once.

    Args:
        name: what the layer calls the variable, in the current variable scope.
        is_new: whether it has just been made.
    """
    tower = get_current_tower_context()
    index = tower.index if tower is not None and tower.is_training else None
    towers_with_loss, key = _regularized.here(), f"{tf.get_variable_scope().name}/{name}"
    if is_new:
        towers_with_loss[key] = {index}
        return True
    if index is None or index in towers_with_loss.get(key, {index}):
        return False
    towers_with_loss[key].add(index)
    return True


def _parts(variable: Any) -> list[Any]:
    """Return the parts of a partitioned variable, or a list of the variable."""
    # TensorFlow does not show their class; unlike one variable they cannot be read as one operation.
    is_partitioned = not tf.is_tensor(variable) and not hasattr(variable, "read_value")
    return list(variable) if is_partitioned else [variable]


def _as_tensor(value: Any) -> Any:
    is_array = isinstance(value, np.ndarray | np.generic) or not hasattr(value, "shape")
    return tf.convert_to_tensor(value) if is_array else value


def _shapes(values: Any) -> Any:
    """Return the shapes of tensors as tuples; None for one of unknown rank."""
    return tf.nest.map_structure(lambda x: None if x.shape.rank is None else tuple(x.shape.as_list()), values)


def _depending(targets: Sequence[Any], inputs: Sequence[Any]) -> list[Any]:
    """Return those of some operations and tensors that need some of the inputs."""
    sources = {tensor.op for tensor in inputs}
    return [target for target in targets if ancestors([target]) & sources]


def _free_name(base_name: str) -> str:
    counts = _num_layers.here()
    counts[base_name] += 1
    return f"{base_name}_{counts[base_name]}"


def _snake_case(class_name: str) -> str:
    """Return the name of a class in lower case, its words apart."""
    words = _WORD_STARTS.sub("_", class_name).lower()
    return f"private{words}" if words.startswith("_") else words
