"""Images in another dtype or colour space."""

import cv2
import numpy as np
import pytest

from tests.helpers.images import picture
from tpack.dataflow.imgaug.photometric import ColorSpace, Grayscale, ToFloat32, ToUint8, convert_color
from tpack.errors import ConfigError, DataPointError

LUMINANCE_OF_RGB = np.array([0.299, 0.587, 0.114])


def test_to_uint8_limits_and_rounds():
    values = np.array([[-7, 0.4, 0.6, 255.7]], np.float64)
    found = ToUint8().augment(values)
    assert found.tolist() == [[0, 0, 1, 255]]
    assert found.dtype == np.uint8
    assert ToUint8().augment(np.array([[-1, 300]], np.int64)).tolist() == [[0, 255]]


def test_to_float32_keeps_the_values(rng):
    image = rng.integers(-500, 500, (4, 5)).astype(np.int16)
    found = ToFloat32().augment(image)
    np.testing.assert_array_equal(found, image)
    assert found.dtype == np.float32


def test_to_float32_of_floats_is_a_copy():
    image = np.zeros((2, 2), np.float32)
    assert not np.shares_memory(ToFloat32().augment(image), image)


@pytest.mark.parametrize("augmentor", [ToUint8(), ToFloat32()])
def test_text_is_no_image(augmentor):
    with pytest.raises(DataPointError, match="dtype <U1: expected real numbers"):
        augmentor.augment(np.array([["a"]]))


@pytest.mark.parametrize("rgb", [True, False])
def test_grayscale_is_the_luminance(rgb, rng):
    image = picture(rng)
    wanted = (image if rgb else image[:, :, ::-1]) @ LUMINANCE_OF_RGB
    np.testing.assert_allclose(Grayscale(keepdims=False, rgb=rgb).augment(image), wanted, atol=1)
    found = Grayscale(rgb=rgb).augment(image.astype(np.float32))
    np.testing.assert_allclose(found[:, :, 0], wanted, atol=1e-2)


def test_grayscale_has_three_shapes(rng):
    image = picture(rng)
    flat, deep = Grayscale(keepdims=False).augment(image), Grayscale().augment(image)
    full = Grayscale(keepshape=True).augment(image)
    assert (flat.shape, deep.shape, full.shape) == ((24, 31), (24, 31, 1), (24, 31, 3))
    for channel in range(3):
        np.testing.assert_array_equal(full[:, :, channel], flat)


def test_color_space_is_opencvs(rng):
    image = picture(rng)
    np.testing.assert_array_equal(ColorSpace(cv2.COLOR_BGR2HSV).augment(image), cv2.cvtColor(image, cv2.COLOR_BGR2HSV))
    assert ColorSpace(cv2.COLOR_BGR2GRAY).augment(image).shape == (24, 31, 1)
    assert ColorSpace(cv2.COLOR_BGR2GRAY, keepdims=False).augment(image).shape == (24, 31)


def test_float64_is_converted_too(rng):
    image = picture(rng, dtype=np.float64)
    np.testing.assert_array_equal(convert_color(image, cv2.COLOR_BGR2RGB), image[:, :, ::-1])


def test_image_that_cannot_be_converted_is_named():
    with pytest.raises(DataPointError, match=r"shape \(3, 3, 1\) and dtype uint8: OpenCV cannot convert it"):
        ColorSpace(cv2.COLOR_BGR2HSV).augment(np.zeros((3, 3, 1), np.uint8))


@pytest.mark.parametrize("mode", ["BGR2HSV", None, True, 1.0])
def test_what_is_no_mode_is_refused(mode):
    with pytest.raises(ConfigError, match="ColorSpace got mode=.*: expected an integer"):
        ColorSpace(mode)
