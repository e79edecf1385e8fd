"""What all transforms have in common."""

import numpy as np
import pytest

from tpack.dataflow.imgaug.base import (
    NoOpTransform,
    Transform,
    UnsupportedTransformError,
    boxes_to_corners,
    corners_to_boxes,
)
from tpack.dataflow.imgaug.geometry import WarpAffineTransform
from tpack.errors import ConfigError, DataPointError

QUARTER_TURN = np.array([[0, 1, 0], [-1, 0, 3]])


@pytest.mark.parametrize(("method", "what"), [("apply_image", "images"), ("apply_coords", "coordinates")])
def test_base_can_change_nothing(method, what):
    with pytest.raises(UnsupportedTransformError, match=rf"Transform\(\) cannot change {what}: it has no {method}"):
        getattr(Transform(), method)(np.zeros((2, 2)))


def test_error_is_what_scripts_may_expect():
    assert issubclass(UnsupportedTransformError, (ConfigError, NotImplementedError))


def test_box_of_a_transform_without_coordinates_is_refused():
    with pytest.raises(UnsupportedTransformError, match="cannot change coordinates"):
        Transform().apply_box(np.zeros((1, 4)))


def test_no_op_changes_nothing(rng):
    image, coords = rng.random((4, 5)), rng.random((3, 2))
    assert NoOpTransform().apply_image(image) is image
    np.testing.assert_array_equal(NoOpTransform().apply_coords(coords), coords)
    assert NoOpTransform().apply_coords(coords) is not coords


def test_boxes_are_upright_around_their_corners(rng):
    boxes = np.array([[0.0, 0.0, 4.0, 4.0], [1.0, 0.5, 3.0, 2.0]])
    moved = WarpAffineTransform(QUARTER_TURN, (4, 4)).apply_box(boxes)
    # A turn to the left takes (x, y) to (y, 4 - x).
    np.testing.assert_allclose(moved, [[0, 0, 4, 4], [0.5, 1, 2, 3]])


def test_corners_and_boxes_are_inverse(rng):
    boxes = np.sort(rng.random((5, 2, 2)), axis=1).reshape(5, 4)
    np.testing.assert_array_equal(corners_to_boxes(boxes_to_corners(None, boxes)), boxes)
    assert boxes_to_corners(None, boxes).shape == (20, 2)
    assert corners_to_boxes(boxes_to_corners(None, np.zeros((0, 4)))).shape == (0, 4)


def test_what_are_no_boxes_is_refused():
    with pytest.raises(DataPointError, match="NoOpTransform got an array of shape .* wanted boxes"):
        NoOpTransform().apply_box(np.zeros((3, 2)))


def test_repr_names_the_fields():
    text = repr(WarpAffineTransform(QUARTER_TURN, (4, 3), interp=2))
    assert text.startswith("WarpAffineTransform(mat=array([[ 0., 1., 0.], [-1., 0., 3.]]), dsize=(4, 3), interp=2")
    many = Transform()
    many.table = np.zeros((10, 10))
    assert repr(many) == "Transform(table=<array of shape (10, 10)>)"
