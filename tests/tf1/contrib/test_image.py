"""Transforms of images, against numpy; all of them were compared with TensorFlow 1.15."""

import numpy as np
import pytest

import tpack.tf1 as tf
from tpack.errors import ConfigError, WrongTypeError

image = tf.contrib.image
RANDOM = np.random.RandomState(0)
IMAGES = RANDOM.rand(2, 5, 5, 3).astype("f")


@pytest.fixture(autouse=True)
def _in_a_graph(graph):
    return graph


def run(*fetches):
    with tf.Session() as session:
        return session.run(list(fetches))


def moved(array, dx, dy):
    """Return an image moved to the right and down, with zeros behind."""
    result = np.zeros_like(array)
    height, width = array.shape[:2]
    result[dy:, dx:] = array[: height - dy, : width - dx]
    return result


def test_images_rotate():
    quarter = image.rotate(IMAGES, np.pi / 2, "BILINEAR")
    each = image.rotate(IMAGES, [np.pi / 2, np.pi])
    plain = image.rotate((IMAGES[0, :, :, 0] * 255).astype("u1"), -np.pi / 2)
    unknown = image.rotate(tf.placeholder_with_default(IMAGES, [None, None, None, 3]), np.pi / 2)
    found = run(quarter, each, plain, unknown)
    np.testing.assert_allclose(found[0], np.rot90(IMAGES, 1, (1, 2)), atol=1e-5)
    np.testing.assert_array_equal(found[1], [np.rot90(IMAGES[0]), np.rot90(IMAGES[1], 2)])
    np.testing.assert_array_equal(found[2], np.rot90((IMAGES[0, :, :, 0] * 255).astype("u1"), -1))
    np.testing.assert_array_equal(found[3], np.rot90(IMAGES, 1, (1, 2)))
    assert (quarter.shape.as_list(), plain.shape.as_list()) == ([2, 5, 5, 3], [5, 5])


def test_images_move():
    all_alike, each = image.translate(IMAGES, [1.0, 2.0]), image.translate(IMAGES, [[1, 0], [0, 3]])
    found = run(all_alike, each)
    np.testing.assert_array_equal(found[0], [moved(array, 1, 2) for array in IMAGES])
    np.testing.assert_array_equal(found[1], [moved(IMAGES[0], 1, 0), moved(IMAGES[1], 0, 3)])


def test_transforms_are_composed_and_have_gradients():
    left = image.translations_to_projective_transforms([1, 2])
    right = image.angles_to_projective_transforms([np.pi / 2], 5, 5)
    images = tf.constant(IMAGES)
    both = image.transform(images, image.compose_transforms(left, right), output_shape=[4, 6])
    one_by_one = image.rotate(image.translate(images, [1, 2]), np.pi / 2)
    gradient = tf.gradients(image.transform(images, left, "BILINEAR"), images)[0]
    back = image.matrices_to_flat_transforms(2 * image.flat_transforms_to_matrices(right))
    found = run(both, one_by_one, gradient, back, right)
    assert both.shape.as_list() == [2, 4, 6, 3]
    np.testing.assert_array_equal(found[0][:, :, :5], found[1][:, :4])
    np.testing.assert_allclose(found[2][:, :3, :4], 1)
    assert not found[2][:, 3:].any()
    np.testing.assert_allclose(found[3], found[4], atol=1e-6)


def test_images_are_warped():
    flow = np.zeros((2, 5, 5, 2), "f")
    flow[..., 0], flow[..., 1] = 0.5, -1
    found = run(image.dense_image_warp(IMAGES, flow), image.dense_image_warp(IMAGES, 0 * flow))
    rows = IMAGES[:, [0, 0, 1, 2, 3]] / 2 + IMAGES / 2
    np.testing.assert_allclose(found[0], rows[:, :, [1, 2, 3, 4, 4]], atol=1e-6)
    np.testing.assert_allclose(found[1], IMAGES, atol=1e-6)


def test_colours_turn():
    grey = np.full((4, 4, 3), 0.5, "f")
    found = run(
        image.adjust_hsv_in_yiq(IMAGES, 2 * np.pi),
        image.adjust_hsv_in_yiq(IMAGES, 0, 1, 0.5),
        image.adjust_hsv_in_yiq(grey, 1.0, 2.0),
        image.adjust_hsv_in_yiq(IMAGES, 0, 0),
        image.adjust_hsv_in_yiq(np.full((2, 2, 3), 200, "u1"), 0, 1, 2),
        image.random_hsv_in_yiq(grey, 1.0, 0.5, 2.0, 0.5, 0.8, seed=1),
    )
    np.testing.assert_allclose(found[0], IMAGES, atol=2e-3)
    np.testing.assert_allclose(found[1], IMAGES / 2, atol=1e-5)
    np.testing.assert_allclose(found[2], grey, atol=1e-3)
    brightness = IMAGES @ np.array([0.299, 0.587, 0.114])
    np.testing.assert_allclose(found[3], np.repeat(brightness[..., None], 3, 3), atol=1e-3)
    assert (found[4] == 255).all()
    assert 0.25 <= found[5].mean() <= 0.4


def test_what_cannot_be_transformed_is_refused():
    with pytest.raises(ConfigError, match="got interpolation='CUBIC': expected 'NEAREST' or 'BILINEAR'"):
        image.transform(IMAGES, [1.0] * 8, "CUBIC")
    with pytest.raises(ConfigError, match=r"got transforms of shape \(\): expected \[8\]"):
        image.transform(IMAGES, 1.0)
    with pytest.raises(WrongTypeError, match="got images of int8: expected one of uint8"):
        image.rotate(IMAGES.astype("i1"), 1.0)
    with pytest.raises(WrongTypeError, match=r"got images of shape \(1, 2, 5, 5, 3\): expected \[B, H, W, C\]"):
        image.rotate(IMAGES[None], 1.0)
    with pytest.raises(ConfigError, match="got no transform"):
        image.compose_transforms()
    with pytest.raises(ConfigError, match="got max_delta_hue=4: expected 0 to pi"):
        image.random_hsv_in_yiq(IMAGES, 4)
    with pytest.raises(ConfigError, match="got limits 2 and 1: expected 0 <= lower <= upper"):
        image.random_hsv_in_yiq(IMAGES, 1, 2)
