"""What a server feeds to an exported model, and how the model's features come of it."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError

RECEIVER_NAME = "input"
_EXAMPLES_NAME = "examples"


class ServingInputReceiver(NamedTuple):
    """The features of a model that is served, and the tensors that are fed.

    Attributes:
        features: what the model_fn is called with, a tensor or a dict of tensors.
        receiver_tensors: placeholders, a tensor or a dict of them by the names that clients use. A single one is called
            ``input``.
        receiver_tensors_alternatives: further ways to feed the model: name to a dict of tensors. Each export output is
            offered for each of them too, as ``<output>:<name>``.
    """

    features: Any
    receiver_tensors: Any
    receiver_tensors_alternatives: Any = None


def build_raw_serving_input_receiver_fn(
    features: Mapping[str, Any], default_batch_size: int | None = None
) -> Callable[[], ServingInputReceiver]:
    """Return a function that makes a placeholder for each feature.

    Args:
        features: name to a tensor, ``tf.TensorSpec`` or array, whose dtype and shape are taken.
        default_batch_size: the first dimension of the placeholders; None for any.

    Shapes:
        [B, ...] to [default_batch_size, ...].

    Raises:
        ConfigError: A feature has no first dimension.

    Source:
        The function of the same name in ``tf.estimator.export``.
    """
    specs = {name: (tf.as_dtype(item.dtype), tf.TensorShape(item.shape)) for name, item in features.items()}
    for name, (_, shape) in specs.items():
        if shape.rank == 0:
            raise ConfigError(f"the feature {name!r} has no batch dimension")

    def receive() -> ServingInputReceiver:
        placeholders = {
            name: tf.placeholder(dtype, None if shape.rank is None else [default_batch_size, *shape[1:]], name=name)
            for name, (dtype, shape) in specs.items()
        }
        return ServingInputReceiver(placeholders, placeholders)

    return receive


def build_parsing_serving_input_receiver_fn(
    feature_spec: Mapping[str, Any], default_batch_size: int | None = None
) -> Callable[[], ServingInputReceiver]:
    """Return a function that makes a placeholder for serialized ``tf.train.Example`` messages and parses them.

    Args:
        feature_spec: what ``tf.io.parse_example`` takes.
        default_batch_size: the number of examples; None for any.

    Shapes:
        [default_batch_size] strings to the features that they hold.

    Raises:
        ConfigError: The spec is empty.

    Source:
        The function of the same name in ``tf.estimator.export``.
    """
    if not feature_spec:
        raise ConfigError("wanted the features to parse out of examples, got none")

    def receive() -> ServingInputReceiver:
        examples = tf.placeholder(tf.string, [default_batch_size], name="input_example_tensor")
        return ServingInputReceiver(tf.io.parse_example(examples, dict(feature_spec)), {_EXAMPLES_NAME: examples})

    return receive


def receiver_tensors_by_name(tensors: Any) -> dict[str, Any]:
    """Return the tensors that are fed, as a dict.

    Args:
        tensors: a tensor or a dict.

    Raises:
        ConfigError: It is something else.
    """
    named = dict(tensors) if isinstance(tensors, Mapping) else {RECEIVER_NAME: tensors}
    for name, tensor in named.items():
        if not isinstance(tensor, tf.Tensor | tf.SparseTensor):
            raise ConfigError(f"receiver_tensors must be tensors, and {name!r} is {tensor!r}")
    return named
