"""Augmentors of brightness, colour and tone."""

import colorsys

import numpy as np
import pytest

from tests.helpers.images import picture, seeded
from tpack.dataflow.imgaug.colors import Brightness, BrightnessScale, Clip, Contrast, Gamma, Hue, Lighting, Saturation
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
    with pytest.raises(ConfigError, match="got .*: expected"):
        make()


def turned(pixel, degrees):
    """Return an RGB pixel whose hue is turned."""
    hue, saturation, value = colorsys.rgb_to_hsv(*(float(channel) / 255 for channel in pixel))
    return [255 * channel for channel in colorsys.hsv_to_rgb((hue + degrees / 360) % 1, saturation, value)]


@pytest.mark.parametrize("rgb", [True, False])
@pytest.mark.parametrize("limits", [(0, 180), (-90, 90)])
def test_hue_is_turned(rgb, limits, rng):
    image = picture(rng, (6, 7, 3))
    half_degrees = np.random.RandomState(3).uniform(*limits)
    pixels = (image if rgb else image[:, :, ::-1]).reshape(-1, 3)
    wanted = np.array([turned(pixel, 2 * half_degrees) for pixel in pixels]).reshape(6, 7, 3)
    wanted = wanted if rgb else wanted[:, :, ::-1]
    np.testing.assert_allclose(seeded(Hue(limits, rgb)).augment(image.astype(np.float32)), wanted, atol=0.05)
    np.testing.assert_allclose(seeded(Hue(limits, rgb)).augment(image), wanted, atol=0.51)


def test_whole_circle_changes_nothing(rng):
    image = picture(rng)
    np.testing.assert_array_equal(Hue((180, 180)).augment(image), image)


@pytest.mark.parametrize("rgb", [True, False])
def test_saturation_is_the_distance_from_grey(rgb, rng):
    image = picture(rng)
    factor = 1 + np.random.RandomState(3).uniform(-0.6, 0.6)
    grey = ((image if rgb else image[:, :, ::-1]) @ LUMINANCE_OF_RGB)[:, :, np.newaxis]
    wanted = np.clip(grey + (image - grey) * factor, 0, 255)
    np.testing.assert_allclose(seeded(Saturation(0.6, rgb)).augment(image.astype(np.float32)), wanted, atol=1e-2)
    np.testing.assert_allclose(seeded(Saturation(0.6, rgb)).augment(image), wanted, atol=0.52)


def test_lighting_adds_one_colour(rng):
    image = picture(rng).astype(np.float32)
    eigval, eigvec = np.array([50.0, 5, 1]), np.linalg.qr(rng.random((3, 3)))[0]
    amounts = np.random.RandomState(3).randn(3) * 0.1 * eigval
    color = sum(amounts[k] * eigvec[:, k] for k in range(3))
    found = seeded(Lighting(0.1, eigval, eigvec, clip=False)).augment(image)
    np.testing.assert_allclose(found, image + color, atol=1e-3)


@pytest.mark.parametrize(
    ("eigval", "eigvec", "message"),
    [
        ([1, 2], np.eye(3), r"eigval of shape \(2,\) and eigvec of shape \(3, 3\): expected \(3,\) and \(3, 3\)"),
        ([1, 2, 3], np.eye(2), r"eigval of shape \(3,\) and eigvec of shape \(2, 2\): expected \(3,\) and \(3, 3\)"),
        ([[1, 2, 3]], np.eye(3), r"eigval\[0\]=\[1, 2, 3\]: expected a number"),
    ],
)
def test_other_eigenvectors_are_refused(eigval, eigvec, message):
    with pytest.raises(ConfigError, match=f"Lighting got {message}"):
        Lighting(1, eigval, eigvec)


@pytest.mark.parametrize(
    "make", [lambda: Hue((0, 181)), lambda: Saturation(1.5), lambda: Lighting(-1, [1] * 3, np.eye(3))]
)
def test_what_is_no_amount_of_colour_is_refused(make):
    with pytest.raises(ConfigError, match="got .*: expected"):
        make()


def test_gamma_is_a_power(rng):
    image = picture(rng)
    power = 1 / (1 + np.random.RandomState(3).uniform(-0.5, 0.5))
    wanted = 255 * (image / 255) ** power
    np.testing.assert_allclose(seeded(Gamma()).augment(image.astype(np.float32)), wanted, atol=1e-2)
    np.testing.assert_array_equal(seeded(Gamma()).augment(image), np.rint(wanted))


def test_more_gamma_is_brighter():
    grey = np.full((1, 1), 100, np.uint8)
    assert Gamma((0.5, 0.5)).augment(grey) > 100 > Gamma((-0.5, -0.5)).augment(grey)


def test_gamma_limits_floats_before():
    assert Gamma((0.5, 0.5)).augment(np.array([[-10, 300]], np.float32)).tolist() == [[0, 255]]


@pytest.mark.parametrize("limits", [(-1, 0), (-2, 3), (1, 0)])
def test_power_must_be_defined(limits):
    with pytest.raises(ConfigError, match="Gamma got range=.*: expected"):
        Gamma(limits)


@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
def test_clip_limits(dtype, rng):
    image = picture(rng, dtype=dtype)
    np.testing.assert_array_equal(Clip(20, 90).augment(image), np.clip(image, 20, 90))


def test_clip_is_not_bound_to_bytes():
    assert Clip(-5, 900).augment(np.array([[-9, 1000]], np.float32)).tolist() == [[-5, 900]]


def test_limits_must_be_in_order():
    with pytest.raises(ConfigError, match="Clip got max=1: expected a number of at least 3"):
        Clip(3, 1)
