"""The generators of augmentors, kept and given back."""

import numpy as np
import pytest

from tests.helpers.images import picture
from tpack.dataflow.imgaug.base import (
    AugmentorList,
    generator_states,
    read_generator_states,
    seed_generators,
    set_generators,
)
from tpack.dataflow.imgaug.colors import Brightness
from tpack.dataflow.imgaug.filters import GaussianNoise
from tpack.dataflow.imgaug.geometry import Flip
from tpack.dataflow.imgaug.meta import RandomApplyAug, RandomChooseAug, RandomOrderAug
from tpack.errors import InputError
from tpack.utils import serialize


def make():
    choose = RandomChooseAug([(GaussianNoise(9), 0.5), (Flip(vert=True), 0.5)])
    return AugmentorList([RandomApplyAug(Flip(horiz=True), 0.5), RandomOrderAug([Brightness(20), choose])])


def test_other_augmentors_go_on_with_the_same_numbers(rng):
    image, first = picture(rng), make()
    first.augment(image)
    states = serialize.loads(serialize.dumps(generator_states(first)))
    expected = [first.augment(image) for _ in range(5)]
    second = make()
    set_generators(second, read_generator_states(second, states))
    for image_expected in expected:
        np.testing.assert_array_equal(second.augment(image), image_expected)


def test_states_share_nothing_with_the_generators():
    flip = Flip(horiz=True)
    states = generator_states(flip)
    kept = states[0][1].copy()
    flip.rng.rand(1000)
    np.testing.assert_array_equal(states[0][1], kept)


def test_augmentor_in_two_places_counts_once():
    flip = Flip(horiz=True)
    assert len(generator_states(AugmentorList([flip, RandomApplyAug(flip, 0.5), flip]))) == 3


@pytest.mark.parametrize(
    ("states", "message"),
    [
        ([], "got 0 states: expected 1"),
        (3, "the augmentors got a int: expected"),
        ([None], "got state=None: expected 'MT19937', 624 keys of uint32"),
    ],
)
def test_other_states_are_refused(states, message):
    with pytest.raises(InputError, match=message):
        read_generator_states(Flip(horiz=True), states)


def test_a_seed_decides_all_that_comes_next(rng):
    image, first, second = picture(rng), make(), make()
    results = []
    for augmentors in (first, second, first):
        seed_generators(augmentors, 2**32 - 1)
        results.append([augmentors.augment(image) for _ in range(4)])
    for others in results[1:]:
        np.testing.assert_array_equal(results[0], others)
    seed_generators(first, 3)
    assert not np.array_equal(results[0], [first.augment(image) for _ in range(4)])
