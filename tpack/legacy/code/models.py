"""Layers and helpers for layers that tensorpack had until 2019."""

import functools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError
from tpack.legacy.code.renamed import older_function
from tpack.legacy.table import say
from tpack.models.arguments import check_rank
from tpack.models.data_format import sizes_of
from tpack.models.registry import WEIGHT_ALIASES, layer_register
from tpack.tower.getters import custom_getter_scope


@layer_register(use_scope=None)
@older_function("LeakyReLU", "tf.nn.leaky_relu")
def LeakyReLU(x: tf.Tensor, alpha: float, name: str = "output") -> tf.Tensor:  # noqa: N802
    """Multiply negative elements by ``alpha``."""
    return tf.nn.leaky_relu(x, alpha, name=name)


@layer_register(use_scope=None)
@older_function("SoftMax", "tf.nn.softmax")
def SoftMax(x: tf.Tensor, use_temperature: bool = False, temperature_init: float = 1.0) -> tf.Tensor:  # noqa: N802
    """Return probabilities of logits, which are divided by a learned temperature if requested."""
    if use_temperature:
        x = x * tf.get_variable("invtemp", [], initializer=tf.constant_initializer(1 / temperature_init))
    return tf.nn.softmax(x, name="output")


@layer_register(log_shape=True, use_scope=None)
@older_function("BilinearUpSample", "tf.image.resize")
def BilinearUpSample(x: tf.Tensor, shape: int) -> tf.Tensor:  # noqa: N802
    """Enlarge a feature map ``shape`` times by bilinear interpolation, extending its border pixels."""
    check_rank("BilinearUpSample", x, 4)
    _, height, width, channels = sizes_of(x)
    enlarged = tf.image.resize_bilinear(x, tf.stack([height * shape, width * shape]), half_pixel_centers=True)
    known = [None if not isinstance(size, int) else size * shape for size in (height, width)]
    enlarged.set_shape([None, *known, channels if isinstance(channels, int) else None])
    return enlarged


@layer_register(log_shape=True, use_scope=None)
def ImageSample(inputs: Sequence[tf.Tensor], borderMode: str = "repeat") -> tf.Tensor:  # noqa: N802, N803
    """Take pixels of images at fractional places, by bilinear interpolation.

    Args:
        inputs: images [batch, height, width, channels], and places [batch, new height, new width, 2], (y, x) in pixels.
        borderMode: for places outside: ``"repeat"`` takes the nearest pixel, ``"constant"`` zero.

    Raises:
        ConfigError: The mode is unknown.
    """
    if borderMode not in ("repeat", "constant"):
        raise ConfigError(f"ImageSample got borderMode={borderMode!r}: expected 'repeat' or 'constant'")
    images, places = inputs
    low = tf.floor(places)
    weight_y, weight_x = tf.split(places - low, 2, axis=3)
    low_y, low_x = tf.split(tf.cast(low, tf.int32), 2, axis=3)
    corners = (
        (low_y, low_x, (1 - weight_y) * (1 - weight_x)),
        (low_y, low_x + 1, (1 - weight_y) * weight_x),
        (low_y + 1, low_x, weight_y * (1 - weight_x)),
        (low_y + 1, low_x + 1, weight_y * weight_x),
    )
    return tf.add_n([_pixels(images, y, x, borderMode) * weight for y, x, weight in corners], name="sampled")


def _pixels(images: tf.Tensor, y: tf.Tensor, x: tf.Tensor, border_mode: str) -> tf.Tensor:
    """Return the pixels at integer places, [batch, new height, new width, channels]."""
    height, width = tf.shape(images)[1], tf.shape(images)[2]
    inside_y, inside_x = tf.clip_by_value(y, 0, height - 1), tf.clip_by_value(x, 0, width - 1)
    pixels = tf.gather_nd(images, tf.concat([inside_y, inside_x], axis=3), batch_dims=1)
    if border_mode == "repeat":
        return pixels
    is_inside = tf.logical_and(tf.equal(y, inside_y), tf.equal(x, inside_x))
    return pixels * tf.cast(is_inside, pixels.dtype)


class StaticDynamicAxis:
    """The size of a dimension: a number or None, and a tensor."""

    def __init__(self, static: int | None, dynamic: Any) -> None:
        self.static = static
        self.dynamic = dynamic

    def apply(self, f: Callable[[Any], Any]) -> "StaticDynamicAxis":
        """Return the size after a function, such as halving."""
        if self.static is None:
            return StaticDynamicAxis(None, f(self.dynamic))
        size = f(self.static)
        return StaticDynamicAxis(size, size)

    def __str__(self) -> str:
        return f"S={self.static}, D={self.dynamic}"


class StaticDynamicShape:
    """The sizes of all dimensions of a tensor of known rank."""

    def __init__(self, tensor: tf.Tensor) -> None:
        say("StaticDynamicShape", "tensor.shape and tf.shape(tensor)")
        dynamic = tf.shape(tensor)
        self.static: list[int | None] = tensor.shape.as_list()
        self.dynamic = [dynamic[axis] for axis in range(len(self.static))]

    def apply(self, axis: int, f: Callable[[Any], Any]) -> None:
        """Apply a function to the size of a dimension."""
        changed = StaticDynamicAxis(self.static[axis], self.dynamic[axis]).apply(f)
        self.static[axis], self.dynamic[axis] = changed.static, changed.dynamic

    def get_static(self) -> list[int | None]:
        """Return the numbers."""
        return self.static

    def get_dynamic(self, axis: int | None = None) -> Any:
        """Return the tensor of one dimension, or a tensor of all."""
        return tf.stack(self.dynamic) if axis is None else self.dynamic[axis]


def parse_args(
    args: Sequence[Any], kwargs: Mapping[str, Any], args_names: Sequence[str], name_mapping: Mapping[str, str]
) -> dict[str, Any]:
    """Return the arguments of a layer by their names in ``tf.layers``.

    Args:
        args: the positional arguments.
        kwargs: the named arguments.
        args_names: the names of the positional ones, in order.
        name_mapping: from older names to those of ``tf.layers``.

    Raises:
        ConfigError: There are too many positional arguments.
    """
    if len(args) > len(args_names):
        raise ConfigError(f"got {len(args)} positional arguments: expected at most {len(args_names)}, {args_names}")
    named = {**dict(zip(args_names, args, strict=False)), **kwargs}
    return {name_mapping.get(name, name): value for name, value in named.items()}


def convert_to_tflayer_args(
    args_names: Sequence[str], name_mapping: Mapping[str, str]
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorate a layer so that it gets named arguments only, by their names in ``tf.layers``.

    Args:
        args_names: the names of positional arguments, in order after the input.
        name_mapping: from older names to those of ``tf.layers``. ``nl``, ``W_init`` and ``b_init`` are translated too.
    """

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def call(inputs: Any, *args: Any, **kwargs: Any) -> Any:
            say("convert_to_tflayer_args", "the names of arguments themselves: layers take both by argument_aliases")
            return function(inputs, **parse_args(args, kwargs, args_names, {**WEIGHT_ALIASES, **name_mapping}))

        return call

    return decorate


@contextmanager
def rename_get_variable(mapping: Mapping[str, str]) -> Iterator[None]:
    """Rename the variables of this block by a mapping of the last parts of their names, such as ``{"kernel": "W"}``."""
    say("rename_get_variable", "remap_variables, or rename_tflayer_get_variable")

    def renaming(getter: Callable[..., Any], name: str, *args: Any, **kwargs: Any) -> Any:
        renamed = re.sub(r"[^/]+$", lambda last: mapping.get(last[0], last[0]), name)
        return getter(renamed, *args, **kwargs)

    with custom_getter_scope(renaming):
        yield
