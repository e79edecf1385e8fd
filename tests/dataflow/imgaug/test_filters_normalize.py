"""Normalized images against numpy."""

import numpy as np
import pytest

from tests.helpers.images import picture
from tpack.dataflow.imgaug.filters import MeanVarianceNormalize, MinMaxNormalize
from tpack.errors import ConfigError


def test_mean_becomes_zero_and_deviation_one(rng):
    found = MeanVarianceNormalize().augment(picture(rng))
    assert found.dtype == np.float32
    assert abs(found.mean()) < 1e-6
    assert abs(found.std() - 1) < 1e-6


def test_channels_may_be_normalized_each(rng):
    found = MeanVarianceNormalize(all_channel=False).augment(picture(rng) // 2 + np.array([0, 50, 100], np.uint8))
    np.testing.assert_allclose(found.mean(axis=(0, 1)), 0, atol=1e-6)
    np.testing.assert_allclose(found.std(axis=(0, 1)), 1, atol=1e-6)


@pytest.mark.parametrize("all_channel", [True, False])
def test_image_of_one_value_becomes_zeros(all_channel):
    image = np.full((4, 5, 3), 7, np.uint8)
    assert not MeanVarianceNormalize(all_channel).augment(image).any()


def test_small_deviation_is_taken_for_more():
    image = np.array([[0, 0.01]], np.float32)
    np.testing.assert_allclose(MeanVarianceNormalize().augment(image), (image - 0.005) * np.sqrt(2), rtol=1e-5)


@pytest.mark.parametrize("all_channel", [True, False])
def test_least_and_greatest_become_those_given(all_channel, rng):
    image = picture(rng) // 2 + np.array([0, 50, 100], np.uint8)
    found = MinMaxNormalize(-1, 3, all_channel).augment(image)
    assert found.dtype == np.float32
    axes = None if all_channel else (0, 1)
    np.testing.assert_allclose(found.min(axis=axes), -1, atol=1e-6)
    np.testing.assert_allclose(found.max(axis=axes), 3, atol=1e-6)
    low, high = image.min(axis=axes), image.max(axis=axes)
    np.testing.assert_allclose(found, (image - low.astype(float)) / (high - low) * 4 - 1, atol=1e-5)


def test_values_that_are_all_alike_become_the_least():
    assert (MinMaxNormalize(2, 5).augment(np.full((3, 3), 9, np.uint8)) == 2).all()


def test_limits_must_be_in_order():
    with pytest.raises(ConfigError, match="MinMaxNormalize got max=1"):
        MinMaxNormalize(3, 1)
