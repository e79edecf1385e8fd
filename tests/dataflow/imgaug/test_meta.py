"""Augmentors that use others."""

import numpy as np
import pytest

from tests.helpers.images import picture, seeded
from tpack.dataflow.imgaug.base import ImageAugmentor, UnsupportedTransformError
from tpack.dataflow.imgaug.crop import RandomCrop
from tpack.dataflow.imgaug.geometry import Flip
from tpack.dataflow.imgaug.meta import Identity, MapImage, RandomApplyAug, RandomChooseAug, RandomOrderAug, _Choice
from tpack.dataflow.imgaug.resize import Resize
from tpack.errors import ConfigError

BLACK = np.zeros((4, 5), np.float32)


def plus(amount):
    return MapImage(lambda img: img + amount)


def times(factor):
    return MapImage(lambda img: img * factor)


def test_identity_returns_the_image():
    assert Identity().augment(BLACK) is BLACK


def test_function_is_called_on_the_image(rng):
    image = picture(rng)
    np.testing.assert_array_equal(MapImage(np.flipud).augment(image), image[::-1])


def test_function_may_have_one_for_coordinates():
    augmentor = MapImage(np.flipud, lambda coords: coords + 1)
    assert augmentor.get_transform(BLACK).apply_coords(np.zeros((1, 2))).tolist() == [[1, 1]]
    with pytest.raises(UnsupportedTransformError, match="MapImage.* cannot change coordinates"):
        MapImage(np.flipud).get_transform(BLACK).apply_coords(np.zeros((1, 2)))


@pytest.mark.parametrize("functions", [(3,), (np.flipud, 3)])
def test_what_is_no_function_is_refused(functions):
    with pytest.raises(ConfigError, match="MapImage got (coord_)?func=3: expected a function"):
        MapImage(*functions)


def test_apply_uses_the_augmentor_as_often_as_said():
    augmentor = seeded(RandomApplyAug(plus(1), 0.3))
    used = [augmentor.augment(BLACK).max() for _ in range(1000)]
    assert set(used) == {0, 1}
    assert abs(np.mean(used) - 0.3) < 0.05


def test_apply_never_and_always():
    assert RandomApplyAug(plus(1), 0).augment(BLACK).max() == 0
    assert RandomApplyAug(plus(1), 1).augment(BLACK).max() == 1


@pytest.mark.parametrize(("lists", "probs"), [([1, 2, 3], [1 / 3] * 3), ([(1, 0.6), (2, 0), (3, 0.4)], [0.6, 0, 0.4])])
def test_choose_uses_one_as_often_as_said(lists, probs):
    made = [(plus(item[0]), item[1]) if isinstance(item, tuple) else plus(item) for item in lists]
    augmentor = seeded(RandomChooseAug(made))
    used = np.array([augmentor.augment(BLACK).max() for _ in range(2000)])
    np.testing.assert_allclose([(used == k).mean() for k in (1, 2, 3)], probs, atol=0.04)


def test_probabilities_must_be_one():
    with pytest.raises(ConfigError, match=r"probabilities with the sum 0\.9: expected 1"):
        RandomChooseAug([(plus(1), 0.5), (plus(2), 0.4)])
    with pytest.raises(ConfigError, match=r"got aug_lists\[0\]\[1\]=2: expected a number"):
        RandomChooseAug([(plus(1), 2)])


def test_one_of_none_is_refused():
    with pytest.raises(ConfigError, match=r"RandomChooseAug got aug_lists=\[\]"):
        RandomChooseAug([])


def test_order_uses_all_in_every_order():
    augmentor = seeded(RandomOrderAug([plus(1), times(2), plus(10)]))
    found = {float(augmentor.augment(BLACK).max()) for _ in range(100)}
    # 1 and 10 before or after the doubling, in all six orders.
    assert found == {22.0, 12.0, 21.0, 11.0}


def test_transform_of_the_chosen_is_returned(rng):
    image = picture(rng)
    chosen = seeded(RandomChooseAug([Resize(9), RandomOrderAug([RandomCrop(12), Flip(horiz=True)])]))
    for _ in range(10):
        augmented, transform = chosen.augment_return_params(image)
        np.testing.assert_array_equal(transform.apply_image(image), augmented)
        assert chosen.get_transform(image).apply_image(image).shape in {(9, 9, 3), (12, 12, 3)}


@pytest.mark.parametrize(
    "make", [lambda: RandomApplyAug(3, 0.5), lambda: RandomChooseAug([3]), lambda: RandomOrderAug([3])]
)
def test_what_is_no_augmentor_is_refused(make):
    with pytest.raises(ConfigError, match=r"got aug(_lists\[0\])?=3: expected an ImageAugmentor"):
        make()


def test_choice_without_a_choice_is_refused():
    with pytest.raises(UnsupportedTransformError, match=r"_Choice has no _choose\(\)"):
        _Choice().augment(BLACK)
    assert issubclass(_Choice, ImageAugmentor)
