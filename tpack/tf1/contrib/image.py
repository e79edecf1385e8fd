"""``tf.contrib.image``: projective transforms of images, warps and colours.

A transform is eight numbers a0, a1, a2, b0, b1, b2, c0, c1, which say from where a point (x, y) of the output comes:
from ((a0 x + a1 y + a2) / k, (b0 x + b1 y + b2) / k), where k = c0 x + c1 y + 1. What comes from outside is 0.
"""

import math
from collections.abc import Sequence
from functools import reduce
from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError, WrongTypeError
from tpack.tf1.name_table import look_up

_DTYPES = (tf.uint8, tf.int32, tf.int64, tf.float16, tf.float32, tf.float64)
# From red, green and blue to brightness and two axes of colour.
_YIQ = np.array([[0.299, 0.587, 0.114], [0.596, -0.274, -0.322], [0.211, -0.523, 0.312]])

_OWN = (
    "adjust_hsv_in_yiq angles_to_projective_transforms compose_transforms dense_image_warp flat_transforms_to_matrices "
    "matrices_to_flat_transforms random_hsv_in_yiq rotate transform translate translations_to_projective_transforms"
)

__getattr__, __dir__, __all__ = look_up(__name__, {}, own=_OWN.split())


def rotate(images: Any, angles: Any, interpolation: str = "NEAREST", name: str | None = None) -> tf.Tensor:
    """Rotate images round their middle, against the clock, by angles in radians, one for all or one for each.

    See `transform` for images and interpolation.
    """
    with tf.name_scope(name, "rotate"):
        images = tf.convert_to_tensor(images)
        height, width = _size(images)
        transforms = angles_to_projective_transforms(angles, tf.to_float(height), tf.to_float(width))
        return transform(images, transforms, interpolation)


def translate(images: Any, translations: Any, interpolation: str = "NEAREST", name: str | None = None) -> tf.Tensor:
    """Move images by (dx, dy), one for all or one for each; arguments as for `rotate`."""
    with tf.name_scope(name, "translate"):
        return transform(images, translations_to_projective_transforms(translations), interpolation)


def transform(
    images: Any, transforms: Any, interpolation: str = "NEAREST", output_shape: Any = None, name: str | None = None
) -> tf.Tensor:
    """Apply projective transforms.

    Args:
        images: B x height x width x channels, height x width x channels, or height x width.
        transforms: 8 numbers for all, or B x 8.
        interpolation: ``"NEAREST"`` or ``"BILINEAR"``.
        output_shape: height and width of the output; None for those of the input.
        name: of the operations.

    Raises:
        ConfigError: The transforms are of another shape, or the interpolation is unknown.
        WrongTypeError: Images of this type or rank cannot be transformed.
    """
    if interpolation not in ("NEAREST", "BILINEAR"):
        raise ConfigError(f"transform got interpolation={interpolation!r}: expected 'NEAREST' or 'BILINEAR'")
    with tf.name_scope(name, "transform"):
        images, transforms = tf.convert_to_tensor(images), tf.convert_to_tensor(transforms, tf.float32)
        if images.dtype.base_dtype not in _DTYPES:
            names = ", ".join(dtype.name for dtype in _DTYPES)
            raise WrongTypeError(f"transform got images of {images.dtype.name}: expected one of {names}")
        if transforms.shape.rank not in (1, 2):
            raise ConfigError(f"transform got transforms of shape {transforms.shape}: expected [8] or [B, 8]")
        batch = _as_batch(images)
        size = tf.convert_to_tensor(_size(images) if output_shape is None else output_shape, tf.int32)
        moved = tf.raw_ops.ImageProjectiveTransformV3(
            images=batch,
            transforms=transforms if transforms.shape.rank == 2 else transforms[None],
            output_shape=size,
            fill_value=0.0,
            interpolation=interpolation,
            fill_mode="CONSTANT",
        )
        known = tf.get_static_value(size)
        height, width = (None, None) if known is None else known
        moved.set_shape([batch.shape[0], height, width, batch.shape[3]])
        return {2: moved[0, :, :, 0], 3: moved[0], 4: moved}[images.shape.rank]


def angles_to_projective_transforms(
    angles: Any, image_height: Any, image_width: Any, name: str | None = None
) -> tf.Tensor:
    """Return the transforms that rotate images of a size by angles in radians, B x 8."""
    with tf.name_scope(name, "angles_to_projective_transforms"):
        angles = tf.reshape(tf.convert_to_tensor(angles, tf.float32), [-1])
        cos, sin = tf.cos(angles), tf.sin(angles)
        right, bottom = image_width - 1, image_height - 1
        x = (right - (cos * right - sin * bottom)) / 2.0
        y = (bottom - (sin * right + cos * bottom)) / 2.0
        zero = tf.zeros_like(angles)
        return tf.stack([cos, -sin, x, sin, cos, y, zero, zero], 1)


def translations_to_projective_transforms(translations: Any, name: str | None = None) -> tf.Tensor:
    """Return the transforms that move images by (dx, dy), B x 8."""
    with tf.name_scope(name, "translations_to_projective_transforms"):
        moves = tf.reshape(tf.convert_to_tensor(translations, tf.float32), [-1, 2])
        one, zero = tf.ones_like(moves[:, 0]), tf.zeros_like(moves[:, 0])
        return tf.stack([one, zero, -moves[:, 0], zero, one, -moves[:, 1], zero, zero], 1)


def flat_transforms_to_matrices(transforms: Any) -> tf.Tensor:
    """Return B x 8 numbers as B x 3 x 3 matrices."""
    flat = tf.reshape(tf.convert_to_tensor(transforms, tf.float32), [-1, 8])
    return tf.reshape(tf.concat([flat, tf.ones_like(flat[:, :1])], 1), [-1, 3, 3])


def matrices_to_flat_transforms(transform_matrices: Any) -> tf.Tensor:
    """Return B x 3 x 3 matrices as B x 8 numbers."""
    flat = tf.reshape(tf.convert_to_tensor(transform_matrices, tf.float32), [-1, 9])
    return flat[:, :8] / flat[:, 8:]


def compose_transforms(*transforms: Any) -> tf.Tensor:
    """Return one transform that does what several do one after the other; raise ConfigError if there is none."""
    if not transforms:
        raise ConfigError("compose_transforms got no transform: expected at least one")
    return matrices_to_flat_transforms(reduce(tf.matmul, map(flat_transforms_to_matrices, transforms)))


def dense_image_warp(image: Any, flow: Any, name: str = "dense_image_warp") -> tf.Tensor:
    """Take each pixel of [B, height, width, channels] from where the flow says, by bilinear interpolation.

    The flow [B, height, width, 2] is the distance up and left of the pixel's origin. Outside counts as the border.
    """
    with tf.name_scope(name):
        image, flow = tf.convert_to_tensor(image), tf.convert_to_tensor(flow)
        height, width = _size(image)
        rows, columns = tf.meshgrid(tf.range(height), tf.range(width), indexing="ij")
        sources = tf.cast(tf.stack([rows, columns], 2)[None], flow.dtype) - flow
        # The last but one is the first of a pair.
        last = tf.stack([height - 2, width - 2])
        firsts = tf.maximum(tf.minimum(tf.floor(sources), tf.cast(last, flow.dtype)), 0.0)
        parts = tf.cast(tf.clip_by_value(sources - firsts, 0.0, 1.0), image.dtype)
        corner = tf.cast(firsts, tf.int32)
        # Each line of the grid between two rows, then the point between two columns.
        upper, lower = (_between(image, corner + tf.constant([down, 0]), parts[..., 1:]) for down in (0, 1))
        return upper + parts[..., :1] * (lower - upper)


def _between(image: tf.Tensor, corner: tf.Tensor, part: tf.Tensor) -> tf.Tensor:
    left, right = (tf.gather_nd(image, corner + tf.constant([0, along]), batch_dims=1) for along in (0, 1))
    return left + part * (right - left)


def adjust_hsv_in_yiq(
    image: Any, delta_hue: Any = 0, scale_saturation: Any = 1, scale_value: Any = 1, name: str | None = None
) -> tf.Tensor:
    """Turn the hue by radians, and scale saturation and brightness of RGB images, in the space of colours YIQ.

    The 3 channels are last; integers are taken for their part of the largest, at which results are cut off.
    """
    with tf.name_scope(name, "adjust_hsv_in_yiq", [image]):
        image = tf.convert_to_tensor(image)
        floats = tf.image.convert_image_dtype(image, tf.float32)
        cos, sin = tf.cos(tf.to_float(delta_hue)), tf.sin(tf.to_float(delta_hue))
        colour = tf.to_float(scale_saturation) * tf.to_float(scale_value)
        rows = [
            [tf.to_float(scale_value), 0.0, 0.0],
            [0.0, colour * cos, -colour * sin],
            [0.0, colour * sin, colour * cos],
        ]
        turn = tf.stack([tf.stack(row) for row in rows])
        to_yiq, back = tf.constant(_YIQ, tf.float32), tf.constant(np.linalg.inv(_YIQ), tf.float32)
        matrix = back @ turn @ to_yiq
        return tf.image.convert_image_dtype(tf.tensordot(floats, matrix, [[-1], [1]]), image.dtype, saturate=True)


def random_hsv_in_yiq(
    image: Any,
    max_delta_hue: float = 0,
    lower_saturation: float = 1,
    upper_saturation: float = 1,
    lower_value: float = 1,
    upper_value: float = 1,
    seed: int | None = None,
) -> tf.Tensor:
    """Turn the hue by up to ``max_delta_hue`` radians, from 0 to pi, and scale saturation and brightness within limits.

    Raises:
        ConfigError: The angle is out of its range, or limits are in the wrong order or negative.
    """
    if not 0 <= max_delta_hue <= math.pi:
        raise ConfigError(f"random_hsv_in_yiq got max_delta_hue={max_delta_hue}: expected 0 to pi")
    limits = (lower_saturation, upper_saturation), (lower_value, upper_value)
    for low, high in limits:
        if not 0 <= low <= high:
            raise ConfigError(f"random_hsv_in_yiq got limits {low} and {high}: expected 0 <= lower <= upper")
    hue = tf.random_uniform([], -max_delta_hue, max_delta_hue, seed=seed)
    saturation, value = (low if low == high else tf.random_uniform([], low, high, seed=seed) for low, high in limits)
    return adjust_hsv_in_yiq(image, hue, saturation, value)


def _as_batch(images: tf.Tensor) -> tf.Tensor:
    """Return images as B x height x width x channels; raise WrongTypeError if they are of no such rank."""
    if images.shape.rank not in (2, 3, 4):
        raise WrongTypeError(f"got images of shape {images.shape}: expected [B, H, W, C], [H, W, C] or [H, W]")
    if images.shape.rank == 4:
        return images
    return images[None] if images.shape.rank == 3 else images[None, :, :, None]


def _size(images: tf.Tensor) -> Sequence[Any]:
    batch = _as_batch(images)
    dynamic = tf.shape(batch)
    return [
        dynamic[axis] if size is None else size for axis, size in zip((1, 2), batch.shape.as_list()[1:3], strict=True)
    ]
