"""Brightness and contrast against numpy."""

import numpy as np
import pytest

from tests.helpers.images import picture, seeded
from tpack.dataflow.imgaug.colors import Brightness, BrightnessScale, Contrast
from tpack.errors import ConfigError

LUMINANCE_OF_RGB = np.array([0.299, 0.587, 0.114])


def drawn(low, high, seed=3):
    return np.random.RandomState(seed).uniform(low, high)


def as_bytes(values):
    return np.rint(np.clip(values, 0, 255)).astype(np.uint8)


def test_brightness_adds(rng):
    image = picture(rng)
    np.testing.assert_array_equal(seeded(Brightness(90)).augment(image), as_bytes(image + drawn(-90, 90)))


def test_brightness_does_not_wrap_around():
    white = np.full((3, 3), 250, np.uint8)
    brighter = [seeded(Brightness(100, clip=False), seed).augment(white).max() for seed in range(20)]
    assert max(brighter) == 255
    assert min(brighter) >= 150


def test_floats_are_limited_unless_told_not_to():
    image, delta = np.full((1, 1), 200, np.float32), drawn(-900, 900)
    np.testing.assert_allclose(seeded(Brightness(900, clip=False)).augment(image), 200 + delta, rtol=1e-5)
    assert seeded(Brightness(900)).augment(image) == np.clip(200 + delta, 0, 255)


def test_brightness_scale_multiplies(rng):
    image = picture(rng)
    np.testing.assert_array_equal(seeded(BrightnessScale((0.5, 2))).augment(image), as_bytes(image * drawn(0.5, 2)))


def test_contrast_is_around_the_mean_of_each_channel(rng):
    image, factor = picture(rng) // 2 + np.array([0, 50, 100], np.uint8), drawn(0.5, 1.5)
    mean = image.mean(axis=(0, 1))
    found = seeded(Contrast((0.5, 1.5))).augment(image.astype(np.float32))
    np.testing.assert_allclose(found, np.clip((image - mean) * factor + mean, 0, 255), atol=1e-3)


@pytest.mark.parametrize("rgb", [True, False])
def test_contrast_may_have_one_mean(rgb, rng):
    image, factor = picture(rng) // 2 + np.array([0, 50, 100], np.uint8), drawn(0.5, 1.5)
    mean = ((image if rgb else image[:, :, ::-1]) @ LUMINANCE_OF_RGB).mean()
    found = seeded(Contrast((0.5, 1.5), rgb=rgb, clip=False)).augment(image.astype(np.float32))
    np.testing.assert_allclose(found, (image - mean) * factor + mean, atol=1e-2)


@pytest.mark.parametrize("make", [lambda: Brightness(-1), lambda: BrightnessScale((2, 1)), lambda: Contrast((-1, 1))])
def test_what_is_no_amount_is_refused(make):
    with pytest.raises(ConfigError, match="got .*: wanted"):
        make()
