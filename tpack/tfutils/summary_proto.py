"""Summaries made of numpy values, for what is measured outside of the graph."""

from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError
from tpack.tfutils.png import encode_png


def create_scalar_summary(name: str, value: float) -> Any:
    """Return a tf.Summary with one number."""
    return tf.Summary(value=[tf.Summary.Value(tag=name, simple_value=float(value))])


def create_image_summary(name: str, val: Any) -> Any:
    """Return a tf.Summary with images.

    Args:
        name: the tag; of several images, the k-th has the tag ``name/k``.
        val: numpy array of shape (N, H, W, C) with 1, 3 or 4 channels. Anything but uint8 is taken as values in
            [0, 255] and rounded.

    Raises:
        ConfigError: The shape is another one.
    """
    images = np.asarray(val)
    if images.ndim != 4 or images.shape[-1] not in (1, 3, 4) or not images.size:
        raise ConfigError(f"image summary {name!r} wants an array of shape (N, H, W, 1, 3 or 4), got {images.shape}")
    if images.dtype != np.uint8:
        images = np.clip(np.rint(images), 0, 255).astype(np.uint8)
    count, height, width, channels = images.shape
    values = [
        tf.Summary.Value(
            tag=name if count == 1 else f"{name}/{k}",
            image=tf.Summary.Image(
                height=height, width=width, colorspace=channels, encoded_image_string=encode_png(image)
            ),
        )
        for k, image in enumerate(images)
    ]
    return tf.Summary(value=values)
