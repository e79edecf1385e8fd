"""What the optimizers of this package share: they change resource variables, and refuse any other kind.

TensorFlow asks an optimizer by other methods for the variables that it had before resource variables. Those of the
optimizer that is derived from would answer, and do something else in silence.
"""

from typing import Any

import tensorflow.compat.v1 as tf

from tpack.errors import GraphBuildError

__all__ = ["ResourceOptimizer", "as_dtype_of"]


class ResourceOptimizer:
    """Mixed into an optimizer that has ``_resource_apply_dense`` and ``_resource_apply_sparse`` alone."""

    def _apply_dense(self, grad: Any, var: Any) -> Any:
        raise self._refuse(var)

    def _apply_sparse(self, grad: Any, var: Any) -> Any:
        raise self._refuse(var)

    def _refuse(self, var: Any) -> GraphBuildError:
        return GraphBuildError(
            f"{type(self).__name__} got {var.op.name}, which is no resource variable: make it by "
            "tf.get_variable(..., use_resource=True)"
        )


def as_dtype_of(var: Any, *values: Any) -> list[Any]:
    """Return hyper-parameters, numbers, tensors or functions of them, as tensors in the dtype of a variable."""
    called = [value() if callable(value) and not tf.is_tensor(value) else value for value in values]
    return [tf.cast(value, var.dtype.base_dtype) for value in called]
