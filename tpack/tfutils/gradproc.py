"""Gradient processors, which change, drop or watch gradients before the optimizer applies them.

A processor takes a list of (gradient, variable) pairs and returns another. Gradients are dense tensors or
IndexedSlices. Regular expressions must match a variable's whole name, without the current tower's variable scope.
"""

import inspect
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError
from tpack.tfutils.scope_utils import variable_name_without_tower, whole_variable, writes_summaries
from tpack.tower.grads import Gradient, gradient_values, is_sparse, map_gradient_values
from tpack.types import GradsAndVars
from tpack.utils import logger
from tpack.utils.lazy import LazyModule
from tpack.utils.validation import check_arguments, check_number, mismatch

__all__ = [
    "AdaptiveClip",
    "CheckGradient",
    "FilterNoneGrad",
    "GlobalNormClip",
    "GradientProcessor",
    "MapGradient",
    "PrintGradient",
    "ScaleGradient",
    "SummaryGradient",
]
_summary = LazyModule("tpack.tfutils.summary")
Grads: TypeAlias = list[tuple[Gradient | None, tf.Variable]]
"""(gradient, variable) pairs."""


class GradientProcessor:
    """Base of gradient processors; subclasses override ``_process``. This one changes nothing.

    ``_process`` runs in a name scope called like the class, in each tower. ``tf.global_norm(..., name="grad_norm")``
    names a scope; in a class ``Norm``, ``tf.identity(tf.global_norm(...), name="grad_norm")`` is the tensor
    ``Norm/grad_norm``.
    """

    def process(self, grads: GradsAndVars) -> Grads:
        """Return the (gradient, variable) pairs to use instead, made in a name scope called like the class."""
        with tf.name_scope(type(self).__name__):
            return list(self._process(list(grads)))

    def _process(self, grads: Grads) -> Grads:
        return grads


@check_arguments
class FilterNoneGrad(GradientProcessor):
    """Drop the pairs without a gradient.

    Args:
        verbose: log the variables that are dropped.
    """

    def __init__(self, verbose: bool = True) -> None:
        self._verbose = verbose

    def _process(self, grads: Grads) -> Grads:
        dropped = [variable.op.name for gradient, variable in grads if gradient is None]
        if dropped and self._verbose:
            logger.warning(f"No gradient with respect to {len(dropped)} variable(s): {', '.join(dropped)}")
        return [pair for pair in grads if pair[0] is not None]


@check_arguments
class GlobalNormClip(GradientProcessor):
    """Scale all gradients down by one factor if their global norm is above a limit.

    Args:
        global_norm: the limit on the root of the sum of squares of all gradients.

    Raises:
        ConfigError: The limit is not above zero.

    Source:
        Pascanu, Mikolov and Bengio, On the difficulty of training recurrent neural networks, 2013.
    """

    def __init__(self, global_norm: float) -> None:
        if not global_norm > 0:
            raise ConfigError(mismatch(self, "global_norm", global_norm, "a number above 0"))
        self._norm = float(global_norm)

    def _process(self, grads: Grads) -> Grads:
        clipped, _ = tf.clip_by_global_norm([gradient for gradient, _ in grads], self._norm)
        return [(gradient, variable) for gradient, (_, variable) in zip(clipped, grads, strict=True)]


@check_arguments
class MapGradient(GradientProcessor):
    """Apply a function to the gradients of some variables; pairs without a gradient stay.

    Args:
        func: ``func(gradient)``, or a function of two arguments without defaults, ``func(gradient, variable)``. It
            returns the new gradient; None drops the pair.
        regex: the names of the variables; the gradients of others stay.

    Raises:
        ConfigError: The function takes neither one nor two arguments, or the regular expression is invalid.
    """

    def __init__(self, func: Callable[..., Gradient | None], regex: str = ".*") -> None:
        self._takes_variable = _num_required_args(func) == 2
        self._func = func
        self._pattern = compile_pattern(regex)

    def _process(self, grads: Grads) -> Grads:
        mapped: Grads = []
        for gradient, variable in grads:
            if gradient is None or not self._pattern.fullmatch(variable_name_without_tower(variable)):
                mapped.append((gradient, variable))
                continue
            changed = self._func(gradient, whole_variable(variable)) if self._takes_variable else self._func(gradient)
            if changed is not None:
                mapped.append((changed, variable))
        return mapped


@check_arguments
class AdaptiveClip(GradientProcessor):
    """Scale gradients down, by output unit, where they are larger than a share of the unit's weights.

    A unit is an entry of the last dimension of a matrix or kernel, and the whole of a vector or scalar. This lets one
    train networks without normalisation with large batches and rates. Sparse gradients stay as they are.

    Args:
        clipping: the largest norm of a gradient over that of the weights.
        least: the least norm of weights that counts, for those that begin with zeros.
        regex: the whole names of the variables; usually all but the last layer's.

    Raises:
        ConfigError: A number is not above zero, or the regular expression is invalid.

    Example:
        ``apply_grad_processors(opt, [AdaptiveClip(0.01, regex="(?!linear/).*")])``

    Source:
        Brock et al., High-performance large-scale image recognition without normalization, 2021, section 4.1.
    """

    def __init__(self, clipping: float = 0.01, least: float = 1e-3, regex: str = ".*") -> None:
        self._clipping = check_number(self, "clipping", clipping, 0, is_low_allowed=False)
        self._least = check_number(self, "least", least, 0, is_low_allowed=False)
        self._pattern = compile_pattern(regex)

    def _process(self, grads: Grads) -> Grads:
        return [(self._clip(gradient, variable), variable) for gradient, variable in grads]

    def _clip(self, gradient: Gradient | None, variable: tf.Variable) -> Gradient | None:
        is_clipped = self._pattern.fullmatch(variable_name_without_tower(variable))
        if gradient is None or is_sparse(gradient) or not is_clipped:
            return gradient
        with tf.device(gradient.device):
            limit = self._clipping * tf.maximum(_unit_norms(whole_variable(variable).read_value()), self._least)
            norms = _unit_norms(gradient)
            return gradient * tf.where(norms > limit, limit / tf.maximum(norms, 1e-6), tf.ones_like(norms))


@check_arguments
class ScaleGradient(MapGradient):
    """Multiply the gradients of some variables by constants, which gives these variables other learning rates.

    Args:
        multipliers: a pair of a regular expression and a number, or a list of such pairs; the first match counts. Zero
            drops the gradient, so the variable stays whatever the optimizer.
        verbose: log the variables and their multipliers.

    Raises:
        ConfigError: Something is not such a pair.

    Example:
        ScaleGradient([(".*/b", 2.0)])
    """

    def __init__(self, multipliers: tuple[str, float] | Sequence[tuple[str, float]], verbose: bool = True) -> None:
        super().__init__(self._scale)
        pairs: Sequence[Any] = multipliers if isinstance(multipliers, list) else [multipliers]
        self._multipliers = [_parse_multiplier(pair) for pair in pairs]
        self._verbose = verbose

    def _scale(self, gradient: Gradient, variable: tf.Variable) -> Gradient | None:
        name = variable_name_without_tower(variable)
        multiplier = next((number for pattern, number in self._multipliers if pattern.fullmatch(name)), None)
        if multiplier is None:
            return gradient
        if self._verbose:
            logger.info(f"The gradient of {name} is multiplied by {multiplier}")
        return map_gradient_values(lambda values: values * multiplier, gradient) if multiplier else None


@check_arguments
class SummaryGradient(GradientProcessor):
    """Write histograms, and moving averages of the root mean square, of gradients in the main tower.

    The tags are ``SummaryGradient/NAME-grad`` and ``SummaryGradient/NAME-grad-rms``.

    Args:
        regex: the whole names of the variables.
        collections: of the histograms, by default SUMMARIES.

    Raises:
        ConfigError: The regular expression is invalid.
    """

    def __init__(self, regex: str = ".*", collections: Iterable[str] | None = None) -> None:
        self._pattern = compile_pattern(regex)
        self._collections = None if collections is None else list(collections)

    def _process(self, grads: Grads) -> Grads:
        if not writes_summaries():
            return grads
        named_rms = []
        for gradient, variable in grads:
            name = variable_name_without_tower(variable)
            if gradient is not None and self._pattern.fullmatch(name):
                values = gradient_values(gradient)
                _summary.add_histogram_summary(f"SummaryGradient/{name}-grad", values, self._collections)
                named_rms.append((f"SummaryGradient/{name}-grad-rms", _summary.rms(values)))
        _summary.add_named_moving_summary(named_rms)
        return grads


@check_arguments
class PrintGradient(MapGradient):
    """Print each gradient at every step, on standard error: slow, for debugging only.

    Args:
        regex: the whole names of the variables.

    Raises:
        ConfigError: The regular expression is invalid.
    """

    def __init__(self, regex: str = ".*") -> None:
        super().__init__(self._print, regex)

    def _print(self, gradient: Gradient, variable: tf.Variable) -> Gradient:
        def print_first(values: tf.Tensor) -> tf.Tensor:
            with tf.control_dependencies([tf.print(f"gradient of {variable.op.name}:", values)]):
                return tf.identity(values)

        return map_gradient_values(print_first, gradient)


class CheckGradient(MapGradient):
    """Fail the step with an error that names the variable when a gradient is NaN or infinite."""

    def __init__(self) -> None:
        super().__init__(self._check)

    def _check(self, gradient: Gradient, variable: tf.Variable) -> Gradient:
        message = f"CheckGradient: the gradient of {variable.op.name}"
        return map_gradient_values(lambda values: tf.check_numerics(values, message), gradient)


def compile_pattern(regex: str) -> re.Pattern[str]:
    """Compile a regular expression for variable names; raise a ConfigError if it is invalid."""
    try:
        return re.compile(regex)
    except (TypeError, re.error) as error:
        raise ConfigError(f"got regex={regex!r}: expected a regular expression ({error})") from error


def _unit_norms(values: tf.Tensor) -> tf.Tensor:
    """Return the norm of each entry of the last dimension, or of a vector, in the shape that multiplies ``values``."""
    axes = list(range(max(1, values.shape.rank - 1))) if values.shape.rank else []
    return tf.sqrt(tf.reduce_sum(tf.square(values), axes, keepdims=True))


def _parse_multiplier(pair: tuple[str, float]) -> tuple[re.Pattern[str], float]:
    try:
        regex, multiplier = pair
        return compile_pattern(regex), float(multiplier)
    except (TypeError, ValueError) as error:
        expected = "a pair of a regular expression and a number"
        raise ConfigError(mismatch("ScaleGradient", "multipliers", pair, expected)) from error


def _num_required_args(func: Callable[..., Any]) -> int:
    """Return the number of a function's required positional arguments: one or two."""
    try:
        parameters = inspect.signature(func).parameters.values()
    except (TypeError, ValueError) as error:
        raise ConfigError(mismatch("MapGradient", "func", func, "a function with a signature", "a lambda")) from error
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    required = [p for p in parameters if p.kind in positional and p.default is inspect.Parameter.empty]
    if len(required) not in (1, 2):
        expected = f"one or two arguments without a default, a gradient and a variable, not {len(required)}"
        raise ConfigError(mismatch("MapGradient", "func", func, expected))
    return len(required)
