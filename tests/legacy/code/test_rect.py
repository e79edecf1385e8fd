"""Rectangles by their corners."""

import numpy as np
import pytest

from tpack.errors import ConfigError
from tpack.legacy.code.rect import BoxBase, FloatBox, IntBox


def test_pixels_count_both_sides_and_numbers_do_not():
    assert (IntBox(1, 2, 3, 5).w, IntBox(1, 2, 3, 5).h, IntBox(1, 2, 3, 5).area()) == (3, 4, 12)
    assert (FloatBox(1, 2, 3, 5).w, FloatBox(1, 2, 3, 5).h, FloatBox(1, 2, 3, 5).area()) == (2, 3, 6)
    assert FloatBox.from_intbox(IntBox(1, 2, 3, 5)).area() == 12


def test_a_part_of_an_image_is_taken():
    image = np.arange(20).reshape(4, 5)
    np.testing.assert_array_equal(IntBox(1, 2, 3, 3).roi(image), image[2:4, 1:4])
    with pytest.raises(ConfigError, match="is not inside an image"):
        IntBox(1, 2, 5, 3).roi(image)


def test_what_is_outside_is_cut_off():
    pixels, numbers = IntBox(-1, 2, 9, 9), FloatBox(-1, 2, 9, 9)
    pixels.clip_by_shape((4, 5))
    numbers.clip_by_shape((4, 5))
    np.testing.assert_array_equal(pixels.as_array(), [0, 2, 4, 3])
    np.testing.assert_array_equal(numbers.as_array(), [0, 2, 5, 4])
    assert repr(pixels.copy()) == "IntBox(x1=0, y1=2, x2=4, y2=3)"


def test_bad_rectangles_are_refused():
    with pytest.raises(ConfigError, match="has no area"):
        BoxBase(3, 0, 1, 1).validate()
    with pytest.raises(ConfigError, match="expected whole numbers"):
        IntBox(0.5, 0, 1, 1)
    BoxBase(0, 0, 1, 1).validate()
