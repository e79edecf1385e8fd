"""Several transforms as one."""

import copy
import pickle

import numpy as np
import pytest

from tests.helpers.images import picture
from tpack.dataflow.imgaug.base import NoOpTransform, Transform, TransformFactory, TransformList
from tpack.dataflow.imgaug.crop import CropTransform
from tpack.dataflow.imgaug.geometry import FlipTransform, TransposeTransform, WarpAffineTransform
from tpack.dataflow.imgaug.resize import ResizeTransform
from tpack.errors import ConfigError

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
    with pytest.raises(ConfigError, match="TransformList got a int: wanted a Transform"):
        TransformList([CROP, 3])
