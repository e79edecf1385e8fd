"""Rectangles cut out of images."""

import numpy as np
import pytest

from tests.helpers.images import picture, seeded
from tpack.dataflow.imgaug.crop import CenterCrop, CropTransform, RandomCrop, RandomCropRandomShape
from tpack.errors import ConfigError, DataPointError


def crops(augmentor, image, count=300):
    """Return the rectangles that are drawn, after a look at what is cut out."""
    found = []
    for _ in range(count):
        augmented, tfm = augmentor.augment_return_params(image)
        np.testing.assert_array_equal(augmented, image[tfm.y0 : tfm.y0 + tfm.h, tfm.x0 : tfm.x0 + tfm.w])
        assert augmented.shape[:2] == (tfm.h, tfm.w)
        found.append((tfm.y0, tfm.x0, tfm.h, tfm.w))
    return found


def test_crop_counts_coordinates_from_its_corner():
    tfm = CropTransform(2, 3, 4, 5)
    assert tfm.apply_coords(np.array([[3.0, 2], [0, 0]])).tolist() == [[0, 0], [-3, -2]]
    assert tfm.apply_box(np.array([[3.0, 2, 8, 6]])).tolist() == [[0, 0, 5, 4]]


@pytest.mark.parametrize("corner", [(-1, 0), (0, -1), (21, 0), (0, 27)])
def test_crop_must_be_inside_the_image(corner, rng):
    with pytest.raises(DataPointError, match="expected one that holds the rectangle"):
        CropTransform(*corner, 4, 5).apply_image(picture(rng))


@pytest.mark.parametrize(
    ("shape", "expected"), [((4, 5), (10, 13, 4, 5)), (3, (10, 14, 3, 3)), ((24, 31), (0, 0, 24, 31))]
)
def test_center_crop_is_in_the_middle(shape, expected, rng):
    assert set(crops(CenterCrop(shape), picture(rng), 1)) == {expected}


def test_random_crop_reaches_every_place(rng):
    found = crops(seeded(RandomCrop((22, 28))), picture(rng))
    assert {(y0, x0) for y0, x0, _, _ in found} == {(y0, x0) for y0 in range(3) for x0 in range(4)}
    assert {(h, w) for _, _, h, w in found} == {(22, 28)}


def test_random_crop_of_the_whole_image_is_the_image(rng):
    assert set(crops(RandomCrop((24, 31)), picture(rng), 5)) == {(0, 0, 24, 31)}


@pytest.mark.parametrize("kind", [CenterCrop, RandomCrop])
def test_image_must_be_large_enough(kind, rng):
    with pytest.raises(DataPointError, match=r"shape \(24, 31, 3\): expected at least 25 x 31"):
        kind((25, 31)).augment(picture(rng))


def test_random_shapes_reach_all_sizes(rng):
    found = crops(seeded(RandomCropRandomShape(28, 22)), picture(rng), 500)
    assert {(h, w) for _, _, h, w in found} == {(h, w) for h in (22, 23, 24) for w in (28, 29, 30, 31)}
    assert {y0 for y0, _, h, _ in found if h == 22} == {0, 1, 2}


def test_random_shapes_have_limits(rng):
    found = crops(seeded(RandomCropRandomShape(3, 4, wmax=50, hmax=9)), picture(rng))
    assert {h for _, _, h, _ in found} == set(range(4, 10))
    assert min(w for *_, w in found) == 3
    assert max(w for *_, w in found) == 31


def test_random_shapes_have_an_aspect_ratio(rng):
    found = crops(seeded(RandomCropRandomShape(2, 2, max_aspect_ratio=1.5)), picture(rng))
    assert all(max(h, w) <= 1.5 * min(h, w) for *_, h, w in found)
    assert max(h for *_, h, _ in found) == 24


@pytest.mark.parametrize(
    "options", [{"wmin": 40, "hmin": 3}, {"wmin": 30, "hmin": 3, "hmax": 5, "max_aspect_ratio": 2}]
)
def test_image_must_hold_such_a_rectangle(options, rng):
    with pytest.raises(DataPointError, match="expected one that holds a rectangle"):
        RandomCropRandomShape(**options).augment(picture(rng))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"wmax": 2}, "expected wmin <= wmax and hmin"),
        ({"hmax": 2}, "hmin <= hmax"),
        ({"max_aspect_ratio": 0.5}, "max_aspect_ratio=0.5"),
    ],
)
def test_limits_must_be_in_order(options, message):
    with pytest.raises(ConfigError, match=message):
        RandomCropRandomShape(3, 3, **options)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: CenterCrop(0), "crop_shape=0: expected an integer of at least 1"),
        (lambda: RandomCrop((1, 2, 3)), r"crop_shape=\(1, 2, 3\): expected one integer, or height and width"),
        (lambda: RandomCropRandomShape(0, 1), "wmin=0: expected an integer of at least 1"),
    ],
)
def test_what_is_no_shape_is_refused(make, message):
    with pytest.raises(ConfigError, match=message):
        make()
