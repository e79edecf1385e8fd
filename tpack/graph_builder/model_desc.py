"""Model descriptions, which every trainer, builder and predictor can use."""

from collections.abc import Sequence
from typing import Any, overload

import tensorflow.compat.v1 as tf

from tpack.callbacks.base import Callback
from tpack.errors import ConfigError, WrongTypeError
from tpack.tower.context import current_tower_context
from tpack.tower.per_graph import PerGraph
from tpack.tower.tower_func import InputSignature
from tpack.utils.renames import MODEL_METHODS, on_subclass, on_unknown_name
from tpack.utils.validation import shown

__getattr__ = on_unknown_name(__name__)

_optimizers: PerGraph[list[tuple["ModelDesc", tf.train.Optimizer]]] = PerGraph(list)
"""The optimizers of a graph, each with its model."""


class _IsTraining:
    """Default of a model's ``training``; unlike a property, it can be set."""

    @overload
    def __get__(self, model: None, owner: type) -> "_IsTraining": ...

    @overload
    def __get__(self, model: object, owner: type) -> bool: ...

    def __get__(self, model: object, owner: type) -> "bool | _IsTraining":
        return self if model is None else current_tower_context().is_training


class ModelDescBase:
    """Base of model descriptions; subclasses override `inputs` and `build_graph`."""

    def __init_subclass__(cls) -> None:
        on_subclass(cls, MODEL_METHODS)

    def inputs(self) -> Sequence[tf.TensorSpec | tf.Tensor]:
        """Return the inputs, ``tf.TensorSpec`` with names or placeholders; raise a `ConfigError` if not overridden."""
        raise ConfigError(f"{type(self).__name__} must define inputs(), which returns a list of tf.TensorSpec")

    def build_graph(self, *args: Any, **kwargs: Any) -> Any:
        """Build the model in the current tower; a `ModelDesc` returns the cost to minimise.

        Args:
            *args: one tensor for each entry of `inputs`.
            **kwargs: none; lets type checkers accept any parameters in a subclass.

        Raises:
            ConfigError: The subclass does not override it.
        """
        raise ConfigError(
            f"{type(self).__name__} must define build_graph(), which builds the model from {len(args)} tensors"
        )

    def get_input_signature(self) -> InputSignature:
        """Return the inputs as a list of ``tf.TensorSpec``, the same at each call.

        Shapes:
            Those of `inputs`; the first dimension usually is None, the batch.

        Raises:
            ConfigError: `inputs` returns something else, an input without a name, or a name twice.

        Source:
            tensorpack's method of the same name.
        """
        signature: InputSignature | None = vars(self).get("_input_signature")
        if signature is None:
            # Placeholders are a way to write a signature, and do not belong into the trained graph.
            with tf.Graph().as_default():
                signature = InputSignature(_as_specs(type(self).__name__, self.inputs()))
            self._input_signature = signature
        return InputSignature(signature)

    @property
    def input_names(self) -> list[str]:
        """The names of the inputs."""
        return self.get_input_signature().names

    def callbacks_for_training(self) -> Sequence[Callback]:
        """Return the callbacks that this model needs in training; none by default."""
        return ()

    training = _IsTraining()
    """Whether the current tower is for training; a model may set an attribute of this name."""


class ModelDesc(ModelDescBase):
    """Model with one cost, which `build_graph` returns, and one optimizer, which `optimizer` returns.

    Example:
        class Softmax(ModelDesc):
            def inputs(self):
                return [tf.TensorSpec([None, 784], tf.float32, "image"), tf.TensorSpec([None], tf.int32, "label")]

            def build_graph(self, image, label):
                logits = image @ tf.get_variable("W", [784, 10])
                return tf.losses.sparse_softmax_cross_entropy(label, logits)

            def optimizer(self):
                return tf.train.AdamOptimizer(1e-3)
    """

    def optimizer(self) -> tf.train.Optimizer:
        """Return a new ``tf.train.Optimizer``; raise a `ConfigError` if the subclass does not override it."""
        raise ConfigError(f"{type(self).__name__} must define optimizer(), which returns a tf.train.Optimizer")

    def get_optimizer(self) -> tf.train.Optimizer:
        """Return the optimizer of the current graph, the first result of `optimizer`, as in tensorpack."""
        # The graph keeps it: a model that kept an optimizer would keep its graphs alive.
        known = _optimizers.here()
        for model, optimizer in known:
            if model is self:
                return optimizer
        optimizer = self.optimizer()
        known.append((self, optimizer))
        return optimizer


def _as_specs(model: str, inputs: object) -> list[tf.TensorSpec]:
    """Return the result of `inputs` as specs."""
    if not isinstance(inputs, (list, tuple)) or isinstance(inputs, tf.TensorSpec):
        raise WrongTypeError(
            f"{model}.inputs() returned {shown(inputs)}: expected a list of tf.TensorSpec, such as "
            "[tf.TensorSpec([None, 28, 28], tf.float32, 'image')]"
        )
    return [_as_spec(item) for item in inputs]


def _as_spec(item: object) -> tf.TensorSpec:
    if isinstance(item, tf.TensorSpec):
        return item
    if isinstance(item, tf.Tensor) and item.op.type == "Placeholder":
        return tf.TensorSpec(item.shape, item.dtype, item.op.name)
    raise ConfigError(f"inputs() returned {shown(item)}: expected tf.TensorSpec objects or placeholders")
