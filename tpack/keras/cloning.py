"""Keras models made anew for each tower, from a function or from a model that is there, and what they take.

A Keras model belongs to where its variables were made. Each tower makes one of its own, so that each trainer's rules
for variables hold; a model that was made before is cloned, and its weights are the first values of each clone.

A layer with ``synchronized=True`` asks TensorFlow for the tower that it is in and has it add up numbers over all of
them. Under a strategy of tpack TensorFlow knows it; elsewhere `meeting_tower` tells it.
"""

import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import keras
import tensorflow.compat.v1 as tf

from tpack.compat import eager_mode, shown_strategy
from tpack.errors import ConfigError, GraphBuildError
from tpack.keras.losses_metrics import KerasLoss
from tpack.reduction.cross_replica import mean_over_towers, sum_over_towers
from tpack.utils.validation import check_function, shown


class ModelMaker:
    """Makes Keras models that are all alike.

    Args:
        source: a function that returns a model, and gets Keras tensors of the inputs if it takes arguments; or a model,
            made or loaded in eager mode, which is cloned with the weights that it has now.

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
                f"KerasModel got {shown(source)}, which has no weights yet, since it was never called or built: call "
                "it with some data, or give a function that makes it"
            )
        self._weights = _weights_of(self.model)
        # Of a subclassed model Keras would also copy with what it was compiled, which it can only read eagerly.
        self._config = None if getattr(self.model, "inputs", None) else self.model.get_config()

    def make(self, specs: Sequence[tf.TensorSpec]) -> Any:
        """Return a new model, in the current graph or in eager mode.

        Args:
            specs: what its inputs are.

        Raises:
            GraphBuildError: The function returns something else.
        """
        if self.model is not None:
            return self._clone(self.model)
        made = self._function(*map(_symbol, specs)) if _takes_inputs(self._function) else self._function()
        if not isinstance(made, keras.Model):
            raise GraphBuildError(f"the function of a KerasModel must return a keras.Model, got {shown(made)}")
        return made

    def sample(self) -> Any:
        """Return a model to ask what it takes and gives: the one that is there, or one made once more.

        Raises:
            ConfigError: The function wants to be told what its inputs are.
        """
        if self.model is not None:
            return self.model
        if _takes_inputs(self._function):
            raise ConfigError(
                f"KerasModel needs input_signature and target_signature for {shown(self._function)}, which takes the "
                "inputs and so cannot tell what they are"
            )
        with eager_mode():
            return self.make(())

    def _clone(self, model: Any) -> Any:
        if self._config is not None:
            clone = type(model).from_config(self._config)
        else:
            with _uncompiled(model):
                clone = keras.models.clone_model(model)
        if not clone.built:
            clone.build_from_config(model.get_build_config())
        clone.set_weights(self._weights)
        for layer, original in zip(clone._flatten_layers(), model._flatten_layers(), strict=True):
            layer.trainable = original.trainable
        return clone


@contextmanager
def _uncompiled(model: Any) -> Iterator[None]:
    """Let a model be one that was not compiled in a block: Keras compiles clones too, which it can only do eagerly."""
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
            f"KerasModel got {shown(model)}, whose weights are in a graph: make it in eager mode, outside of any "
            "tf.Graph, or give a function that makes it"
        ) from error


def _symbol(spec: tf.TensorSpec) -> Any:
    return keras.Input(spec.shape.as_list()[1:], dtype=spec.dtype.name, name=spec.name)


def _takes_inputs(function: Callable[..., Any]) -> bool:
    """Tell whether a function that makes a model wants the inputs."""
    parameters = inspect.signature(function).parameters.values()
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD, p.VAR_POSITIONAL)]
    return any(p.default is p.empty for p in positional)


def inputs_of(model: Any) -> list[tf.TensorSpec]:
    """Return what a model takes, as far as it knows.

    Raises:
        ConfigError: It does not know.
    """
    inputs = getattr(model, "inputs", None)
    if not inputs:
        raise ConfigError(
            f"KerasModel needs input_signature, since {shown(model)} does not know its inputs: only functional and "
            "sequential models do"
        )
    return [tf.TensorSpec(each.shape, each.dtype, each.name) for each in inputs]


def targets_of(model: Any, losses: Sequence[KerasLoss]) -> list[tf.TensorSpec]:
    """Return what the targets of a model's outputs are, by its losses.

    Raises:
        ConfigError: It does not know its outputs.
    """
    outputs = getattr(model, "outputs", None)
    if not outputs:
        raise ConfigError(f"KerasModel needs target_signature, since {shown(model)} does not know its outputs")
    names = ["target"] if len(outputs) == 1 else [f"target_{k}" for k in range(len(outputs))]
    specs = []
    for output, loss, name in zip(outputs, losses, names, strict=False):
        shape = output.shape[:-1] if loss.is_sparse else output.shape
        specs.append(tf.TensorSpec(shape, tf.int32 if loss.is_sparse else output.dtype, name))
    return specs


def as_list(value: Any) -> list[Any]:
    """Return several things as a list, and one as a list of it."""
    return list(value) if isinstance(value, (list, tuple)) and not isinstance(value, tf.TensorSpec) else [value]


def call(model: Any, inputs: Sequence[Any], *, training: bool) -> list[Any]:
    """Return the outputs of a Keras model."""
    return as_list(model(inputs[0] if len(inputs) == 1 else list(inputs), training=training))


class _Towers:
    """The towers of a trainer, as TensorFlow sees a strategy, with what is asked of one while a model is built.

    Attributes:
        num_replicas_in_sync: by how many losses are divided: one, since trainers take the mean of gradients.
    """

    num_replicas_in_sync = 1
    _scale_loss_for_estimator = False
    _retrace_functions_for_each_device = True

    @property
    def extended(self) -> "_Towers":
        """The same: TensorFlow divides what a strategy can do among two objects."""
        return self

    def value_container(self, value: Any) -> Any:
        """Return what holds a value: each tower's variables are its own."""
        return value

    def variable_created_in_scope(self, variable: Any) -> bool:
        """Return True: there are no others."""
        return True


class _Tower:
    """The current tower, as TensorFlow sees that of a strategy."""

    num_replicas_in_sync = 1
    strategy = _Towers()

    def all_reduce(self, reduce_op: Any, value: Any, options: object = None) -> Any:
        """Sum or average tensors of all towers; gradients are those of the mean of the towers' costs."""
        is_sum = str(getattr(reduce_op, "name", reduce_op)).upper() == "SUM"
        return tf.nest.map_structure(sum_over_towers if is_sum else mean_over_towers, value)


def has_synchronised(model: Any) -> bool:
    """Tell whether a Keras model has a layer that is to be synchronised over the towers."""
    return any(getattr(layer, "synchronized", False) for layer in model._flatten_layers())


def meeting_tower() -> AbstractContextManager[None]:
    """Let TensorFlow see the current tower in a block, unless it sees that of a strategy already."""
    tower = _Tower()
    return nullcontext() if tf.distribute.has_strategy() else shown_strategy(tower.strategy, tower)
