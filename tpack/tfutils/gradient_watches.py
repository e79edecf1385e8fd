"""Gradient processors that look at gradients and leave them as they are."""

from collections.abc import Iterable
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.tfutils.gradient_changes import MapGradient, compile_pattern
from tpack.tfutils.gradient_processor import GradientProcessor, Grads, gradient_values, map_gradient_values
from tpack.tfutils.moving_summary import add_named_moving_summary
from tpack.tfutils.summary_ops import add_histogram_summary
from tpack.tfutils.tensor_summary import rms
from tpack.tfutils.tower_scope import variable_name_without_tower, writes_summaries


class SummaryGradient(GradientProcessor):
    """Write a histogram and the moving average of the root mean square of each gradient, in the main tower.

    The tags are ``SummaryGradient/NAME-grad`` and ``SummaryGradient/NAME-grad-rms``.

    Args:
        regex: for which variables; it must match the whole name.
        collections: where the histograms go, by default SUMMARIES.

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
                add_histogram_summary(f"SummaryGradient/{name}-grad", values, self._collections)
                named_rms.append((f"SummaryGradient/{name}-grad-rms", rms(values)))
        add_named_moving_summary(named_rms)
        return grads


class PrintGradient(MapGradient):
    """Print each gradient at every step, on standard error: for debugging only, since it is slow.

    Args:
        regex: for which variables; it must match the whole name.

    Raises:
        ConfigError: The regular expression is invalid.
    """

    def __init__(self, regex: str = ".*") -> None:
        super().__init__(self._print, regex)

    def _print(self, gradient: Any, variable: Any) -> Any:
        def print_first(values: Any) -> Any:
            with tf.control_dependencies([tf.print(f"gradient of {variable.op.name}:", values)]):
                return tf.identity(values)

        return map_gradient_values(print_first, gradient)


class CheckGradient(MapGradient):
    """Fail the step when a gradient is NaN or infinite, with an error that names the variable."""

    def __init__(self) -> None:
        super().__init__(self._check)

    def _check(self, gradient: Any, variable: Any) -> Any:
        message = f"CheckGradient: the gradient of {variable.op.name}"
        return map_gradient_values(lambda values: tf.check_numerics(values, message), gradient)
