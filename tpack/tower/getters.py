"""Custom getters: change how ``get_variable`` makes a variable without touching the model."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError
from tpack.tower.least_loaded import LeastLoaded


@contextmanager
def custom_getter_scope(custom_getter: Callable[..., Any]) -> Iterator[None]:
    """Pass every ``get_variable`` in the block through ``custom_getter(getter, name, *args, **kwargs)``.

    Unlike opening a new variable scope, it changes neither the variable scope's name nor the name scope.
    """
    scope = tf.get_variable_scope()
    with tf.variable_scope(scope, custom_getter=custom_getter, auxiliary_name_scope=False):
        yield


def to_local_collections(kwargs: dict[str, Any]) -> dict[str, Any]:
    """Return a getter's or creator's arguments with GLOBAL_VARIABLES replaced by LOCAL_VARIABLES.

    Args:
        kwargs: the arguments. ``collections`` may be missing, None or empty: a variable must be in one of the two, or
            nothing initialises it.
    """
    collections = kwargs.get("collections") or [tf.GraphKeys.GLOBAL_VARIABLES]
    local = [key for key in collections if key != tf.GraphKeys.GLOBAL_VARIABLES]
    return {**kwargs, "collections": [*local, tf.GraphKeys.LOCAL_VARIABLES]}


@contextmanager
def override_to_local_variable(enable: bool = True) -> Iterator[None]:
    """Make every ``get_variable`` in the block create a local variable: not saved, initialised with the local ones.

    Source:
        The function of the same name in the seed ``graph_builder_utils``.
    """
    if not enable:
        yield
        return

    def getter_to_local(getter: Callable[..., Any], name: str, *args: Any, **kwargs: Any) -> Any:
        return getter(name, *args, **to_local_collections(kwargs))

    with custom_getter_scope(getter_to_local):
        yield


class OverrideCachingDevice:
    """Custom getter that caches each trainable variable on the device with the fewest cached bytes.

    Small variables are all cached on one device, where looking for balance would only cost copies. Variables that are
    not trainable, or whose size is not known, are not cached and become local variables.

    Args:
        devices: the devices to balance over.
        device_for_small_variables: where variables below the threshold are cached.
        small_variable_size_threshold: in elements.

    Raises:
        ConfigError: ``devices`` is empty.

    Source:
        The class of the same name in the seed ``graph_builder_utils``, which fails on unset ``collections`` and counts
        elements where this counts bytes.
    """

    def __init__(
        self, devices: Sequence[str], device_for_small_variables: str, small_variable_size_threshold: int
    ) -> None:
        if not devices:
            raise ConfigError("OverrideCachingDevice wants at least one device, got an empty list")
        self.device_for_small_variables = device_for_small_variables
        self.small_variable_size_threshold = small_variable_size_threshold
        self._load = LeastLoaded(devices)

    @property
    def devices(self) -> list[str]:
        """The devices to balance over."""
        return list(self._load.devices)

    @property
    def sizes(self) -> list[int]:
        """The bytes cached on each device so far."""
        return list(self._load.sizes)

    def __call__(self, getter: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Create the variable with ``getter`` and cache it where there is room."""
        shape, dtype = _shape_and_dtype(kwargs)
        num_elements = shape.num_elements()
        # None means trainable, as it does for tf.Variable; only an explicit False says otherwise.
        if num_elements is None or kwargs.get("trainable") is False:
            return getter(*args, **to_local_collections(kwargs))
        if num_elements < self.small_variable_size_threshold:
            return getter(*args, **{**kwargs, "caching_device": self.device_for_small_variables})
        return getter(*args, **{**kwargs, "caching_device": self._load.take(num_elements * dtype.size)})


def _shape_and_dtype(kwargs: dict[str, Any]) -> tuple[Any, Any]:
    """Return what a getter's variable will hold; an initial value says so itself and comes without a shape."""
    shape, dtype, initial = kwargs.get("shape"), kwargs.get("dtype"), kwargs.get("initializer")
    if shape is None and initial is not None and not callable(initial):
        shape = initial.shape if hasattr(initial, "shape") else np.shape(initial)
        dtype = getattr(initial, "dtype", dtype)
    return tf.TensorShape(shape), tf.as_dtype(dtype or tf.float32).base_dtype
