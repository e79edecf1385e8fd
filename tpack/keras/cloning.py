"""Keras models for each tower, made by a function or cloned from a model, and the specs of their inputs.

A Keras model belongs to the graph of its variables. Each tower makes its own, so that each trainer's rules for
variables hold; an existing model is cloned with its weights as initial values.

A layer with ``synchronized=True`` asks TensorFlow for its tower and for sums over all towers. Under a strategy of tpack
TensorFlow knows the tower; elsewhere `meeting_tower` provides it.
"""

import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from types import FunctionType
from typing import Any

import keras
import numpy as np
import tensorflow.compat.v1 as tf

from tpack.compat.graphs import shown_strategy
from tpack.compat.runtime import eager_mode
from tpack.errors import ConfigError, GraphBuildError
from tpack.keras.bound_model import BoundModel
from tpack.keras.losses_metrics import COMPUTE_LOSS, COMPUTE_METRICS, KerasLoss, for_each_output, has_own
from tpack.reduction.cross_replica import mean_over_towers, sum_over_towers
from tpack.utils import logger
from tpack.utils.validation import check_function, shown

_NO_CONFIG = (AttributeError, KeyError, NotImplementedError, TypeError, ValueError)
"""The errors of Keras where a class has no configuration, or cannot be made from it."""


class ModelMaker:
    """Makes equal Keras models.

    Args:
        source: a function that returns a model, and gets Keras tensors of the inputs if it takes arguments; or a model,
            made or loaded in eager mode, which is cloned with its present weights.

    Raises:
        ConfigError: It is something else, or a model without weights or in a graph.
    """

    def __init__(self, source: Any) -> None:
        self.model = source if isinstance(source, keras.Model) else None
        if self.model is None:
            check_function("KerasModel", "model", source, "a Keras model, or a function that returns one")
            self._function: Callable[..., Any] = source
            return
        if not self.model.built:
            raise ConfigError(
                f"KerasModel got {shown(source)} without weights: expected a model that was called or built, or a "
                "function that makes it"
            )
        self._weights = _weights_of(self.model)
        self._can_clone: bool | None = None
        self._config: Any = None
        if not getattr(self.model, "inputs", None):
            # Keras would also copy the compilation of a subclassed model, which it can only read eagerly.
            with suppress(*_NO_CONFIG):
                self._config = self.model.get_config()

    def make(self, specs: Sequence[tf.TensorSpec]) -> Any:
        """Return a new model, in the current graph or in eager mode.

        Args:
            specs: the specs of its inputs.

        Raises:
            GraphBuildError: The function returns something else.
        """
        if self.model is not None:
            return self._clone(self.model)
        made = self._function(*map(_symbol, specs)) if _takes_inputs(self._function) else self._function()
        if not isinstance(made, keras.Model):
            raise GraphBuildError(f"the function of a KerasModel returned {shown(made)}: expected a keras.Model")
        return made

    def in_tower(self, specs: Sequence[tf.TensorSpec]) -> Any:
        """Return a new model in the current tower, or the given one, bound to it, if Keras cannot clone it.

        Args:
            specs: the specs of its inputs.
        """
        if self.model is None or self.can_clone():
            return self.make(specs)
        return BoundModel(self.model, self._weights)

    def can_clone(self) -> bool:
        """Tell whether Keras makes an equal model, of the same class, from the configuration of the given one."""
        if self._can_clone is None:
            model: Any = self.model
            classes = {type(layer).__module__.partition(".")[0] for layer in model._flatten_layers()}
            has_functions = any(isinstance(layer, keras.layers.Lambda) for layer in model._flatten_layers())
            self._can_clone = (classes == {"keras"} and not has_functions) or self._clones_alike()
        return self._can_clone

    def _clones_alike(self) -> bool:
        try:
            with tf.Graph().as_default():
                clone = self._clone(self.model)
        except _NO_CONFIG as error:
            logger.info(f"Keras cannot clone {shown(self.model)}, so it is called itself in each tower: {error}")
            return False
        has_own_methods = any(has_own(self.model, each) for each in (COMPUTE_LOSS, COMPUTE_METRICS))
        return type(clone) is type(self.model) or not has_own_methods

    def sample(self) -> Any:
        """Return a model for the specs of its inputs and outputs: the given one or a new one.

        Raises:
            ConfigError: The function takes the inputs.
        """
        if self.model is not None:
            return self.model
        if _takes_inputs(self._function):
            raise ConfigError(
                f"KerasModel got {shown(self._function)}, which takes the inputs: expected input_signature and "
                "target_signature with it"
            )
        with eager_mode():
            return self.make(())

    def _clone(self, model: Any) -> Any:
        if self._config is not None:
            clone = type(model).from_config(self._config)
        else:
            with _uncompiled(model):
                clone = keras.models.clone_model(model)
        _copy_attributes(clone, model)
        if not clone.built:
            clone.build_from_config(model.get_build_config())
        clone.set_weights(self._weights)
        for layer, original in zip(clone._flatten_layers(), model._flatten_layers(), strict=True):
            layer.trainable = original.trainable
        for variable, original in zip(clone.weights, model.weights, strict=True):
            variable.trainable = original.trainable
        return clone


def _copy_attributes(clone: Any, model: Any) -> None:
    """Give a clone the numbers, functions and text that a model has as attributes and the clone lacks."""
    plain = (bool, int, float, str, np.ndarray, FunctionType, keras.losses.Loss)
    for name, value in vars(model).items():
        if isinstance(value, plain) and not name.startswith("_") and name not in vars(clone):
            setattr(clone, name, value)


@contextmanager
def _uncompiled(model: Any) -> Iterator[None]:
    """Make a model an uncompiled one for a block: Keras also compiles clones, which needs eager mode."""
    compiled, model.compiled = model.compiled, False
    try:
        yield
    finally:
        model.compiled = compiled


def _weights_of(model: Any) -> list[Any]:
    try:
        with eager_mode():
            return list(model.get_weights())
    except (AttributeError, NotImplementedError, TypeError) as error:
        raise ConfigError(
            f"KerasModel got {shown(model)} with weights in a graph: expected a model made in eager mode, outside of "
            "any tf.Graph, or a function that makes it"
        ) from error


def _symbol(spec: tf.TensorSpec) -> Any:
    return keras.Input(spec.shape.as_list()[1:], dtype=spec.dtype.name, name=spec.name)


def _takes_inputs(function: Callable[..., Any]) -> bool:
    """Tell whether a function that makes a model takes the inputs."""
    parameters = inspect.signature(function).parameters.values()
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD, p.VAR_POSITIONAL)]
    return any(p.default is p.empty for p in positional)


def inputs_of(model: Any) -> list[tf.TensorSpec]:
    """Return the specs of a model's inputs.

    Raises:
        ConfigError: They are unknown.
    """
    inputs = getattr(model, "inputs", None)
    if not inputs:
        raise ConfigError(
            f"KerasModel got {shown(model)}, which does not know its inputs: expected a functional or sequential "
            "model, or input_signature"
        )
    # A model that was built by a call knows the size of that batch.
    return [tf.TensorSpec([None, *each.shape[1:]], each.dtype, each.name) for each in inputs]


def names_of_outputs(model: Any) -> list[str]:
    """Return the names of a functional model's outputs: keys, else those of the last layers; of others none."""
    if not getattr(model, "output_names", None):
        return []
    return sorted(model.output) if isinstance(model.output, dict) else list(model.output_names)


def targets_of(model: Any, loss: Any) -> list[tf.TensorSpec]:
    """Return the specs of the targets of a model's outputs, by its losses.

    Raises:
        ConfigError: The outputs are unknown.
    """
    outputs = getattr(model, "outputs", None)
    if not outputs:
        raise ConfigError(f"KerasModel got {shown(model)}, which does not know its outputs: expected target_signature")
    names = names_of_outputs(model) or [str(k) for k in range(len(outputs))]
    specs = []
    for k, (output, each) in enumerate(zip(outputs, for_each_output(loss, names), strict=False)):
        if each is None:
            continue
        name = "target" if len(outputs) == 1 else f"target_{k}"
        shape, dtype = [None, *output.shape[1:]], output.dtype
        if KerasLoss(each).is_sparse:
            shape, dtype = shape[:-1], tf.int32
        specs.append(tf.TensorSpec(shape, dtype, name))
    return specs


def call(model: Any, x: Any, *, training: bool) -> Any:
    """Return the outputs of a Keras model, nested as it returns them."""
    return model(x, training=training)


class _Towers:
    """The towers of a trainer as TensorFlow's strategy, with the attributes used while a model is built.

    Attributes:
        num_replicas_in_sync: the divisor of losses: one, since trainers take the mean of gradients.
    """

    num_replicas_in_sync = 1
    _scale_loss_for_estimator = False
    _retrace_functions_for_each_device = True

    @property
    def extended(self) -> "_Towers":
        """The same object: TensorFlow splits the methods of a strategy between two."""
        return self

    def value_container(self, value: Any) -> Any:
        """Return the container of a value: the value, since each tower's variables are its own."""
        return value

    def variable_created_in_scope(self, variable: Any) -> bool:
        """Return True: there are no others."""
        return True


class _Tower:
    """The current tower as TensorFlow's replica context."""

    num_replicas_in_sync = 1
    strategy = _Towers()

    def all_reduce(self, reduce_op: Any, value: Any, options: object = None) -> Any:
        """Sum or average tensors of all towers; gradients are those of the mean of the towers' costs."""
        is_sum = str(getattr(reduce_op, "name", reduce_op)).upper() == "SUM"
        return tf.nest.map_structure(sum_over_towers if is_sum else mean_over_towers, value)


def has_synchronised(model: Any) -> bool:
    """Tell whether a Keras model has a layer that is synchronised over the towers."""
    whole = model.model if isinstance(model, BoundModel) else model
    return any(getattr(layer, "synchronized", False) for layer in whole._flatten_layers())


def meeting_tower() -> AbstractContextManager[None]:
    """Show the current tower to TensorFlow in a block, unless a strategy's is visible."""
    tower = _Tower()
    return nullcontext() if tf.distribute.has_strategy() else shown_strategy(tower.strategy, tower)
