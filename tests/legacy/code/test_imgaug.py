"""Augmentors in the older style."""

import numpy as np
import pytest

from tpack.dataflow.imgaug.resize import ResizeTransform
from tpack.legacy.code.imgaug import PhotometricAugmentor, TransformAugmentorBase


class Enlarge(TransformAugmentorBase):
    def _get_augment_params(self, img):
        height, width = img.shape[:2]
        return ResizeTransform(height, width, 2 * height, 2 * width, 0)


def test_an_augmentor_may_say_its_transform_as_parameters():
    image = np.arange(4, dtype="uint8").reshape(2, 2)
    enlarged, transform = Enlarge().augment_return_params(image)
    assert enlarged.shape == (4, 4)
    np.testing.assert_array_equal(transform.apply_coords(np.float32([[1, 2]])), [[2, 4]])
    np.testing.assert_array_equal(Enlarge().augment_coords(np.float32([[1, 2]]), transform), [[2, 4]])


class Darken(PhotometricAugmentor):
    def _get_augment_params(self, img):
        return img.max()

    def _augment(self, img, params):
        return img // params


def test_an_augmentor_of_pixels_leaves_coordinates_alone():
    image = np.full((2, 2), 6, "uint8")
    darker, transform = Darken().augment_return_params(image)
    np.testing.assert_array_equal(darker, np.ones((2, 2)))
    np.testing.assert_array_equal(transform.apply_image(image * 2), np.full((2, 2), 2))
    np.testing.assert_array_equal(transform.apply_coords(np.float32([[1, 2]])), [[1, 2]])
    with pytest.raises(NotImplementedError, match="PhotometricAugmentor has no _augment"):
        PhotometricAugmentor().augment(image)
