"""A variable that is kept in float32 and computed with in another dtype.

Sums of many small updates need float32; multiplying matrices does not. To a model this is a variable like any other:
whatever computes with it gets its value cast, whatever assigns to it, names it or saves it reaches the variable.
"""

from collections.abc import Callable
from typing import Any

import tensorflow.compat.v1 as tf

_OPERATORS = (
    *("add", "radd", "sub", "rsub", "mul", "rmul", "truediv", "rtruediv", "floordiv", "rfloordiv", "mod", "rmod"),
    *("pow", "rpow", "matmul", "rmatmul", "neg", "abs", "lt", "le", "gt", "ge", "getitem"),
)


class CastVariable:
    """Stands for a variable in a model that computes in another dtype.

    It is no ``tf.Variable`` and no tensor: TensorFlow's functions and operators convert it to a tensor of the compute
    dtype. Everything else, such as ``name``, ``op``, ``shape`` and ``load``, is the variable's; so is ``dtype``, which
    is what it holds.

    Args:
        variable: a resource variable.
        compute_dtype: the dtype to compute in.

    Attributes:
        variable: the variable itself.
    """

    __array_priority__ = 100
    """Above numpy's, so that ``array * variable`` is ours too."""

    def __init__(self, variable: Any, compute_dtype: Any) -> None:
        self.variable = variable
        self.compute_dtype = tf.as_dtype(compute_dtype)
        with tf.name_scope(f"{variable.op.name.rsplit('/', 1)[-1]}_cast"):
            self._value = self._cast(variable.value())
        # TensorFlow looks rows up through this method of whatever it is given, here of the tensor. Without it, the
        # gradient of an embedding would be as large as the embedding.
        self._value.sparse_read = self.sparse_read

    def value(self) -> Any:
        """Return the value in the compute dtype."""
        return self._value

    def sparse_read(self, indices: Any, name: str | None = None) -> Any:
        """Return the slices at ``indices`` in the compute dtype, as ``tf.gather`` does."""
        return self._cast(self.variable.sparse_read(indices, name=name))

    def gather_nd(self, indices: Any, name: str | None = None) -> Any:
        """Return what is at ``indices`` in the compute dtype, as ``tf.gather_nd`` does."""
        return self._cast(self.variable.gather_nd(indices, name=name))

    def assign(self, value: Any, **options: Any) -> Any:
        """Assign a value of any floating-point dtype, as ``tf.Variable.assign`` does."""
        return self.variable.assign(tf.cast(value, self.variable.dtype), **options)

    def assign_add(self, delta: Any, **options: Any) -> Any:
        """Add a value of any floating-point dtype, as ``tf.Variable.assign_add`` does."""
        return self.variable.assign_add(tf.cast(delta, self.variable.dtype), **options)

    def assign_sub(self, delta: Any, **options: Any) -> Any:
        """Subtract a value of any floating-point dtype, as ``tf.Variable.assign_sub`` does."""
        return self.variable.assign_sub(tf.cast(delta, self.variable.dtype), **options)

    def _cast(self, value: Any) -> Any:
        return tf.cast(value, self.compute_dtype)

    def __getattr__(self, name: str) -> Any:
        # Names with an underscore are how TensorFlow and Python ask what kind of object this is.
        if name.startswith("_") or name == "variable":
            raise AttributeError(name)
        return getattr(self.variable, name)

    def __repr__(self) -> str:
        return f"<CastVariable {self.variable.op.name!r} {self.variable.shape} as {self.compute_dtype.name}>"


def _operator(name: str) -> Callable[..., Any]:
    def apply(self: CastVariable, *others: Any) -> Any:
        return getattr(self.value(), name)(*others)

    return apply


for _name in _OPERATORS:
    setattr(CastVariable, f"__{_name}__", _operator(f"__{_name}__"))


def _to_tensor(variable: CastVariable, dtype: Any = None, name: str | None = None, as_ref: bool = False) -> Any:
    """Convert to a tensor, of the variable's own dtype if that is what is wanted."""
    if dtype is None or tf.as_dtype(dtype).base_dtype == variable.compute_dtype:
        return variable.value()
    if tf.as_dtype(dtype).base_dtype == variable.variable.dtype.base_dtype:
        return variable.variable.value()
    return NotImplemented


tf.register_tensor_conversion_function(CastVariable, _to_tensor)
