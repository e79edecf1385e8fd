"""Augmentors of values: the base, the rounding, the table."""

import numpy as np
import pytest

from tests.helpers.images import picture
from tpack.dataflow.imgaug.base import UnsupportedTransformError
from tpack.dataflow.imgaug.photometric import PhotometricAugmentor, PhotometricTransform, map_values, to_dtype_of
from tpack.errors import DataPointError


class Invert(PhotometricAugmentor):
    def _augment(self, img, param):
        return 255 - img


def test_subclass_needs_only_its_function(rng):
    image = picture(rng)
    transform = Invert().get_transform(image)
    assert isinstance(transform, PhotometricTransform)
    np.testing.assert_array_equal(transform.apply_image(image), 255 - image)
    assert transform.apply_box(np.array([[0.0, 1, 2, 3]])).tolist() == [[0, 1, 2, 3]]


def test_base_itself_is_no_augmentor():
    with pytest.raises(UnsupportedTransformError, match="PhotometricAugmentor has no _augment"):
        PhotometricAugmentor().augment(np.zeros((2, 2)))


def test_bytes_are_limited_and_rounded():
    values = np.array([[-3.0, 0.4, 0.6, 254.6, 255.4, 999.0]])
    assert to_dtype_of(values, np.zeros((1, 1), np.uint8), clip=False).tolist() == [[0, 0, 1, 255, 255, 255]]


def test_floats_are_limited_if_wanted():
    values, image = np.array([[-3.0, 0.4, 999.0]]), np.zeros((1, 1), np.float32)
    assert to_dtype_of(values, image, clip=True).tolist() == [[0, np.float32(0.4), 255]]
    assert to_dtype_of(values, image, clip=False).tolist() == [[-3, np.float32(0.4), 999]]
    assert to_dtype_of(values, image, clip=False).dtype == np.float32


@pytest.mark.parametrize("shape", [(5, 6), (5, 6, 1), (5, 6, 3), (5, 6, 4), (5, 6, 6)])
@pytest.mark.parametrize("dtype", [np.uint8, np.float32, np.float64])
def test_function_is_called_on_the_values_of_each_channel(shape, dtype, rng):
    image = picture(rng, shape, dtype)
    channels = 1 if len(shape) == 2 else shape[2]
    factors = np.linspace(0.5, 2, channels).astype(np.float32)
    wanted = np.clip(image.astype(np.float64) * (factors if len(shape) == 3 else factors[0]) - 3, 0, 255)
    found = map_values(None, image, lambda values: values * factors - 3)
    assert (found.shape, found.dtype) == (shape, dtype)
    np.testing.assert_allclose(found, np.rint(wanted) if dtype == np.uint8 else wanted, atol=1e-3)


def test_what_is_no_image_is_refused():
    with pytest.raises(DataPointError, match="got an image of dtype int64"):
        map_values(None, np.zeros((2, 2), np.int64), np.negative)
