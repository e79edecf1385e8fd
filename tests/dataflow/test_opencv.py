"""The door to OpenCV, and what becomes of the channels of an image."""

import sys

import numpy as np
import pytest

from tpack.dataflow.opencv import apply_per_channels, opencv
from tpack.errors import DataPointError, DependencyError


def test_module_is_opencv():
    assert opencv() is sys.modules["cv2"]


def test_missing_package_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "cv2", None)
    with pytest.raises(DependencyError, match=r"pip install 'tpack\[vision\]'"):
        opencv()


@pytest.mark.parametrize("shape", [(4, 5), (4, 5, 1), (4, 5, 3), (4, 5, 4), (4, 5, 5), (4, 5, 9)])
def test_dimensions_and_channels_are_kept(shape, rng):
    image = rng.integers(0, 256, shape).astype(np.uint8)
    np.testing.assert_array_equal(apply_per_channels(opencv().transpose, image), image.swapaxes(0, 1))


def test_error_of_opencv_is_ours():
    with pytest.raises(DataPointError, match=r"OpenCV failed on an image of shape \(2, 3\) and dtype uint8: .*memory"):
        apply_per_channels(lambda part: opencv().resize(part, (10**6, 10**7)), np.zeros((2, 3), np.uint8))
