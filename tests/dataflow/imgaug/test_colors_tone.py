"""Curves and limits against numpy."""

import numpy as np
import pytest

from tests.helpers.images import picture, seeded
from tpack.dataflow.imgaug.colors import Clip, Gamma
from tpack.errors import ConfigError


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
    with pytest.raises(ConfigError, match="Gamma got range=.*: wanted"):
        Gamma(limits)


@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
def test_clip_limits(dtype, rng):
    image = picture(rng, dtype=dtype)
    np.testing.assert_array_equal(Clip(20, 90).augment(image), np.clip(image, 20, 90))


def test_clip_is_not_bound_to_bytes():
    assert Clip(-5, 900).augment(np.array([[-9, 1000]], np.float32)).tolist() == [[-5, 900]]


def test_limits_must_be_in_order():
    with pytest.raises(ConfigError, match="Clip got max=1: wanted a number between 3"):
        Clip(3, 1)
