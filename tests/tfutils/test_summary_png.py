"""PNG files hold the image: TensorFlow's own decoder is the oracle."""

from typing import Any

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError
from tpack.tfutils.summary import encode_png


@pytest.mark.parametrize("channels", [1, 3, 4])
@pytest.mark.parametrize("size", [(1, 1), (5, 7), (64, 3)])
def test_decoder_gives_the_image_back(rng: Any, size: tuple[int, int], channels: int) -> None:
    image = rng.integers(0, 256, (*size, channels), dtype=np.uint8)
    np.testing.assert_array_equal(tf.io.decode_png(encode_png(image), channels=channels).numpy(), image)


@pytest.mark.parametrize(
    "image",
    [
        np.zeros((2, 2, 3), "float32"),
        np.zeros((2, 2), "uint8"),
        np.zeros((2, 2, 2), "uint8"),
        np.zeros((0, 2, 3), "uint8"),
    ],
)
def test_other_arrays_are_rejected(image: Any) -> None:
    with pytest.raises(ConfigError, match="wanted an uint8 image"):
        encode_png(image)
