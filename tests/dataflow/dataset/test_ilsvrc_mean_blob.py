"""The mean image that Caffe wrote."""

import numpy as np
import pytest

from tests.helpers.dataset_files import mean_blob, varint
from tpack.dataflow.dataset.ilsvrc import _decode_mean_blob
from tpack.errors import InputError

MEAN = (np.arange(2 * 3 * 5) / 7).astype(np.float32).reshape(2, 3, 5)


@pytest.mark.parametrize("packed", [True, False])
def test_image_comes_back(packed):
    np.testing.assert_array_equal(_decode_mean_blob("m", mean_blob(MEAN, packed=packed)), MEAN)


def test_other_fields_are_skipped():
    others = (
        varint(9 << 3 | 1) + bytes(8) + varint(7 << 3 | 2) + varint(300) + bytes(300) + varint(8 << 3) + varint(2**40)
    )
    np.testing.assert_array_equal(_decode_mean_blob("m", others + mean_blob(MEAN)), MEAN)


def test_published_size_is_read():
    mean = np.full((3, 256, 256), 117.5, np.float32)
    np.testing.assert_array_equal(_decode_mean_blob("m", mean_blob(mean)), mean)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", r"m has 0 bytes of values: expected 4 for each of \(0, 0, 0\)"),
        (mean_blob(MEAN)[:-1], "m is not a message with an image: a field of 120 bytes begins at"),
        (
            mean_blob(MEAN) + varint(5 << 3 | 5) + bytes(4),
            r"m has 124 bytes of values: expected 4 for each of \(2, 3, 5\)",
        ),
        (b"\x0b", "m is not a message with an image: byte 1 begins a field of kind 3"),
        (b"\x08" + b"\xff" * 20, "the integer before byte 11 does not end"),
        (b"\x08", "m is not a message with an image: index out of range"),
    ],
)
def test_other_content_is_refused(content, message):
    with pytest.raises(InputError, match=message):
        _decode_mean_blob("m", content)
