"""Blurring against a Gaussian written out."""

import numpy as np
import pytest

from tests.helpers.images import picture, seeded
from tpack.dataflow.imgaug.filters import GaussianBlur
from tpack.errors import ConfigError


def window(size, sigma):
    distances = np.arange(size) - size // 2
    values = np.exp(-(distances**2) / (2 * sigma**2))
    return values / values.sum()


def test_dot_becomes_the_window():
    image = np.zeros((21, 23), np.float32)
    image[10, 11] = 1
    augmentor = seeded(GaussianBlur((1, 4), (0.5, 2), symmetric=False))
    found, transform = augmentor.augment_return_params(image)
    (width, height), (sigma_x, sigma_y) = transform.params
    wanted = np.zeros((21, 23))
    wanted[10 - height // 2 : 11 + height // 2, 11 - width // 2 : 12 + width // 2] = np.outer(
        window(height, sigma_y), window(width, sigma_x)
    )
    assert width != height
    np.testing.assert_allclose(found, wanted, atol=1e-5)


def test_symmetric_windows_are_squares(rng):
    augmentor = seeded(GaussianBlur((0, 9), (0, 3)))
    for _ in range(10):
        (width, height), (sigma_x, sigma_y) = augmentor.get_transform(picture(rng)).params
        assert (width, sigma_x) == (height, sigma_y)
        assert width in range(1, 18, 2)


def test_size_of_zero_blurs_nothing(rng):
    image = picture(rng)
    np.testing.assert_array_equal(GaussianBlur((0, 1)).augment(image), image)


def test_max_size_is_the_end_of_the_range():
    assert GaussianBlur(max_size=7).size_range == (0, 7)


@pytest.mark.parametrize("sizes", [(2, 2), (0.5, 1.5), (-1, 2), 3])
def test_what_is_no_size_is_refused(sizes):
    with pytest.raises(ConfigError, match="GaussianBlur got size_range=.*: wanted"):
        GaussianBlur(sizes)
