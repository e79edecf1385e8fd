"""Chains of layers in one expression, and the layer that joins other tensors to a chain."""

from collections.abc import Callable, Sequence
from difflib import get_close_matches
from types import ModuleType
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.models.registry import get_registered_layer, layer_register, registered_layer_names
from tpack.utils import logger
from tpack.utils.validation import check_arguments, check_count

__all__ = ["ConcatWith", "LinearWrap"]


@check_arguments
class LinearWrap:
    """A tensor with every layer as a method that returns the next `LinearWrap`.

    Args:
        tensor: the beginning of the chain.

    Example:
        logits = (
            LinearWrap(image)
            .Conv2D("conv0", 32, 3, activation=tf.nn.relu)
            .MaxPooling("pool0", 2)
            .tf.reshape([-1, 14 * 14 * 32])
            .apply(my_function, 3)
            .FullyConnected("fc0", 10)()
        )
    """

    def __init__(self, tensor: tf.Tensor) -> None:
        self._tensor = tensor

    def __getattr__(self, name: str) -> Any:
        if name == "tf":
            return _FunctionsOf(tf, self._tensor)
        layer = None if name.startswith("_") else get_registered_layer(name)
        if layer is None:
            near = get_close_matches(name, [*registered_layer_names(), "tf"], n=3)
            hint = f"; near names: {', '.join(near)}" if near else ""
            raise AttributeError(
                f"LinearWrap has no layer {name!r}{hint}. To get the tensor at the end of a chain, call it"
            )

        def method(*args: Any, **kwargs: Any) -> LinearWrap:
            if args and isinstance(args[0], str):
                return LinearWrap(layer(args[0], self._tensor, *args[1:], **kwargs))
            # A layer without its name raises the error itself.
            return LinearWrap(layer(self._tensor, *args, **kwargs))

        return method

    def apply(self, func: Callable[..., Any], *args: Any, **kwargs: Any) -> "LinearWrap":
        """Continue with ``func(tensor, *args, **kwargs)``."""
        return LinearWrap(func(self._tensor, *args, **kwargs))

    def apply2(self, func: Callable[..., Any], *args: Any, **kwargs: Any) -> "LinearWrap":
        """Continue with ``func(args[0], tensor, *args[1:], **kwargs)``: for functions with a name first."""
        return LinearWrap(func(args[0], self._tensor, *args[1:], **kwargs))

    def __call__(self) -> tf.Tensor:
        """Return the tensor."""
        return self._tensor

    def tensor(self) -> tf.Tensor:
        """Return the tensor."""
        return self._tensor

    def print_tensor(self) -> "LinearWrap":
        """Log the tensor's name, shape and dtype, and continue with it."""
        logger.info(str(self._tensor))
        return self


@layer_register(use_scope=None)
@check_arguments
def ConcatWith(x: tf.Tensor, tensor: tf.Tensor | Sequence[tf.Tensor], dim: int) -> tf.Tensor:  # noqa: N802
    """Join a tensor and others along a dimension, as a step of a `LinearWrap`.

    Args:
        x: the first tensor.
        tensor: the tensor that follows it, or a list of them.
        dim: the dimension.

    Shapes:
        The inputs differ in the size of ``dim`` only; the output has their sum.
    """
    rank = x.shape.rank
    if rank is not None:
        check_count("ConcatWith", "dim", dim, -rank, rank - 1)
    others = list(tensor) if isinstance(tensor, list | tuple) else [tensor]
    return tf.concat([x, *others], dim)


class _FunctionsOf:
    """The functions of a TensorFlow module, called with a tensor as the first argument."""

    def __init__(self, module: ModuleType, tensor: tf.Tensor) -> None:
        self._module = module
        self._tensor = tensor

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._module, name)
        if isinstance(found, ModuleType):
            return _FunctionsOf(found, self._tensor)
        return lambda *args, **kwargs: LinearWrap(found(self._tensor, *args, **kwargs))
