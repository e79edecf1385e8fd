"""Augmentors of other libraries, by fakes that are called as they are."""

import copy

import numpy as np
import pytest

from tests.helpers.images import picture, seeded
from tpack.dataflow.imgaug.base import UnsupportedTransformError
from tpack.dataflow.imgaug.meta import Albumentations, IAAugmentor
from tpack.errors import ConfigError, DataPointError


class FakeCompose:
    """Shift the image by a random number of columns, in place, as a transform of albumentations may."""

    def set_random_seed(self, seed):
        self.rng = np.random.RandomState(seed)

    def __call__(self, *, image):
        image[...] = np.roll(image, self.rng.randint(1, 10), axis=1)
        return {"image": image}


class FakeAugmenter:
    """Shift by a random number of columns, as an augmenter of imgaug."""

    def seed_(self, entropy):
        self.rng = np.random.RandomState(entropy)

    def to_deterministic(self):
        fixed = copy.copy(self)
        fixed.amount = self.rng.randint(1, 10)
        return fixed

    def augment_image(self, image):
        return np.roll(image, self.amount, axis=1)

    def augment(self, *, image, keypoints):
        assert image.dtype == np.uint8
        return self.augment_image(image), [(x + self.amount, y) for x, y in keypoints]


@pytest.mark.parametrize("make", [lambda: Albumentations(FakeCompose()), lambda: IAAugmentor(FakeAugmenter())])
def test_seed_decides_and_the_image_is_not_changed(make, rng):
    image = picture(rng)
    before = image.copy()
    augmented, transform = seeded(make()).augment_return_params(image)
    np.testing.assert_array_equal(image, before)
    np.testing.assert_array_equal(transform.apply_image(image), augmented)
    np.testing.assert_array_equal(seeded(make()).augment(image), augmented)
    assert not np.array_equal(augmented, image)
    augmentor = seeded(make())
    assert len({augmentor.augment(image).tobytes() for _ in range(20)}) > 3


def test_transforms_of_imgaug_move_coordinates(rng):
    image, coords = picture(rng).astype(np.float32), np.array([[1.5, 2], [3, 4]], np.float32)
    transform = seeded(IAAugmentor(FakeAugmenter())).get_transform(image)
    moved = transform.apply_coords(coords)
    np.testing.assert_array_equal(moved, coords + [transform.augmentor.amount, 0])
    assert moved.dtype == np.float32
    assert transform.apply_coords(np.zeros((0, 2))).shape == (0, 2)
    with pytest.raises(DataPointError, match=r"expected coordinates \(x, y\), real"):
        transform.apply_coords(np.zeros(3))


def test_transforms_of_albumentations_refuse_coordinates(rng):
    transform = Albumentations(FakeCompose()).get_transform(picture(rng))
    with pytest.raises(UnsupportedTransformError, match="cannot change coordinates"):
        transform.apply_coords(np.zeros((1, 2)))


@pytest.mark.parametrize("augmentor", [3, lambda image: {"image": image}, np.random.RandomState()])
def test_what_is_no_albumentation_is_refused(augmentor):
    with pytest.raises(ConfigError, match=r"expected a transform with set_random_seed\(\), of version"):
        Albumentations(augmentor)


def test_what_is_no_augmenter_of_imgaug_is_refused():
    with pytest.raises(ConfigError, match="got a FakeCompose without seed_, to_deterministic, augment_image, augment:"):
        IAAugmentor(FakeCompose())
