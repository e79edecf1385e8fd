"""A rectangle painted over."""

import numpy as np
import pytest

from tests.helpers.images import picture, seeded
from tpack.dataflow.imgaug.crop import RandomCutout
from tpack.errors import ConfigError, DataPointError


def test_rectangle_is_filled_and_the_rest_stays(rng):
    image, augmentor = picture(rng), seeded(RandomCutout(5, (3, 8), fill=7))
    for _ in range(20):
        found, transform = augmentor.augment_return_params(image)
        y0, x0, height, width = transform.params
        wanted = image.copy()
        wanted[y0 : y0 + height, x0 : x0 + width] = 7
        np.testing.assert_array_equal(found, wanted)


def test_every_place_and_size_is_reached(rng):
    augmentor, image = seeded(RandomCutout((22, 25), 31)), picture(rng)
    found = {augmentor.get_transform(image).params for _ in range(200)}
    assert found == {(y0, 0, height, 31) for height in (22, 23, 24) for y0 in range(25 - height)}


def test_each_channel_may_have_its_value(rng):
    assert RandomCutout(24, 31, (1, 2, 3)).augment(picture(rng))[0, 0].tolist() == [1, 2, 3]


@pytest.mark.parametrize(("fill", "expected"), [(300, 255), (-1, 0), (7.6, 8)])
def test_value_is_limited_to_what_bytes_can_hold(fill, expected, rng):
    assert (RandomCutout(24, 31, fill).augment(picture(rng)) == expected).all()
    assert (RandomCutout(24, 31, fill).augment(picture(rng, dtype=np.float32)) == np.float32(fill)).all()


def test_rectangle_must_fit_into_the_image(rng):
    with pytest.raises(DataPointError, match="least 25 x 3"):
        RandomCutout(25, 3).augment(picture(rng))


@pytest.mark.parametrize("edge", [0, 1.5, (3, 3), (0, 3), (1, 2, 3), "a"])
def test_what_is_no_edge_is_refused(edge):
    with pytest.raises(ConfigError, match="RandomCutout got w_range="):
        RandomCutout(3, edge)
