"""Mirrored and transposed images, and a marked pixel in them."""

import numpy as np
import pytest

from tests.helpers.images import marked_pixel, picture, seeded
from tpack.dataflow.imgaug.geometry import Flip, FlipTransform, Transpose, TransposeTransform
from tpack.errors import ConfigError, DataPointError

TRANSFORMS = {
    "left and right": (FlipTransform(5, 7), lambda img: img[:, ::-1]),
    "top and bottom": (FlipTransform(5, 7, horiz=False), lambda img: img[::-1]),
    "transpose": (TransposeTransform(), lambda img: img.swapaxes(0, 1)),
}
every = pytest.mark.parametrize(("transform", "oracle"), TRANSFORMS.values(), ids=TRANSFORMS)


@every
@pytest.mark.parametrize("channels", [(), (1,), (3,), (6,)])
def test_pixels_are_exchanged(transform, oracle, channels, rng):
    image = picture(rng, (5, 7, *channels))
    np.testing.assert_array_equal(transform.apply_image(image), oracle(image))


@every
@pytest.mark.parametrize(("row", "column"), [(0, 0), (0, 6), (4, 0), (2, 5)])
def test_marked_pixel_is_where_its_coordinates_are(transform, oracle, row, column):
    moved = transform.apply_image(marked_pixel(5, 7, row, column))
    (x, y) = transform.apply_coords(np.array([[column + 0.5, row + 0.5]]))[0]
    assert np.argwhere(moved).tolist() == [[int(y), int(x)]]


@every
def test_box_around_the_image_is_around_it_after(transform, oracle):
    moved = transform.apply_box(np.array([[0.0, 0, 7, 5]]))
    height, width = oracle(np.zeros((5, 7))).shape
    assert moved.tolist() == [[0, 0, width, height]]


@every
def test_twice_is_nothing(transform, oracle, rng):
    coords = rng.random((4, 2))
    np.testing.assert_allclose(transform.apply_coords(transform.apply_coords(coords)), coords)


@pytest.mark.parametrize(
    "augmentor",
    [Flip(horiz=True, prob=0.3), Flip(vert=True, prob=0.3), Transpose(0.3)],
    ids=["horiz", "vert", "transpose"],
)
def test_chance_is_as_said(augmentor, rng):
    image = picture(rng, (5, 7))
    seeded(augmentor)
    changed = [not np.array_equal(augmentor.augment(image), image) for _ in range(1000)]
    assert abs(np.mean(changed) - 0.3) < 0.05


@pytest.mark.parametrize("options", [{}, {"horiz": True, "vert": True}])
def test_flip_has_one_direction(options):
    with pytest.raises(ConfigError, match="expected one of them; use two Flips for both"):
        Flip(**options)


@pytest.mark.parametrize("make", [lambda: Flip(horiz=True, prob=2), lambda: Transpose(-1)])
def test_what_is_no_probability_is_refused(make):
    with pytest.raises(ConfigError, match="expected a number of at least 0 and of at most 1"):
        make()


def test_image_of_another_size_is_refused(rng):
    with pytest.raises(DataPointError, match=r"image of shape \(24, 31, 3\): expected height 5, width 7"):
        FlipTransform(5, 7).apply_image(picture(rng))
