"""Mixed precision: a model that computes in 16 bits and keeps its variables in 32.

Half the bytes and, on hardware made for it, several times the speed. ``bfloat16`` has the range of ``float32`` and
needs nothing else. ``float16`` has a small range: gradients below 6e-8 would become zero, so the cost is scaled up
before they are computed (`LossScaling`).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError
from tpack.graph_builder.loss_scale import LossScaling
from tpack.tower.getters import compute_in
from tpack.utils.validation import check_arguments

PRECISIONS = ("float32", "bfloat16", "float16")


@check_arguments
@dataclass(frozen=True)
class PrecisionPolicy:
    """What a model computes in.

    The tower function gets its floating-point inputs cast to the compute dtype, and ``get_variable`` gives it float32
    variables that are cast where they are used, so that the operations between them compute in 16 bits. A scalar that
    it returns in 16 bits, the cost, is cast to float32. Gradients are those of the float32 variables, and reach the
    reducer as float32. A tower for prediction computes in the same dtype. Checkpoints hold float32 only, so that they
    move between precisions both ways.

    Casting the last layer's output to float32, before the cost is computed of it, is up to the model, and is
    recommended. So is what else must be in float32; ``tpack.tower.full_precision`` gives variables for
    it. Regularisation of ``tf.trainable_variables()`` is in float32 already: add it to a cost in float32. Variables
    that are not made by ``get_variable``, such as those of Keras layers, stay as they are.

    Args:
        compute_dtype: ``"float32"``, ``"bfloat16"`` or ``"float16"``.
        loss_scaling: how the cost is scaled; None for not at all.
        uncast_inputs: names of inputs that the tower function gets as they are.

    Raises:
        ConfigError: The dtype is another one, or an argument is of the wrong type.

    Example:
        SyncMultiGPUTrainerReplicated(8, precision=PrecisionPolicy("float16", LossScaling(initial=2.0**10)))
    """

    compute_dtype: str = "float32"
    loss_scaling: LossScaling | None = None
    uncast_inputs: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.compute_dtype not in PRECISIONS:
            raise ConfigError(f"precision must be one of {', '.join(PRECISIONS)}, got {self.compute_dtype!r}")
        if self.loss_scaling is not None and not isinstance(self.loss_scaling, LossScaling):
            raise ConfigError(f"loss_scaling must be a LossScaling or None, got {self.loss_scaling!r}")
        if isinstance(self.uncast_inputs, str):
            raise ConfigError(f"uncast_inputs must be a tuple of input names, got {self.uncast_inputs!r}")

    @property
    def is_mixed(self) -> bool:
        """Whether the model computes in another dtype than that of its variables."""
        return self.compute_dtype != "float32"

    def wrap(self, function: Callable[..., Any], input_names: Sequence[str]) -> Callable[..., Any]:
        """Return a tower function that computes in this precision.

        Args:
            function: builds the model from one tensor for each name.
            input_names: the names of the inputs.

        Returns:
            A function of the same inputs; ``function`` itself in float32.

        Raises:
            ConfigError: ``uncast_inputs`` has a name that is no input.

        Source:
            The mixed precision policies of Keras, which cast inputs and variables at each layer.
        """
        unknown = sorted(set(self.uncast_inputs) - set(input_names))
        if unknown:
            raise ConfigError(f"uncast_inputs has {unknown}, and the inputs are {list(input_names)}")
        return _CastingFunction(function, self, tuple(input_names)) if self.is_mixed else function


@dataclass(frozen=True)
class _CastingFunction:
    """A tower function in another precision; a class, so that it can be sent to another process."""

    function: Callable[..., Any]
    policy: PrecisionPolicy
    input_names: tuple[str, ...]

    def __call__(self, *inputs: tf.Tensor) -> Any:
        dtype = tf.as_dtype(self.policy.compute_dtype)
        with tf.name_scope("cast_inputs"):
            cast = [self._cast_input(name, value, dtype) for name, value in zip(self.input_names, inputs, strict=True)]
        with compute_in(dtype):
            output = self.function(*cast)
        is_cost = isinstance(output, tf.Tensor) and output.shape.rank == 0 and output.dtype == dtype
        return tf.cast(output, tf.float32, name="cost_in_float32") if is_cost else output

    def _cast_input(self, name: str, value: tf.Tensor, dtype: tf.DType) -> tf.Tensor:
        is_cast = value.dtype.is_floating and name not in self.policy.uncast_inputs
        return tf.cast(value, dtype, name=name) if is_cast else value


def as_precision_policy(precision: str | PrecisionPolicy) -> PrecisionPolicy:
    """Return the policy that a name stands for, or the policy itself.

    Args:
        precision: ``"float32"``, ``"bfloat16"``, ``"float16"`` (which scales the cost dynamically), or a policy.

    Raises:
        ConfigError: It is something else.
    """
    if isinstance(precision, PrecisionPolicy):
        return precision
    return PrecisionPolicy(precision, LossScaling() if precision == "float16" else None)
