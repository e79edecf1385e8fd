"""Resized images against means written out, and the sizes that come out."""

import cv2
import numpy as np
import pytest

from tests.helpers.images import picture, seeded
from tpack.dataflow.imgaug.resize import RandomResize, Resize, ResizeShortestEdge, ResizeTransform
from tpack.errors import ConfigError, DataPointError


def sizes(augmentor, image, count=50):
    return {augmentor.get_transform(image).apply_image(image).shape[1::-1] for _ in range(count)}


def test_half_the_size_by_area_is_the_mean_of_four(rng):
    image = picture(rng, (8, 12, 3), np.float32)
    found = Resize((4, 6), cv2.INTER_AREA).augment(image)
    np.testing.assert_allclose(found, image.reshape(4, 2, 6, 2, 3).mean(axis=(1, 3)), atol=1e-3)


def test_twice_the_size_by_nearest_repeats(rng):
    image = picture(rng, (4, 5))
    found = Resize((8, 10), cv2.INTER_NEAREST).augment(image)
    np.testing.assert_array_equal(found, image.repeat(2, axis=0).repeat(2, axis=1))


def test_linear_lies_between_the_neighbours():
    ramp = np.arange(10, dtype=np.float32)[np.newaxis].repeat(3, axis=0)
    # A pixel with value v has its middle at v + 0.5; twice as large it is at 2 v + 1.
    found = Resize((3, 20)).augment(ramp)
    np.testing.assert_allclose(found[:, 1:-1], np.broadcast_to((np.arange(1, 19) + 0.5) / 2 - 0.5, (3, 18)), atol=1e-5)


def test_shape_is_height_and_width(rng):
    assert Resize((7, 9)).augment(picture(rng)).shape == (7, 9, 3)
    assert Resize(7).augment(picture(rng)).shape == (7, 7, 3)


def test_coordinates_are_scaled():
    moved = ResizeTransform(10, 20, 5, 60, 1).apply_coords(np.array([[20.0, 10], [0, 0], [10, 1]]))
    assert moved.tolist() == [[60, 5], [0, 0], [30, 0.5]]


def test_image_of_another_size_is_refused(rng):
    with pytest.raises(
        DataPointError,
        match=r"ResizeTransform\(h=10, w=20, new_h=5, new_w=5, interp=1\) got an image of shape \(24, 31, 3\)",
    ):
        ResizeTransform(10, 20, 5, 5, 1).apply_image(picture(rng))


@pytest.mark.parametrize(
    ("shape", "expected"), [((10, 20), (5, 10)), ((20, 10), (10, 5)), ((9, 9), (5, 5)), ((3, 7), (5, 12))]
)
def test_shortest_edge_keeps_the_aspect_ratio(shape, expected, rng):
    assert ResizeShortestEdge(5).augment(picture(rng, shape)).shape == expected


@pytest.mark.parametrize("size", [(5, 6), 0, "a"])
def test_shortest_edge_is_one_number(size):
    with pytest.raises(ConfigError, match="ResizeShortestEdge got size="):
        ResizeShortestEdge(size)


def test_factors_are_floats_and_pixels_integers(rng):
    image = picture(rng, (40, 60, 3))
    for width, height in sizes(seeded(RandomResize((0.5, 1.5), aspect_ratio_thres=0.15)), image):
        assert 30 <= width <= 90
        assert 20 <= height <= 60
        assert abs(width / height * 40 / 60 - 1) <= 0.15 + 1e-9
    for width, height in sizes(seeded(RandomResize((50, 70), (35, 45), aspect_ratio_thres=0.3)), image):
        assert 50 <= width <= 70
        assert 35 <= height <= 45


def test_height_follows_from_the_width(rng):
    found = sizes(seeded(RandomResize((0.5, 1.5), (3.0, 4.0), aspect_ratio_thres=0)), picture(rng, (40, 60)))
    assert len(found) > 10
    assert all(abs(height - width * 40 / 60) <= 1 for width, height in found)


def test_minimum_is_width_and_height(rng):
    found = sizes(seeded(RandomResize((0.1, 0.2), minimum=(30, 25), aspect_ratio_thres=9)), picture(rng, (40, 60)))
    assert found == {(30, 25)}


def test_image_stays_if_no_size_will_do(rng, log_dir):
    augmentor = seeded(RandomResize((0.1, 0.2), (1.0, 2.0), aspect_ratio_thres=0.01))
    assert sizes(augmentor, picture(rng, (40, 60)), 1) == {(60, 40)}
    assert "found no size for an image of 40 x 60 in 50 trials" in (log_dir / "log.log").read_text()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"yrange": (30, 40)}, "expected floats in both, or integers in both"),
        ({"aspect_ratio_thres": -1}, "got aspect_ratio_thres=-1"),
        ({"yrange": (2.0, 1.0)}, "got yrange="),
    ],
)
def test_options_that_do_not_go_together_are_refused(options, message):
    with pytest.raises(ConfigError, match=message):
        RandomResize((0.5, 1.5), **options)
