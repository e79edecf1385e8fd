"""Custom getters: change how ``get_variable`` makes a variable without touching the model.

`compute_in` separates the dtype of a model's computation from that of its variables, which is float32: sums of many
small updates need float32, matrix products do not. A `CastVariable` acts like a variable in the model: computations get
its value cast; assignments, names and checkpoints concern the variable.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import tensorflow.compat.v1 as tf

from tpack.tower.devices import LeastLoaded
from tpack.utils.validation import check_arguments, check_count

TensorLike: TypeAlias = tf.Tensor | np.ndarray | Sequence[Any] | complex
"""What TensorFlow makes a tensor of."""

Assigned: TypeAlias = tf.Tensor | tf.Variable | tf.Operation
"""What an assignment returns, by TensorFlow's ``read_value`` and mode."""

Getter: TypeAlias = Callable[..., tf.Variable]
"""What ``get_variable`` calls, with the name and its other arguments."""

# What is current is known to each thread by itself, since towers may be built in several.
_compute_dtype: ContextVar[tf.DType | None] = ContextVar("tpack_compute_dtype", default=None)

_REDUCED = (tf.float16, tf.bfloat16)
_OPERATORS = (
    *("add", "radd", "sub", "rsub", "mul", "rmul", "truediv", "rtruediv", "floordiv", "rfloordiv", "mod", "rmod"),
    *("pow", "rpow", "matmul", "rmatmul", "neg", "abs", "lt", "le", "gt", "ge", "getitem"),
)


@contextmanager
@check_arguments
def custom_getter_scope(custom_getter: Getter) -> Iterator[None]:
    """Pass every ``get_variable`` in the block through ``custom_getter(getter, name, *args, **kwargs)``."""
    scope = tf.get_variable_scope()
    with tf.variable_scope(scope, custom_getter=custom_getter, auxiliary_name_scope=False):
        yield


def to_local_collections(kwargs: dict[str, Any]) -> dict[str, Any]:
    """Return a getter's or creator's arguments with GLOBAL_VARIABLES replaced by LOCAL_VARIABLES.

    ``collections`` may be missing, None or empty: a variable must be in one of the two to be initialised.
    """
    collections = kwargs.get("collections") or [tf.GraphKeys.GLOBAL_VARIABLES]
    local = [key for key in collections if key != tf.GraphKeys.GLOBAL_VARIABLES]
    return {**kwargs, "collections": [*local, tf.GraphKeys.LOCAL_VARIABLES]}


@contextmanager
@check_arguments
def override_to_local_variable(enable: bool = True) -> Iterator[None]:
    """Make every ``get_variable`` in the block create a local variable: not saved, initialised with the local ones.

    Source:
        The function of the same name in the seed ``graph_builder_utils``.
    """
    if not enable:
        yield
        return

    def getter_to_local(getter: Getter, name: str, *args: Any, **kwargs: Any) -> tf.Variable:
        return getter(name, *args, **to_local_collections(kwargs))

    with custom_getter_scope(getter_to_local):
        yield


@check_arguments
class OverrideCachingDevice:
    """Custom getter that caches each trainable variable on the device with the fewest cached bytes.

    Small variables are all cached on one device, since balancing them would only cost copies. Variables that are not
    trainable, or of unknown size, are not cached and become local variables.

    Args:
        devices: the devices to balance over.
        device_for_small_variables: the device of variables below the threshold.
        small_variable_size_threshold: in elements.

    Raises:
        ConfigError: ``devices`` is empty.

    Source:
        The class of the same name in the seed ``graph_builder_utils``, which fails on unset ``collections`` and counts
        elements instead of bytes.
    """

    def __init__(
        self, devices: Sequence[str], device_for_small_variables: str, small_variable_size_threshold: int
    ) -> None:
        self.device_for_small_variables = device_for_small_variables
        name = "small_variable_size_threshold"
        self.small_variable_size_threshold = check_count(self, name, small_variable_size_threshold, 0)
        self._load = LeastLoaded(devices)

    @property
    def devices(self) -> list[str]:
        """The devices to balance over."""
        return list(self._load.devices)

    @property
    def sizes(self) -> list[int]:
        """The bytes cached on each device so far."""
        return list(self._load.sizes)

    def __call__(self, getter: Getter, *args: Any, **kwargs: Any) -> tf.Variable:
        """Create the variable with ``getter`` and cache it on the least loaded device."""
        shape, dtype = _shape_and_dtype(kwargs)
        num_elements = shape.num_elements()
        # None means trainable, as it does for tf.Variable; only an explicit False says otherwise.
        if num_elements is None or kwargs.get("trainable") is False:
            return getter(*args, **to_local_collections(kwargs))
        if num_elements < self.small_variable_size_threshold:
            return getter(*args, **{**kwargs, "caching_device": self.device_for_small_variables})
        return getter(*args, **{**kwargs, "caching_device": self._load.take(num_elements * dtype.size)})


def _shape_and_dtype(kwargs: dict[str, Any]) -> tuple[tf.TensorShape, tf.DType]:
    """Return the shape and dtype of a getter's variable, from its initial value if that has no shape argument."""
    shape, dtype, initial = kwargs.get("shape"), kwargs.get("dtype"), kwargs.get("initializer")
    if shape is None and initial is not None and not callable(initial):
        shape = initial.shape if hasattr(initial, "shape") else np.shape(initial)
        dtype = getattr(initial, "dtype", dtype)
    return tf.TensorShape(shape), tf.as_dtype(dtype or tf.float32).base_dtype


@contextmanager
def compute_in(dtype: tf.DType | str) -> Iterator[None]:
    """Make every float variable of 16 or 32 bits from ``get_variable`` in the block float32, used as ``dtype``.

    Variables of ``tf.Variable`` or Keras, and of other dtypes, are unchanged.
    """
    token = _compute_dtype.set(tf.as_dtype(dtype))
    try:
        # `tf.get_variable` leaves all name scopes, and the casts are operations of the tower.
        with custom_getter_scope(partial(_get_cast, tf.get_default_graph().get_name_scope())):
            yield
    finally:
        _compute_dtype.reset(token)


@contextmanager
def full_precision() -> Iterator[None]:
    """Make ``get_variable`` return the float32 variables themselves in a block inside `compute_in`.

    For layers that must compute in float32, such as those with batch statistics.

    Example:
        with full_precision():
            gamma = tf.get_variable("gamma", [channels], initializer=tf.ones_initializer())
    """
    token = _compute_dtype.set(None)
    try:
        yield
    finally:
        _compute_dtype.reset(token)


def current_compute_dtype() -> tf.DType | None:
    """Return the dtype that variables are cast to here, or None where they are not."""
    return _compute_dtype.get()


def _get_cast(scope: str, getter: Getter, name: str, *args: Any, **kwargs: Any) -> "tf.Variable | CastVariable":
    if kwargs.get("dtype") is not None and tf.as_dtype(kwargs["dtype"]).base_dtype in _REDUCED:
        kwargs["dtype"] = tf.float32
    kwargs["initializer"] = _in_float32(kwargs.get("initializer"))
    kwargs["use_resource"] = True
    variable = getter(name, *args, **kwargs)
    compute_dtype = current_compute_dtype()
    # Variables of several devices are no instances of TensorFlow's classes. What is partitioned has no such method.
    is_whole = hasattr(variable, "sparse_read") and not isinstance(variable, CastVariable)
    is_cast = compute_dtype is not None and is_whole and variable.dtype.base_dtype == tf.float32
    with tf.name_scope(f"{scope}/") if scope else nullcontext():
        return CastVariable(variable, compute_dtype) if is_cast else variable


def _in_float32(initializer: Any) -> Any:
    """Return the initialiser, cast if it is a value in 16 bits; functions get the dtype as an argument."""
    dtype = getattr(initializer, "dtype", None)
    if callable(initializer) or dtype is None or tf.as_dtype(dtype).base_dtype not in _REDUCED:
        return initializer
    if isinstance(initializer, np.ndarray | np.generic):
        return initializer.astype(np.float32)
    return tf.cast(initializer, tf.float32)


class CastVariable:
    """Represents a resource variable in a model that computes in another dtype.

    It is neither a ``tf.Variable`` nor a tensor: TensorFlow's functions and operators convert it to a tensor of the
    compute dtype. Everything else, such as ``name``, ``shape``, ``load`` and ``dtype``, is the variable's.

    Args:
        variable: a resource variable.
        compute_dtype: the dtype to compute in.

    Attributes:
        variable: the variable itself.
    """

    __array_priority__ = 100
    """Above numpy's, so that ``array * variable`` is ours too."""

    def __init__(self, variable: tf.Variable, compute_dtype: tf.DType | str) -> None:
        self.variable = variable
        self.compute_dtype = tf.as_dtype(compute_dtype)
        with tf.name_scope(f"{variable.op.name.rsplit('/', 1)[-1]}_cast"):
            self._value = self._cast(variable.value())
        # TensorFlow looks rows up through this method of whatever it is given, here of the tensor. Without it, the
        # gradient of an embedding would be as large as the embedding.
        self._value.sparse_read = self.sparse_read

    def value(self) -> tf.Tensor:
        """Return the value in the compute dtype."""
        return self._value

    def sparse_read(self, indices: TensorLike, name: str | None = None) -> tf.Tensor:
        """Return the slices at ``indices`` in the compute dtype, as ``tf.gather`` does."""
        return self._cast(self.variable.sparse_read(indices, name=name))

    def gather_nd(self, indices: TensorLike, name: str | None = None) -> tf.Tensor:
        """Return the slices at ``indices`` in the compute dtype, as ``tf.gather_nd`` does."""
        return self._cast(self.variable.gather_nd(indices, name=name))

    def assign(self, value: TensorLike, **options: Any) -> Assigned:
        """Assign a value of any floating-point dtype, as ``tf.Variable.assign`` does."""
        return self.variable.assign(tf.cast(value, self.variable.dtype), **options)

    def assign_add(self, delta: TensorLike, **options: Any) -> Assigned:
        """Add a value of any floating-point dtype, as ``tf.Variable.assign_add`` does."""
        return self.variable.assign_add(tf.cast(delta, self.variable.dtype), **options)

    def assign_sub(self, delta: TensorLike, **options: Any) -> Assigned:
        """Subtract a value of any floating-point dtype, as ``tf.Variable.assign_sub`` does."""
        return self.variable.assign_sub(tf.cast(delta, self.variable.dtype), **options)

    def _cast(self, value: tf.Tensor) -> tf.Tensor:
        return tf.cast(value, self.compute_dtype)

    def __getattr__(self, name: str) -> Any:
        # Names with an underscore are how TensorFlow and Python ask what kind of object this is.
        if name.startswith("_") or name == "variable":
            raise AttributeError(name)
        return getattr(self.variable, name)

    def __repr__(self) -> str:
        return f"<CastVariable {self.variable.op.name!r} {self.variable.shape} as {self.compute_dtype.name}>"


def _operator(name: str) -> Callable[..., object]:
    def apply(self: CastVariable, *others: object) -> object:
        return getattr(self.value(), name)(*others)

    return apply


for _name in _OPERATORS:
    setattr(CastVariable, f"__{_name}__", _operator(f"__{_name}__"))


def _to_tensor(
    variable: CastVariable, dtype: tf.DType | None = None, name: str | None = None, as_ref: bool = False
) -> tf.Tensor:
    """Convert to a tensor, of the variable's own dtype if requested."""
    if dtype is None or tf.as_dtype(dtype).base_dtype == variable.compute_dtype:
        return variable.value()
    if tf.as_dtype(dtype).base_dtype == variable.variable.dtype.base_dtype:
        return variable.variable.value()
    return NotImplemented


tf.register_tensor_conversion_function(CastVariable, _to_tensor)
