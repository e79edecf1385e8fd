"""Summaries made of numpy values."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.event_files import scalars_in
from tpack.errors import ConfigError
from tpack.tfutils.summary import create_image_summary, create_scalar_summary, encode_png, event_writer


def decode(value: Any) -> Any:
    return tf.io.decode_png(value.image.encoded_image_string, channels=value.image.colorspace).numpy()


@pytest.mark.parametrize("number", [2.5, 3, np.float32(2.5), np.array(3)])
def test_scalar_summary_has_tag_and_number(number: Any) -> None:
    (value,) = create_scalar_summary("cost", number).value
    assert (value.tag, value.simple_value) == ("cost", float(number))


@pytest.mark.parametrize("channels", [1, 3, 4])
def test_image_summary_holds_each_image(rng: Any, channels: int) -> None:
    images = rng.integers(0, 256, (3, 4, 5, channels), dtype=np.uint8)
    values = create_image_summary("digits", images).value
    assert [value.tag for value in values] == ["digits/0", "digits/1", "digits/2"]
    for value, image in zip(values, images, strict=True):
        assert (value.image.height, value.image.width) == (4, 5)
        np.testing.assert_array_equal(decode(value), image)


def test_floats_are_rounded_into_the_range() -> None:
    (value,) = create_image_summary("x", np.array([-3, 0.4, 99.6, 300.0]).reshape(1, 2, 2, 1)).value
    assert value.tag == "x"
    np.testing.assert_array_equal(decode(value).ravel(), [0, 0, 100, 255])


@pytest.mark.parametrize("shape", [(2, 2, 3), (1, 2, 2, 2), (0, 2, 2, 3)])
def test_other_shapes_are_rejected(shape: tuple[int, ...]) -> None:
    with pytest.raises(ConfigError, match="create_image_summary got val=.*: expected a val of shape"):
        create_image_summary("x", np.zeros(shape))


def test_event_writer_is_closed_and_takes_the_place_of_none(graph: tf.Graph, tmp_path: Path) -> None:
    for step in range(3):
        with event_writer(str(tmp_path)) as writer:
            writer.add_summary(create_scalar_summary("a", step / 2), step)
    assert scalars_in(tmp_path) == {"a": [(0, 0.0), (1, 0.5), (2, 1.0)]}


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
    with pytest.raises(ConfigError, match="expected uint8 of shape"):
        encode_png(image)
