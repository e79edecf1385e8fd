"""The crop that classifiers are trained with: the areas, shapes and places that it draws."""

import cv2
import numpy as np
import pytest

from tests.helpers.images import picture, seeded
from tpack.dataflow.imgaug.crop import GoogleNetRandomCropAndResize
from tpack.errors import ConfigError


def rectangles(augmentor, image, count=400):
    return [augmentor.get_transform(image).tfms[0] for _ in range(count)]


def test_areas_and_shapes_are_those_said(rng):
    found = rectangles(seeded(GoogleNetRandomCropAndResize((0.2, 0.6), (0.75, 4 / 3))), picture(rng, (200, 240)))
    areas = np.array([tfm.h * tfm.w for tfm in found]) / (200 * 240)
    ratios = np.array([tfm.w / tfm.h for tfm in found])
    assert 0.19 < areas.min() < 0.25
    assert 0.55 < areas.max() < 0.61
    assert ratios.min() > 0.74
    assert ratios.max() < 1.35
    assert abs(np.log(ratios).mean()) < 0.05


def test_every_place_is_reached(rng):
    found = rectangles(seeded(GoogleNetRandomCropAndResize((0.2, 0.6))), picture(rng, (40, 50)))
    assert {tfm.y0 for tfm in found} >= {0, 5, 10}
    assert max(tfm.y0 + tfm.h for tfm in found) == 40
    assert max(tfm.x0 + tfm.w for tfm in found) == 50


def test_what_comes_out_is_the_rectangle_resized(rng):
    image = picture(rng)
    found, transform = seeded(GoogleNetRandomCropAndResize(target_shape=(9, 11))).augment_return_params(image)
    crop = transform.tfms[0]
    part = image[crop.y0 : crop.y0 + crop.h, crop.x0 : crop.x0 + crop.w]
    np.testing.assert_array_equal(found, cv2.resize(part, (11, 9)))


@pytest.mark.parametrize(("shape", "expected"), [((200, 10), (95, 0, 10, 10)), ((10, 200), (0, 95, 10, 10))])
def test_middle_is_taken_if_no_rectangle_fits(shape, expected, rng):
    (crop,) = rectangles(seeded(GoogleNetRandomCropAndResize((1, 1), target_shape=20)), picture(rng, shape), 1)
    assert (crop.y0, crop.x0, crop.h, crop.w) == expected


def test_tiny_images_are_augmented(rng):
    augmentor = seeded(GoogleNetRandomCropAndResize(target_shape=4))
    for shape in [(1, 1), (1, 2), (2, 1), (1, 300)]:
        assert augmentor.augment(picture(rng, shape)).shape == (4, 4)


@pytest.mark.parametrize(
    "options",
    [
        {"crop_area_fraction": (0, 1)},
        {"crop_area_fraction": (0.1, 2)},
        {"aspect_ratio_range": (2, 1)},
        {"target_shape": 0},
    ],
)
def test_what_is_no_range_is_refused(options):
    with pytest.raises(ConfigError, match=rf"got {next(iter(options))}(\[\d\])?="):
        GoogleNetRandomCropAndResize(**options)
