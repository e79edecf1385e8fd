"""Transforms of images, coordinates and boxes, alone, made of functions, and in lists."""

import copy
import pickle

import numpy as np
import pytest

from tests.helpers.images import picture
from tpack.dataflow.imgaug.base import (
    NoOpTransform,
    Transform,
    TransformFactory,
    TransformList,
    UnsupportedTransformError,
    boxes_to_corners,
    corners_to_boxes,
)
from tpack.dataflow.imgaug.crop import CropTransform
from tpack.dataflow.imgaug.geometry import FlipTransform, TransposeTransform, WarpAffineTransform
from tpack.dataflow.imgaug.resize import ResizeTransform
from tpack.errors import ConfigError, DataPointError, WrongTypeError

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
    with pytest.raises(
        DataPointError, match=r"NoOpTransform got an array of shape \(3, 2\) and dtype float64: expected boxes"
    ):
        NoOpTransform().apply_box(np.zeros((3, 2)))


def test_repr_names_the_fields():
    text = repr(WarpAffineTransform(QUARTER_TURN, (4, 3), interp=2))
    assert text.startswith("WarpAffineTransform(mat=array([[ 0., 1., 0.], [-1., 0., 3.]]), dsize=(4, 3), interp=2")
    many = Transform()
    many.table = np.zeros((10, 10))
    assert repr(many) == "Transform(table=<array of shape (10, 10)>)"


def test_functions_are_the_methods():
    tfm = TransformFactory(name="Shift", apply_image=lambda img: img + 1, apply_coords=lambda coords: coords + 2)
    assert tfm.apply_image(np.zeros((1, 1))).tolist() == [[1]]
    assert tfm.apply_box(np.array([[0.0, 1, 2, 3]])).tolist() == [[2, 3, 4, 5]]
    assert repr(tfm) == "TransformFactory('Shift')"


def test_method_that_was_not_given_is_refused():
    tfm = TransformFactory(apply_image=str)
    with pytest.raises(UnsupportedTransformError, match="TransformFactory.* cannot change coordinates"):
        tfm.apply_coords(np.zeros((1, 2)))


def test_what_is_no_method_is_refused():
    with pytest.raises(WrongTypeError, match="^TransformFactory got apply_image=3: expected a function"):
        TransformFactory(apply_image=3)
    with pytest.raises(ConfigError, match="expected apply_image=function"):
        TransformFactory(image=str)


CROP, FLIP, RESIZE = CropTransform(2, 3, 10, 12), FlipTransform(10, 12), ResizeTransform(10, 12, 5, 24, 1)


def test_members_are_applied_in_order(rng):
    image, coords = picture(rng), rng.random((4, 2)) * 20
    tfm = TransformList([CROP, FLIP, RESIZE])
    np.testing.assert_array_equal(tfm.apply_image(image), RESIZE.apply_image(FLIP.apply_image(CROP.apply_image(image))))
    np.testing.assert_allclose(
        tfm.apply_coords(coords), np.column_stack([(12 - (coords[:, 0] - 3)) * 2, (coords[:, 1] - 2) / 2])
    )


def test_lists_in_lists_are_flat():
    tfm = TransformList([CROP, TransformList([FLIP, TransformList([RESIZE])])])
    assert tfm.tfms == [CROP, FLIP, RESIZE]
    assert len(tfm) == 3


def test_addition_puts_together():
    tfm = TransformList([CROP])
    assert (tfm + FLIP).tfms == [CROP, FLIP]
    assert (FLIP + tfm).tfms == [FLIP, CROP]
    assert (tfm + TransformList([FLIP])).tfms == [CROP, FLIP]
    tfm += RESIZE
    assert tfm.tfms == [CROP, RESIZE]


def test_boxes_do_not_grow_with_each_rotation():
    turn = np.sqrt(0.5) * np.array([[1, 1], [-1, 1]])
    eighth = WarpAffineTransform(np.column_stack([turn, [0, 0]]), (9, 9))
    box = np.array([[0.5, 0.5, 2.5, 2.5]])
    moved = TransformList([eighth, eighth]).apply_box(box)
    np.testing.assert_allclose(moved, [[0.5, -1.5, 2.5, 0.5]], atol=1e-6)


def test_member_with_its_own_boxes_is_asked():
    double = TransformFactory(apply_box=lambda box: 2 * box)
    assert TransformList([double, NoOpTransform()]).apply_box(np.array([[1.0, 2, 3, 4]])).tolist() == [[2, 4, 6, 8]]

    class Halve(Transform):
        def apply_box(self, box):
            return box / 2

    assert TransformList([double, Halve()]).apply_box(np.array([[1.0, 2, 3, 4]])).tolist() == [[1, 2, 3, 4]]


def test_other_methods_are_those_of_all_members():
    plus = TransformFactory(apply_depth=lambda value: value + 1)
    times = TransformFactory(apply_depth=lambda value: value * 10)
    assert TransformList([plus, times]).apply_depth(4) == 50
    with pytest.raises(AttributeError, match="apply_depth"):
        _ = TransformList([plus, CROP]).apply_depth
    with pytest.raises(AttributeError, match="a TransformList has no attribute 'depth'"):
        _ = TransformList([plus]).depth


def test_list_of_none_changes_nothing(rng):
    image = picture(rng)
    assert TransformList([]).apply_image(image) is image


def test_list_is_copied_and_pickled():
    tfm = TransformList([CROP, TransposeTransform()])
    for other in (copy.deepcopy(tfm), pickle.loads(pickle.dumps(tfm))):
        assert repr(other) == repr(tfm)


def test_what_is_no_transform_is_refused():
    with pytest.raises(ConfigError, match=r"TransformList got tfms\[1\]=3: expected a Transform"):
        TransformList([CROP, 3])
