"""Affine warping against interpolation written out."""

import cv2
import numpy as np
import pytest

from tests.helpers.images import blob, marked_pixel, middle, picture, seeded
from tpack.dataflow.imgaug.geometry import Affine, Shift, WarpAffineTransform
from tpack.errors import ConfigError


def interpolated(image, x, y):
    """Return the value of an image between pixels, given by indices that are no integers."""
    column, row = int(np.floor(x)), int(np.floor(y))
    right, down = x - column, y - row
    top = image[row, column] * (1 - right) + image[row, column + 1] * right
    bottom = image[row + 1, column] * (1 - right) + image[row + 1, column + 1] * right
    return top * (1 - down) + bottom * down


def warped(image, mat):
    """Return an image warped, with NaN where pixels from outside are needed."""
    height, width = image.shape
    found = np.full(image.shape, np.nan)
    back = np.linalg.inv(np.vstack([mat, [0, 0, 1]]))
    for row, column in np.ndindex(height, width):
        x, y, _ = back @ [column, row, 1]
        if 0 <= x < width - 1 and 0 <= y < height - 1:
            found[row, column] = interpolated(image, x, y)
    return found


def test_image_is_interpolated_linearly():
    # Smooth, since OpenCV rounds the places between two pixels to a thirty-second.
    image = blob(24, 31, 14, 11, sigma=5)
    mat = np.array([[0.9, 0.2, 1.3], [-0.15, 1.1, 2.2]])
    wanted = warped(image.astype(np.float64), mat)
    known = ~np.isnan(wanted)
    assert known.mean() > 0.5
    found = WarpAffineTransform(mat, (31, 24)).apply_image(image)
    np.testing.assert_allclose(found[known], wanted[known], atol=2)


def test_matrix_is_for_indices_and_coordinates_are_continuous():
    double = WarpAffineTransform(np.array([[2, 0, 0.5], [0, 2, 0.5]]), (8, 8))
    assert double.apply_coords(np.array([[0.0, 0], [4, 4], [1.5, 2]])).tolist() == [[0, 0], [8, 8], [3, 4]]


def test_border_value_is_that_of_all_channels(rng):
    right = WarpAffineTransform(np.array([[1, 0, 2], [0, 1, 0]]), (31, 24), borderValue=77)
    for channels in (1, 3, 6):
        found = right.apply_image(picture(rng, (24, 31, channels)))
        assert (found[:, :2] == 77).all()
    each = WarpAffineTransform(right.mat, (31, 24), borderValue=(1, 2, 3))
    assert each.apply_image(picture(rng))[0, 0].tolist() == [1, 2, 3]


def test_matrix_of_another_shape_is_refused():
    with pytest.raises(ConfigError, match=r"got a matrix of shape \(3, 3\): expected \(2, 3\)"):
        WarpAffineTransform(np.eye(3), (2, 2))


def test_shift_moves_a_marked_pixel_by_whole_pixels():
    augmentor, places = seeded(Shift(0.2, 0.1)), set()
    for _ in range(100):
        moved, tfm = augmentor.augment_return_params(marked_pixel(20, 30, 10, 15))
        ((row, column),) = np.argwhere(moved).tolist()
        (x, y) = tfm.apply_coords(np.array([[15.5, 10.5]]))[0]
        assert (x, y) == (column + 0.5, row + 0.5)
        places.add((column - 15, row - 10))
    assert {dx for dx, _ in places} == set(range(-6, 7))
    assert {dy for _, dy in places} == set(range(-2, 3))


def test_shift_repeats_the_border(rng):
    image = picture(rng)
    found, tfm = seeded(Shift(horiz_frac=0.3)).augment_return_params(image)
    amount = int(tfm.mat[0, 2])
    wanted = image[:, np.clip(np.arange(31) - amount, 0, 30)]
    np.testing.assert_array_equal(found, wanted)
    assert amount != 0


def test_affine_of_nothing_is_nothing(rng):
    image = picture(rng)
    np.testing.assert_array_equal(Affine().augment(image), image)


def test_affine_scales_around_the_middle():
    tfm = Affine(scale=(2, 2)).get_transform(np.zeros((20, 30), np.uint8))
    assert tfm.apply_coords(np.array([[15.0, 10], [20, 10], [0, 0]])).tolist() == [[15, 10], [25, 10], [-15, -10]]


def test_affine_rotates_as_opencv_counts_angles():
    augmentor = seeded(Affine(rotate_max_deg=40, border=cv2.BORDER_CONSTANT))
    tfm = augmentor.get_transform(np.zeros((40, 50), np.uint8))
    degrees = np.rad2deg(np.arctan2(tfm.mat[0, 1], tfm.mat[0, 0]))
    np.testing.assert_allclose(tfm.mat, cv2.getRotationMatrix2D((24.5, 19.5), degrees, 1), atol=1e-9)
    assert 0 < abs(degrees) < 40


def test_affine_draws_within_its_limits():
    augmentor = seeded(Affine((0.5, 2), (0.1, 0.2), 30, 20))
    mats = np.array([augmentor.get_transform(np.zeros((20, 30), np.uint8)).mat for _ in range(300)])
    scales = np.hypot(mats[:, 0, 0], mats[:, 1, 0])
    angles = np.rad2deg(np.arctan2(-mats[:, 1, 0], mats[:, 0, 0]))
    shifts = mats[:, :, :2] @ [14.5, 9.5] + mats[:, :, 2] - [14.5, 9.5]
    assert 0.5 <= scales.min() < 0.6
    assert 1.9 < scales.max() <= 2
    assert 25 < np.abs(angles).max() <= 30
    np.testing.assert_allclose(np.abs(shifts).max(axis=0), [3, 4], atol=1e-9)
    np.testing.assert_allclose(np.linalg.det(mats[:, :, :2]), scales**2)


def test_affine_shear_slants_the_columns():
    tfm = seeded(Affine(shear=40)).get_transform(np.zeros((40, 50), np.uint8))
    amount = tfm.mat[0, 1]
    moved = tfm.apply_coords(np.array([[25.0, 20], [30, 20], [25, 30]]))
    np.testing.assert_allclose(moved, [[25, 20], [30, 20], [25 + 10 * amount, 30]])
    assert 0 < abs(amount) < np.tan(np.deg2rad(40))


def test_sheared_blob_is_found_where_the_coordinates_are():
    found, tfm = seeded(Affine(shear=30, border=0)).augment_return_params(blob(48, 56, 27.3, 30.1))
    np.testing.assert_allclose(middle(found), tfm.apply_coords(np.array([[27.3, 30.1]]))[0], atol=0.1)


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda: Shift(2), "horiz_frac"),
        (lambda: Shift(0, -1), "vert_frac"),
        (lambda: Affine(scale=(0, 1)), "scale"),
        (lambda: Affine(translate_frac=(0.1, 2)), "translate_frac"),
        (lambda: Affine(rotate_max_deg=-1), "rotate_max_deg"),
        (lambda: Affine(shear=90), "shear"),
    ],
)
def test_what_is_no_amount_is_refused(make, name):
    with pytest.raises(ConfigError, match=rf"got {name}(\[\d\])?="):
        make()
