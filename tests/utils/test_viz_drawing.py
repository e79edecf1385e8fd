"""What is drawn onto images, and what is left as it was."""

import sys

import numpy as np
import pytest

from tpack.errors import ConfigError, DependencyError
from tpack.utils.viz import draw_boxes, draw_text, intensity_to_rgb


@pytest.fixture
def image():
    return np.full((60, 80, 3), 100, "uint8")


def changed(before, after):
    """Return the smallest (x1, y1, x2, y2) that holds all pixels that differ."""
    ys, xs = np.nonzero((before != after).any(axis=2))
    return xs.min(), ys.min(), xs.max() + 1, ys.max() + 1


def test_boxes_are_drawn_on_a_copy(image):
    drawn = draw_boxes(image, np.array([[10, 20, 30.5, 50]]), color=(1, 2, 3))
    assert (image == 100).all()
    assert changed(image, drawn) == (10, 20, 31, 51)
    np.testing.assert_array_equal(drawn[20, 10:31], [[1, 2, 3]] * 21)
    np.testing.assert_array_equal(drawn[21:50, 11:30], image[21:50, 11:30])


def test_small_boxes_lie_above_large_ones(image):
    boxes = [[10, 10, 20, 20], [10, 10, 70, 50]]
    drawn = draw_boxes(image, boxes, labels=["", ""])
    np.testing.assert_array_equal(drawn, draw_boxes(image, boxes[::-1], labels=["", ""]))
    assert drawn[10, 10].tolist() != [100, 100, 100]


def test_labels_are_written_and_grey_images_become_coloured():
    grey = np.zeros((60, 80), "float32")
    drawn = draw_boxes(grey, [[5, 30, 60, 50]], labels=["cat"], color=(0, 0, 255))
    assert drawn.shape == (60, 80, 3)
    assert (drawn.min(axis=2) > 150).sum() > 10


def test_no_boxes_change_nothing(image):
    np.testing.assert_array_equal(draw_boxes(image, np.zeros((0, 4)), labels=[]), image)


@pytest.mark.parametrize("pos", [(10, 10), (-50, -50), (500, 500)])
def test_text_stays_inside(image, pos):
    drawn = draw_text(image, pos, "cat", (5, 6, 7))
    x1, y1, x2, y2 = changed(image, drawn)
    assert (image == 100).all()
    if pos == (10, 10):
        assert (x1, y1) == pos
    assert 10 < x2 - x1 < 60
    assert 5 < y2 - y1 < 30
    assert drawn[y1, x1].tolist() == [5, 6, 7]


@pytest.mark.parametrize(
    ("boxes", "labels", "message"),
    [
        ([1, 2, 3, 4], None, r"expected boxes of shape \(N, 4\), got \(4,\)"),
        ([[0, 0, 5, 5]], [], "got 0 labels for 1 boxes"),
        ([[5, 0, 5, 5]], None, r"box \[5.0, .* is empty or outside of the image, which is 80 wide and 60 high"),
        ([[0, 0, 81, 5]], None, "outside of the image"),
        ([[0, np.nan, 8, 5]], None, "outside of the image"),
    ],
)
def test_boxes_that_cannot_be_drawn_are_refused(image, boxes, labels, message):
    with pytest.raises(ConfigError, match=message):
        draw_boxes(image, boxes, labels)


def test_images_of_other_shapes_are_refused():
    with pytest.raises(ConfigError, match="expected an image of shape"):
        draw_text(np.zeros((3, 3, 2)), (0, 0), "a", (0, 0, 0))


def test_intensities_get_the_colours_of_the_map():
    colours = intensity_to_rgb([[0.0, 0.5], [1.0, 7.0]], cmap="gray")
    assert colours.dtype == np.float32
    np.testing.assert_allclose(colours[:, :, 0], [[0, 128], [255, 255]], atol=1)
    np.testing.assert_array_equal(colours[:, :, 0], colours[:, :, 2])
    stretched = intensity_to_rgb([[3.0, 5.0, 4.0]], cmap="gray", normalize=True)
    np.testing.assert_allclose(stretched[0, :, 1], [0, 255, 128], atol=1)
    assert (intensity_to_rgb(np.full((2, 2), 9.0), normalize=True) == intensity_to_rgb(np.zeros((2, 2)))).all()
    assert intensity_to_rgb(np.zeros((0, 2)), normalize=True).shape == (0, 2, 3)


def test_other_intensities_and_maps_are_refused():
    with pytest.raises(ConfigError, match=r"of shape \(H, W\), got \(3,\)"):
        intensity_to_rgb([1, 2, 3])
    with pytest.raises(ConfigError, match="no colour map 'cubism'"):
        intensity_to_rgb([[1]], cmap="cubism")


def test_libraries_are_extras(monkeypatch, image):
    monkeypatch.setitem(sys.modules, "cv2", None)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    for call in (lambda: draw_boxes(image, []), lambda: draw_text(image, (0, 0), "a", (0, 0, 0))):
        with pytest.raises(DependencyError, match=r"tpack\[vision\]"):
            call()
    with pytest.raises(DependencyError, match=r"tpack\[plot\]"):
        intensity_to_rgb([[1]])
