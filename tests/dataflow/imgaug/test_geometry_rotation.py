"""Rotated images, and the rectangle inside of which everything is image."""

import math

import cv2
import numpy as np
import pytest

from tests.helpers.images import picture, seeded
from tpack.dataflow.imgaug.geometry import Rotation, RotationAndCropValid
from tpack.errors import ConfigError

BLACK = np.zeros((40, 50), np.uint8)


def degrees_of(tfm):
    return np.rad2deg(np.arctan2(tfm.mat[0, 1], tfm.mat[0, 0]))


def test_rotation_is_opencvs_around_the_point():
    augmentor = seeded(Rotation(30, (0.2, 0.8)))
    expected = np.random.RandomState(3)
    center, degrees = expected.uniform(0.2, 0.8, 2) * (50, 40), expected.uniform(-30, 30)
    wanted = cv2.getRotationMatrix2D(tuple(center - 0.5), degrees, 1)
    np.testing.assert_allclose(augmentor.get_transform(BLACK).mat, wanted, atol=1e-9)


def test_positive_degrees_turn_to_the_left(rng):
    image = picture(rng, (9, 9))
    augmentor = Rotation(90, (0.5, 0.5), step_deg=90)
    turned = {degrees_of(tfm).round(): tfm for tfm in (augmentor.get_transform(image) for _ in range(50))}
    assert set(turned) == {-90, 0, 90}
    for quarter in (-1, 0, 1):
        np.testing.assert_array_equal(turned[90 * quarter].apply_image(image), np.rot90(image, quarter))


@pytest.mark.parametrize("kind", [Rotation, RotationAndCropValid])
def test_steps_reach_the_greatest_angle_on_both_sides(kind):
    augmentor = seeded(kind(30, step_deg=15))
    found = [degrees_of(augmentor.get_transform(BLACK)).round(6) for _ in range(500)]
    assert set(found) == {-30, -15, 0, 15, 30}
    assert min(found.count(degrees) for degrees in set(found)) > 60


@pytest.mark.parametrize(("width", "height"), [(50, 40), (40, 50), (100, 10), (33, 33)])
@pytest.mark.parametrize("degrees", [0, 1, 17, 44.9, 45, 60, 89, 90, 133, 180, -25])
def test_largest_rectangle_is_inside_and_none_larger_is(width, height, degrees):
    found_width, found_height = RotationAndCropValid.largest_rotated_rect(width, height, degrees)
    sin, cos = abs(math.sin(math.radians(degrees))), abs(math.cos(math.radians(degrees)))

    def is_inside(w, h):
        """Whether the corners of an upright rectangle are in the rotated one."""
        return w * cos + h * sin <= width + 1e-6 and w * sin + h * cos <= height + 1e-6

    assert is_inside(found_width, found_height)
    # By brute force: the greatest area of all upright rectangles, of which rounding down takes a row and a column.
    widths = np.linspace(0, width + height, 3000)
    limits = [(width - widths * cos) / sin if sin > 1e-9 else np.where(widths <= width + 1e-9, np.inf, -1)]
    limits += [(height - widths * sin) / cos if cos > 1e-9 else np.where(widths <= height + 1e-9, np.inf, -1)]
    best = (widths * np.clip(np.minimum(*limits), 0, width + height)).max()
    assert (found_width + 1) * (found_height + 1) >= best * 0.995


@pytest.mark.parametrize("shape", [(40, 50), (41, 60, 3)])
def test_nothing_comes_in_from_outside(shape):
    white = np.full(shape, 200, np.uint8)
    augmentor = seeded(RotationAndCropValid(45))
    for _ in range(20):
        tfm = augmentor.get_transform(white)
        tfm.border_mode, tfm.border_value = 0, 0
        inner = tfm.apply_image(white)[1:-1, 1:-1]
        assert inner.min() == 200


def test_whole_turns_keep_the_image(rng):
    image = picture(rng, (12, 12))
    augmentor = seeded(RotationAndCropValid(90, step_deg=90))
    for _ in range(10):
        tfm = augmentor.get_transform(image)
        np.testing.assert_array_equal(tfm.apply_image(image), np.rot90(image, round(degrees_of(tfm) / 90)))


def test_quarter_turn_of_an_oblong_is_all_of_it_and_exact(rng):
    image = picture(rng, (4, 7))
    augmentor = seeded(RotationAndCropValid(90, step_deg=90))
    turned = [tfm for tfm in (augmentor.get_transform(image) for _ in range(20)) if degrees_of(tfm).round() == 90]
    np.testing.assert_array_equal(turned[0].apply_image(image), np.rot90(image))


@pytest.mark.parametrize("kind", [Rotation, RotationAndCropValid])
@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"max_deg": -1}, "max_deg"),
        ({"max_deg": 5, "step_deg": 0}, "step_deg"),
        ({"max_deg": 5, "step_deg": 6}, "step_deg"),
    ],
)
def test_what_is_no_angle_is_refused(kind, options, name):
    with pytest.raises(ConfigError, match=f"{kind.__name__} got {name}=.*: expected"):
        kind(**options)
