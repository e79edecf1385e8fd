"""Augmentors that blur, add noise and normalise."""

import cv2
import numpy as np
import pytest

from tests.helpers.images import picture, seeded
from tpack.dataflow.imgaug.filters import (
    GaussianBlur,
    GaussianNoise,
    JpegNoise,
    MeanVarianceNormalize,
    MinMaxNormalize,
    SaltPepperNoise,
)
from tpack.errors import ConfigError, DataPointError


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
    with pytest.raises(ConfigError, match=r"GaussianBlur got size_range(\[\d\])?=.*: expected"):
        GaussianBlur(sizes)


def test_gaussian_noise_has_its_deviation():
    image = np.full((100, 100, 3), 100, np.float32)
    noise = seeded(GaussianNoise(5)).augment(image) - 100
    assert abs(noise.mean()) < 0.1
    assert abs(noise.std() - 5) < 0.1
    assert abs(np.corrcoef(noise[:, :, 0].ravel(), noise[:, :, 1].ravel())[0, 1]) < 0.05


def test_gaussian_noise_does_not_wrap_around():
    black = seeded(GaussianNoise(20)).augment(np.zeros((50, 50), np.uint8))
    assert black.max() < 128


def test_transform_serves_images_of_other_sizes(rng):
    transform = seeded(GaussianNoise(5)).get_transform(picture(rng))
    assert transform.apply_image(picture(rng, (3, 4))).shape == (3, 4)


def test_salt_and_pepper_are_as_probable_as_said():
    found = seeded(SaltPepperNoise(0.1, 0.2)).augment(np.full((200, 200, 3), 100, np.uint8))
    assert set(np.unique(found)) == {0, 100, 255}
    assert abs((found == 255).mean() - 0.1) < 0.01
    assert abs((found == 0).mean() - 0.2) < 0.01


def test_salt_and_pepper_may_be_all_or_nothing(rng):
    image = picture(rng)
    np.testing.assert_array_equal(SaltPepperNoise(0, 0).augment(image), image)
    assert (SaltPepperNoise(1, 0).augment(image) == 255).all()
    assert (SaltPepperNoise(0, 1).augment(image) == 0).all()


def test_more_than_all_is_refused():
    with pytest.raises(ConfigError, match="expected probabilities with a sum of at most 1"):
        SaltPepperNoise(0.6, 0.6)


@pytest.mark.parametrize("shape", [(24, 31), (24, 31, 1), (24, 31, 3)])
@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
def test_jpeg_noise_is_opencvs(shape, dtype, rng):
    image = picture(rng, shape)
    quality = np.random.RandomState(3).randint(40, 100)
    _, encoded = cv2.imencode(".jpg", image, [cv2.IMWRITE_JPEG_QUALITY, quality])
    wanted = cv2.imdecode(encoded, cv2.IMREAD_UNCHANGED).reshape(shape)
    found = seeded(JpegNoise()).augment(image.astype(dtype))
    assert found.dtype == dtype
    np.testing.assert_array_equal(found, wanted)


def test_jpeg_has_one_channel_or_three():
    with pytest.raises(DataPointError, match=r"shape \(4, 5, 2\): expected one channel or three"):
        JpegNoise().augment(np.zeros((4, 5, 2), np.uint8))


@pytest.mark.parametrize("limits", [(40, 40), (0.1, 0.9), (40, 200), 40])
def test_what_is_no_quality_is_refused(limits):
    with pytest.raises(ConfigError, match=r"JpegNoise got quality_range(\[\d\])?=.*: expected"):
        JpegNoise(limits)


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
