"""Colours against numpy and the standard library."""

import colorsys

import numpy as np
import pytest

from tests.helpers.images import picture, seeded
from tpack.dataflow.imgaug.colors import Hue, Lighting, Saturation
from tpack.errors import ConfigError

LUMINANCE_OF_RGB = np.array([0.299, 0.587, 0.114])


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


@pytest.mark.parametrize(("eigval", "eigvec"), [([1, 2], np.eye(3)), ([1, 2, 3], np.eye(2)), ([[1, 2, 3]], np.eye(3))])
def test_other_eigenvectors_are_refused(eigval, eigvec):
    with pytest.raises(ConfigError, match=r"wanted \(3,\) and \(3, 3\)"):
        Lighting(1, eigval, eigvec)


@pytest.mark.parametrize(
    "make", [lambda: Hue((0, 181)), lambda: Saturation(1.5), lambda: Lighting(-1, [1] * 3, np.eye(3))]
)
def test_what_is_no_amount_is_refused(make):
    with pytest.raises(ConfigError, match="got .*: wanted"):
        make()
