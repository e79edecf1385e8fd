"""Grids of images, pixel by pixel."""

import numpy as np
import pytest

from tpack.errors import ConfigError
from tpack.utils import viz
from tpack.utils.viz import gen_stack_patches, stack_patches


def flat(value, height=2, width=3, channels=1):
    return np.full((height, width, channels), value, "uint8")


def test_images_lie_row_by_row_with_a_border():
    grid = stack_patches([flat(k) for k in (1, 2, 3)], nr_row=2, nr_col=2, border=1, bgcolor=9)
    expected = [
        [1, 1, 1, 9, 2, 2, 2],
        [1, 1, 1, 9, 2, 2, 2],
        [9, 9, 9, 9, 9, 9, 9],
        [3, 3, 3, 9, 9, 9, 9],
        [3, 3, 3, 9, 9, 9, 9],
    ]
    np.testing.assert_array_equal(grid[:, :, 0], expected)
    assert grid.dtype == np.uint8


def test_grey_images_and_arrays_are_taken():
    images = np.arange(2 * 40 * 60, dtype="float32").reshape(2, 40, 60) % 256
    grid = stack_patches(images, 1, 2)
    assert grid.shape == (40, 122, 1)
    np.testing.assert_array_equal(grid[:, :60, 0], images[0])
    np.testing.assert_array_equal(grid[:, 62:, 0], images[1])
    np.testing.assert_array_equal(grid[:, 60:62], 255)


def test_smaller_images_are_put_in_the_middle():
    grid = stack_patches([flat(1, 4, 5, 3), flat(2, 2, 3, 3)], 2, 1, border=0, pad=True, bgcolor=(7, 8, 9))
    np.testing.assert_array_equal(grid[:4], 1)
    np.testing.assert_array_equal(grid[5:7, 1:4], 2)
    np.testing.assert_array_equal(grid[4, 0], [7, 8, 9])
    assert grid.shape == (8, 5, 3)


def test_many_images_make_several_grids():
    grids = list(gen_stack_patches([flat(k) for k in range(7)], nr_row=1, nr_col=3, border=0))
    assert [grid.shape for grid in grids] == [(2, 9, 1)] * 3
    np.testing.assert_array_equal([grid[0, ::3, 0] for grid in grids], [[0, 1, 2], [3, 4, 5], [6, 255, 255]])


def test_grids_are_as_large_as_fits():
    images = [flat(1, 30, 20), flat(2, 10, 10)] * 10
    grids = list(gen_stack_patches(images, border=2, max_width=64, max_height=95))
    assert {grid.shape for grid in grids} == {(94, 64, 1)}
    assert len(grids) == 3
    assert next(gen_stack_patches(images, max_width=5, max_height=5)).shape == (30, 20, 1)


@pytest.mark.parametrize(
    ("images", "options", "message"),
    [
        ([], {}, "expected at least one image"),
        ([flat(0)] * 3, {}, "3 images do not fit into 1 x 2 places"),
        ([flat(0), flat(0, 3)], {}, "different sizes"),
        ([flat(0), flat(0, channels=3)], {"pad": True}, "one number of channels"),
        ([np.zeros(3)], {}, r"expected images of shape \(H, W\)"),
    ],
)
def test_what_makes_no_grid_is_refused(images, options, message):
    with pytest.raises(ConfigError, match=message):
        stack_patches(images, 1, 2, **options)


def test_grey_images_stand_on_a_coloured_background():
    grid = stack_patches([flat(7)], 1, 2, border=0, bgcolor=(1, 2, 3))
    assert grid.shape == (2, 6, 3)
    assert grid[0, ::3].tolist() == [[7, 7, 7], [1, 2, 3]]


def test_a_window_shows_the_grid_and_reports_clicks_on_images(monkeypatch):
    shown, clicked = [], []
    monkeypatch.setattr(viz, "interactive_imshow", lambda *arguments: shown.append(arguments))
    images = [flat(value) for value in (10, 20, 30)]
    grid = viz.stack_patches(images, 2, 2, border=2, lclick_cb=lambda image, number: clicked.append((image, number)))
    ((canvas, on_click),) = shown
    np.testing.assert_array_equal(canvas, grid)
    height, width = (size + 2 for size in images[0].shape[:2])
    on_click(canvas, width, 1)
    on_click(canvas, 1, height)
    on_click(canvas, width, height)
    assert [(int(image.max()), number) for image, number in clicked] == [(20, 1), (30, 2)]
    viz.stack_patches(images, 2, 2, viz=True)
    assert len(shown) == 2
