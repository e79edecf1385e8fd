"""Augmentors in a row."""

import numpy as np
import pytest

from tests.helpers.images import picture, seeded
from tpack.dataflow.imgaug.base import AugmentorList, ImageAugmentor, TransformList, check_augmentor
from tpack.dataflow.imgaug.crop import RandomCrop
from tpack.dataflow.imgaug.geometry import Flip
from tpack.dataflow.imgaug.meta import Identity, MapImage
from tpack.dataflow.imgaug.resize import Resize
from tpack.errors import ConfigError


def make():
    return seeded(AugmentorList([Resize(20), RandomCrop(10), Flip(horiz=True), RandomCrop(5)]))


def test_three_ways_to_augment_are_one(rng):
    image = picture(rng)
    augmented, transform = make().augment_return_params(image)
    assert augmented.shape == (5, 5, 3)
    np.testing.assert_array_equal(make().augment(image), augmented)
    np.testing.assert_array_equal(make().get_transform(image).apply_image(image), augmented)
    np.testing.assert_array_equal(transform.apply_image(image), augmented)
    assert len(transform) == 4


def test_each_change_is_made_once(rng):
    calls = []
    counted = MapImage(lambda img: calls.append(1) or img)
    AugmentorList([counted, Identity(), counted]).augment_return_params(picture(rng))
    assert len(calls) == 2


def test_last_change_is_not_made_to_decide(rng):
    calls = []
    counted = MapImage(lambda img: calls.append(1) or img)
    AugmentorList([counted, counted]).get_transform(picture(rng))
    assert len(calls) == 1


def test_list_of_none_changes_nothing(rng):
    image, augmentors = picture(rng), AugmentorList([])
    assert augmentors.augment(image) is image
    assert isinstance(augmentors.get_transform(image), TransformList)


def test_lists_hold_lists(rng):
    image = picture(rng)
    nested = AugmentorList([AugmentorList([Resize(20), Identity()]), Resize(7)])
    assert nested.augment(image).shape == (7, 7, 3)
    assert len(nested.get_transform(image)) == 3


def test_reset_reaches_all():
    augmentors = make()
    before = [part.rng for part in augmentors.augmentors]
    augmentors.reset_state()
    assert all(part.rng is not rng for part, rng in zip(augmentors.augmentors, before, strict=True))


def test_what_is_no_augmentor_is_refused():
    with pytest.raises(ConfigError, match=r"AugmentorList got augmentors\[1\]=the function .*: expected an Image"):
        AugmentorList([Identity(), lambda img: img])
    with pytest.raises(ConfigError, match="object got aug=the class .*: expected an ImageAugmentor"):
        check_augmentor(object(), "aug", ImageAugmentor)
