"""An optimizer that passes gradients through processors first."""

from collections.abc import Sequence
from typing import Any

from tpack.errors import ConfigError
from tpack.tfutils.gradient_processor import GradientProcessor
from tpack.tfutils.proxy_optimizer import ProxyOptimizer


class GradientProcessorOptimizer(ProxyOptimizer):
    """Pass gradients through processors before the optimizer inside applies them.

    Args:
        opt: the optimizer inside.
        gradprocs: the processors, in order.

    Raises:
        ConfigError: One of them is not a GradientProcessor.
    """

    def __init__(self, opt: Any, gradprocs: Sequence[GradientProcessor]) -> None:
        super().__init__(opt, "GradientProcessors")
        for gradproc in gradprocs:
            if not isinstance(gradproc, GradientProcessor):
                raise ConfigError(f"wanted a list of GradientProcessor objects, got {gradproc!r:.100}")
        self._gradprocs = list(gradprocs)

    def apply_gradients(self, grads_and_vars: Any, global_step: Any = None, name: str | None = None) -> Any:
        """Return the operation that applies the processed gradients."""
        grads = list(grads_and_vars)
        for gradproc in self._gradprocs:
            grads = gradproc.process(grads)
        return super().apply_gradients(grads, global_step, name)


def apply_grad_processors(opt: Any, gradprocs: Sequence[GradientProcessor]) -> ProxyOptimizer:
    """Return an optimizer that passes gradients through processors before ``opt`` applies them.

    Args:
        opt: a ``tf.compat.v1.train.Optimizer``.
        gradprocs: the processors, in order.

    Raises:
        GraphBuildError: ``opt`` is another kind of optimizer.
        ConfigError: There is something else among the processors.

    Example:
        apply_grad_processors(tf.train.AdamOptimizer(1e-3), [GlobalNormClip(5)])
    """
    return GradientProcessorOptimizer(opt, gradprocs)
