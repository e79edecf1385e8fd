"""Noise: how much of it, of which kind, and the same again."""

import cv2
import numpy as np
import pytest

from tests.helpers.images import picture, seeded
from tpack.dataflow.imgaug.filters import GaussianNoise, JpegNoise, SaltPepperNoise
from tpack.errors import ConfigError, DataPointError


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
    with pytest.raises(ConfigError, match="wanted probabilities that are at most 1 together"):
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
    with pytest.raises(DataPointError, match=r"shape \(4, 5, 2\): wanted one channel or three"):
        JpegNoise().augment(np.zeros((4, 5, 2), np.uint8))


@pytest.mark.parametrize("limits", [(40, 40), (0.1, 0.9), (40, 200), 40])
def test_what_is_no_quality_is_refused(limits):
    with pytest.raises(ConfigError, match="JpegNoise got quality_range=.*: wanted"):
        JpegNoise(limits)
