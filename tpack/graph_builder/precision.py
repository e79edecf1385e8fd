"""Mixed precision: a model that computes in 16 bits and keeps its variables in 32.

It halves the bytes and is several times faster on hardware made for it. ``bfloat16`` has the range of ``float32`` and
needs nothing else. In ``float16`` gradients below 6e-8 would become zero, so the cost is scaled up (`LossScaling`).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError
from tpack.tower.getters import compute_in
from tpack.utils.validation import check_arguments, check_count

PRECISIONS = ("float32", "bfloat16", "float16")


@check_arguments
@dataclass(frozen=True)
class LossScaling:
    """Options of the factor of the cost.

    Args:
        initial: the first factor.
        growth_steps: the number of consecutive steps with finite gradients after which it grows.
        factor: the growth, and the shrinkage on overflow. Powers of two change no bit of a gradient.
        smallest: the least factor.
        largest: the greatest factor.

    Raises:
        ConfigError: A number is out of its range.
    """

    initial: float = 2.0**15
    growth_steps: int = 2000
    factor: float = 2.0
    smallest: float = 1.0
    largest: float = 2.0**24

    def __post_init__(self) -> None:
        check_count(self, "growth_steps", self.growth_steps)
        if not self.factor > 1:
            raise ConfigError(f"LossScaling got factor={self.factor!r}: expected a number above 1")
        if not 0 < self.smallest <= self.initial <= self.largest < float("inf"):
            raise ConfigError(
                f"LossScaling got smallest={self.smallest!r}, initial={self.initial!r} and largest={self.largest!r}: "
                "expected 0 < smallest <= initial <= largest"
            )


@check_arguments
@dataclass(frozen=True)
class PrecisionPolicy:
    """Dtype of a model's computation.

    The tower function gets its floating-point inputs cast to the compute dtype, and ``get_variable`` returns float32
    variables that are cast where they are used, so that the operations between them compute in 16 bits. A 16-bit scalar
    that it returns, the cost, is cast to float32. Gradients are those of the float32 variables, and are reduced in
    float32. Prediction towers compute in the same dtype. Checkpoints hold float32, and load in any precision.

    Models should cast the last layer's output to float32 before they compute the cost, and use
    ``tpack.tower.full_precision`` for float32 variables. Regularisation of ``tf.trainable_variables()`` is in float32:
    add it to a float32 cost. Variables that ``get_variable`` does not make, as those of Keras layers, keep their dtype.

    Args:
        compute_dtype: ``"float32"``, ``"bfloat16"`` or ``"float16"``.
        loss_scaling: the scaling of the cost; None for none.
        uncast_inputs: names of inputs that are not cast.

    Raises:
        ConfigError: The dtype is unknown, or an argument is of the wrong type.

    Example:
        SyncMultiGPUTrainerReplicated(8, precision=PrecisionPolicy("float16", LossScaling(initial=2.0**10)))
    """

    compute_dtype: str = "float32"
    loss_scaling: LossScaling | None = None
    uncast_inputs: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.compute_dtype not in PRECISIONS:
            raise ConfigError(f"precision got {self.compute_dtype!r}: expected one of {', '.join(PRECISIONS)}")
        if self.loss_scaling is not None and not isinstance(self.loss_scaling, LossScaling):
            raise ConfigError(f"PrecisionPolicy got loss_scaling={self.loss_scaling!r}: expected a LossScaling or None")
        if isinstance(self.uncast_inputs, str):
            raise ConfigError(f"PrecisionPolicy got uncast_inputs={self.uncast_inputs!r}: expected a tuple of names")

    @property
    def is_mixed(self) -> bool:
        """Whether the compute dtype differs from that of the variables."""
        return self.compute_dtype != "float32"

    def wrap(self, function: Callable[..., Any], input_names: Sequence[str]) -> Callable[..., Any]:
        """Return a tower function of the same inputs in this precision; the function itself in float32.

        Raises:
            ConfigError: ``uncast_inputs`` has an unknown name.

        Source:
            The mixed precision policies of Keras, which cast at each layer.
        """
        unknown = sorted(set(self.uncast_inputs) - set(input_names))
        if unknown:
            raise ConfigError(f"PrecisionPolicy got uncast_inputs with {unknown}: expected some of {list(input_names)}")
        return _CastingFunction(function, self, tuple(input_names)) if self.is_mixed else function


@dataclass(frozen=True)
class _CastingFunction:
    """Tower function in another precision; a class, so that it can be pickled."""

    function: Callable[..., Any]
    policy: PrecisionPolicy
    input_names: tuple[str, ...]

    def __call__(self, *inputs: tf.Tensor) -> Any:
        dtype = tf.as_dtype(self.policy.compute_dtype)
        with tf.name_scope("cast_inputs"):
            cast = [
                tf.cast(value, dtype, name=name)
                if value.dtype.is_floating and name not in self.policy.uncast_inputs
                else value
                for name, value in zip(self.input_names, inputs, strict=True)
            ]
        with compute_in(dtype):
            output = self.function(*cast)
        is_cost = isinstance(output, tf.Tensor) and output.shape.rank == 0 and output.dtype == dtype
        return tf.cast(output, tf.float32, name="cost_in_float32") if is_cost else output


def as_precision_policy(precision: str | PrecisionPolicy) -> PrecisionPolicy:
    """Return a policy, or that of a dtype, with scaling in float16; raise a `ConfigError` for others."""
    if isinstance(precision, PrecisionPolicy):
        return precision
    return PrecisionPolicy(precision, LossScaling() if precision == "float16" else None)
