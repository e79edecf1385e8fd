"""Colours that can be told apart."""

import numpy as np
import pytest

from tpack.utils.viz import PALETTE_RGB


def test_palette_is_an_array_of_colours():
    assert PALETTE_RGB.shape == (80, 3)
    assert PALETTE_RGB.dtype == np.int32
    assert PALETTE_RGB.min() >= 0
    assert PALETTE_RGB.max() <= 255
    with pytest.raises(ValueError, match="read-only"):
        PALETTE_RGB[0] = 0


@pytest.mark.parametrize(("number", "distance"), [(6, 150), (12, 120), (80, 40)])
def test_colours_differ_and_the_first_ones_most(number, distance):
    colours = PALETTE_RGB[:number].astype(float)
    distances = np.linalg.norm(colours[:, np.newaxis] - colours, axis=-1) + 1e9 * np.eye(number)
    assert distances.min() > distance
