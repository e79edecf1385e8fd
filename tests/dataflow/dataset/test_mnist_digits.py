"""The digits that scikit-learn ships."""

import sys

import numpy as np
import pytest
from sklearn.datasets import load_digits

from tpack.dataflow.dataset.mnist import Digits
from tpack.errors import ConfigError, DependencyError


def test_two_parts_are_all_of_it():
    images, labels = load_digits().images, load_digits().target
    points = []
    for part, length in (("train", 1437), ("test", 360)):
        ds = Digits(part, shuffle=False)
        ds.reset_state()
        assert len(ds) == length
        points += list(ds)
    np.testing.assert_allclose([image for image, _ in points], images / 16)
    assert [label for _, label in points] == labels.tolist()
    assert points[0][0].dtype == np.float32


def test_other_part_is_refused():
    with pytest.raises(ConfigError, match="Digits got train_or_test='val'"):
        Digits("val")


def test_missing_package_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    with pytest.raises(DependencyError, match=r"tpack\[examples\]"):
        Digits("train")
