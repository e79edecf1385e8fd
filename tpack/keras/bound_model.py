"""A Keras model in a tower with variables of the tower in place of its own, where it cannot be cloned.

Keras clones by ``get_config``, which layers and models of users often lack. Such a model itself is called in each
tower, in a scope of Keras in which its variables have the values of the tower's, and changes of them are kept apart.
Tensors that layers have as attributes, such as the mean of a ``Normalization`` that was adapted, are constants there.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import keras
import numpy as np
import tensorflow.compat.v1 as tf

from tpack.compat.runtime import eager_mode
from tpack.tower.context import current_tower_context

_SEEDS = "global_seed_generator"


@contextmanager
def own_global_seeds(*, is_made: bool) -> Iterator[None]:
    """Draw random numbers without a seed of their own, in a block, from a state in the current graph.

    Args:
        is_made: make the state now, and not when it is used first.
    """
    state = sys.modules["keras.src.backend.common.global_state"]
    before = state.get_global_attribute(_SEEDS)
    state.set_global_attribute(_SEEDS, keras.random.SeedGenerator(name=_SEEDS) if is_made else None)
    try:
        yield
    finally:
        state.set_global_attribute(_SEEDS, before)


def global_seeds() -> Any:
    """Return Keras's generator of seeds for random numbers without their own; None before its first use."""
    return sys.modules["keras.src.backend.common.global_state"].get_global_attribute(_SEEDS)


class _Attribute(NamedTuple):
    """A tensor that a layer has as an attribute."""

    layer: Any
    name: str
    value: tf.Tensor


_replaced: WeakKeyDictionary[Any, list[list[_Attribute]]] = WeakKeyDictionary()
"""For models that are called in towers now: their attributes, once for each call; those of the first are replaced."""


@contextmanager
def _constants_of(model: Any) -> Iterator[None]:
    """Put constants of the current graph in place of the eager tensors among the attributes of layers, in a block.

    Towers that meet are called in turns: what the first replaces, the last restores.
    """
    calls = _replaced.setdefault(model, [])
    found = [
        _Attribute(layer, name, value)
        for layer in model._flatten_layers()
        for name, value in vars(layer).items()
        if isinstance(value, tf.Tensor) and hasattr(value, "numpy")
    ]
    calls.append(found)
    for attribute in found:
        vars(attribute.layer)[attribute.name] = tf.constant(attribute.value.numpy())
    try:
        yield
    finally:
        if len(calls) == 1:
            for attribute in calls[0]:
                vars(attribute.layer)[attribute.name] = attribute.value
            calls.clear()
        else:
            calls[0] += calls.pop()


class _Weight(NamedTuple):
    """A weight of a tower, with the attribute that Keras's weights have."""

    value: tf.Variable


class BoundModel:
    """A model with the variables of the current tower.

    Args:
        model: the model, built and eager.
        weights: the first values of its weights.

    Attributes:
        model: the model.
        weights: the weights of the tower, in Keras's order.
        losses: the losses of layers and regularizers, after a call.
    """

    def __init__(self, model: Any, weights: list[np.ndarray]) -> None:
        self.model = model
        self.losses: list[Any] = []
        known = {id(variable): value for variable, value in zip(model.weights, weights, strict=True)}
        self._own = {}
        for variable in model.variables:
            with eager_mode():
                value = known.get(id(variable)) if id(variable) in known else np.asarray(variable)
            is_trained = bool(variable.trainable and model.trainable)
            made = tf.Variable(value, trainable=is_trained, name=variable.path.replace(":", "_"), use_resource=True)
            self._own[id(variable)] = made
        self.weights = [_Weight(self._own[id(variable)]) for variable in model.weights]
        self._before = [(variable, self._own[id(variable)].read_value()) for variable in model.variables]
        self._scope = keras.StatelessScope(state_mapping=self._before, collect_losses=True)

    def __call__(self, x: Any, *, training: bool) -> Any:
        """Return the outputs, and let the changes of variables, such as moving averages, run with each step."""
        seeds = global_seeds()
        with self._scope as scope, _constants_of(self.model):
            y_pred = self.model(x, training=training)
            # Not those that the layers know: towers that meet are called in turns, and share the layers.
            self.losses = [*scope.losses, *self.model._get_regularization_losses()]
        tower = current_tower_context()
        after_call = None if seeds is None else scope.get_current_value(seeds.state)
        if after_call is not None and training and tower.updates_variables:
            tf.add_to_collection(tf.GraphKeys.UPDATE_OPS, seeds.state.value.assign(after_call, read_value=False))
        for variable, before in self._before if training and tower.updates_variables else ():
            after = scope.get_current_value(variable)
            if after is not before:
                update = self._own[id(variable)].assign(after, read_value=False)
                tf.add_to_collection(tf.GraphKeys.UPDATE_OPS, update)
        return y_pred

    @contextmanager
    def inside(self) -> Iterator[Any]:
        """Give the model in a block in which its variables and losses are the tower's."""
        before, self.model._losses_override = self.model._losses_override, self.losses
        try:
            with self._scope, _constants_of(self.model):
                yield self.model
        finally:
            self.model._losses_override = before
