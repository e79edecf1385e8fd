"""Augmentors of one's own, in the new style and in the old."""

import copy
import os
import pickle

import numpy as np
import pytest

from tests.helpers.images import picture
from tpack.dataflow.imgaug.base import ImageAugmentor, UnsupportedTransformError
from tpack.dataflow.imgaug.crop import CropTransform
from tpack.dataflow.imgaug.meta import RandomApplyAug
from tpack.utils.rng import fix_rng_seed


class NewStyle(ImageAugmentor):
    def get_transform(self, img):
        return CropTransform(self.rng.randint(3), 0, 4, 5)


class OldStyle(ImageAugmentor):
    def __init__(self, amount, _hidden=3):
        super().__init__()
        self._init(locals())

    def _get_augment_params(self, img):
        return int(self._rand_range(self.amount))

    def _augment(self, img, param):
        return img + param

    def _augment_coords(self, coords, param):
        coords[:, 0] += param
        return coords


class Holder(ImageAugmentor):
    def __init__(self, one, many):
        self.one = one
        self.many = many
        self.name = "holder"


@pytest.fixture(autouse=True)
def no_seed():
    yield
    fix_rng_seed(None)


def draw(rng):
    return np.random.RandomState(rng.randint(2**31)).randint(2**31, size=4).tolist()


def test_new_style_needs_get_transform_only(rng):
    image, augmentor = picture(rng), NewStyle()
    augmented, transform = augmentor.augment_return_params(image)
    np.testing.assert_array_equal(augmented, image[transform.y0 : transform.y0 + 4, :5])
    np.testing.assert_array_equal(augmentor.augment_with_params(image, transform), augmented)
    np.testing.assert_array_equal(augmentor.augment_coords(np.zeros((1, 2)), transform), [[0, -transform.y0]])
    assert augmentor.augment(image).shape == (4, 5, 3)


def test_old_style_works_and_keeps_its_arguments(rng):
    image, augmentor = picture(rng).astype(np.float32), OldStyle(amount=100)
    assert augmentor.amount == 100
    assert not hasattr(augmentor, "_hidden")
    augmented, transform = augmentor.augment_return_params(image)
    np.testing.assert_array_equal(augmented, image + transform.params)
    np.testing.assert_array_equal(transform.apply_image(image), augmented)
    assert len({augmentor.get_transform(image).params for _ in range(20)}) > 5


def test_old_style_moves_coordinates_without_changing_the_callers():
    coords, transform = np.zeros((2, 2)), OldStyle(100).get_transform(np.zeros((3, 3)))
    np.testing.assert_array_equal(transform.apply_coords(coords), [[transform.params, 0]] * 2)
    assert not coords.any()


def test_old_style_without_coordinates_refuses_them():
    class NoCoords(ImageAugmentor):
        def _augment(self, img, param):
            assert param is None
            return img

    transform = NoCoords().get_transform(np.zeros((3, 3)))
    with pytest.raises(UnsupportedTransformError, match="cannot change coordinates"):
        transform.apply_coords(np.zeros((1, 2)))


def test_old_style_may_return_a_transform(rng):
    class Cropping(OldStyle):
        def _get_augment_params(self, img):
            return CropTransform(0, 0, 2, 2)

    assert Cropping(1).augment(picture(rng)).shape == (2, 2, 3)


def test_base_itself_is_no_augmentor():
    with pytest.raises(UnsupportedTransformError, match="ImageAugmentor has no get_transform"):
        ImageAugmentor().get_transform(np.zeros((2, 2)))


def test_generator_is_there_without_reset_and_anew_after_it():
    augmentor = NewStyle()
    first = augmentor.rng
    assert augmentor.rng is first
    augmentor.reset_state()
    assert augmentor.rng is not first


def test_generator_does_not_go_to_other_processes():
    augmentor = NewStyle()
    first = augmentor.rng
    for other in (pickle.loads(pickle.dumps(augmentor)), copy.deepcopy(augmentor)):
        assert draw(other.rng) != draw(first)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_generator_is_not_forked():
    augmentor = NewStyle()
    augmentor.reset_state()
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(writer, repr(draw(augmentor.rng)).encode())
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    os.close(writer)
    with open(reader, encoding="utf-8") as pipe:
        assert pipe.read() != repr(draw(augmentor.rng))


def test_fixed_seed_repeats_and_augmentors_differ():
    drawn = []
    for _ in range(2):
        fix_rng_seed(5)
        pair = [NewStyle(), NewStyle()]
        for augmentor in pair:
            augmentor.reset_state()
        drawn.append([augmentor.rng.randint(2**31) for augmentor in pair])
    assert drawn[0] == drawn[1]
    assert drawn[0][0] != drawn[0][1]


def test_parts_are_found_wherever_they_are_kept_and_reset():
    parts = [NewStyle() for _ in range(4)]
    holder = Holder(parts[0], {"a": [parts[1], (parts[2], 0.5)], "b": RandomApplyAug(parts[3], 0.5)})
    assert holder.parts()[:3] == parts[:3]
    before = [part.rng for part in parts]
    holder.reset_state()
    assert all(part.rng is not rng for part, rng in zip(parts, before, strict=True))


def test_rand_range_has_its_ways_of_calling():
    augmentor = NewStyle()
    augmentor.rng = np.random.RandomState(0)
    expected = np.random.RandomState(0)
    assert augmentor._rand_range() == expected.uniform(0, 1)
    assert augmentor._rand_range(5) == expected.uniform(0, 5)
    np.testing.assert_array_equal(augmentor._rand_range(2, 5, (2, 3)), expected.uniform(2, 5, (2, 3)))


def test_repr_names_the_arguments():
    assert repr(OldStyle(7)) == "OldStyle(amount=7)"
