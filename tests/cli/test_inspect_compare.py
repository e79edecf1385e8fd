"""What differs in two checkpoints."""

import ml_dtypes
import numpy as np
import pytest

from tpack.cli.inspect import _compare, _max_difference

FIRST = {
    "same": np.ones(3, "float32"),
    "moved": np.array([1.0, 2.0, 3.0]),
    "far": np.array([0, 100], "int32"),
    "wide": np.zeros((2, 3)),
    "gone": np.zeros(4, "float16"),
}
SECOND = {
    "same": np.ones(3, "float32"),
    "moved": np.array([1.0, 2.5, 2.9], "float32"),
    "far": np.array([0, 7], "int32"),
    "wide": np.zeros((3, 2)),
    "new": np.array("text"),
}


def test_every_difference_is_listed_and_the_largest_first():
    text = _compare(FIRST, SECOND, ("one.npz", "two"))
    sections = text.rstrip("\n").split("\n\n")
    assert sections[0] == "A: one.npz\nB: two"
    assert sections[1].splitlines()[0] == "Only in A:"
    assert sections[1].splitlines()[-1].split() == ["gone", "[4]", "float16"]
    assert sections[2].splitlines()[-1].split() == ["new", "[]", "str128"]
    assert sections[3].splitlines()[0] == "Of different shapes:"
    assert sections[3].splitlines()[-1].split("  ")[0] == "wide"
    assert [line.split()[0] for line in sections[4].splitlines()[3:]] == ["far", "moved"]
    assert [line.split()[-1] for line in sections[4].splitlines()[3:]] == ["93", "0.5"]
    assert "float64 / float32" in sections[4]
    assert sections[5] == "1 of the 4 variable(s) in both are equal."


def test_equal_checkpoints_have_no_tables():
    assert _compare(FIRST, FIRST, ("a", "b")) == "A: a\nB: b\n\n5 of the 5 variable(s) in both are equal.\n"


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        (np.zeros((0, 3)), np.zeros((0, 3)), 0),
        ([np.nan, np.inf, -np.inf], [np.nan, np.inf, -np.inf], 0),
        ([1.0, np.nan], [1.0, 2.0], np.nan),
        ([np.inf, 1.0], [-np.inf, 1.0], np.inf),
        ([True, False], [True, True], 1),
        ([1 + 1j], [1 - 2j], 3),
        (np.array([200], "uint8"), np.array([250], "uint8"), 50),
        (np.array([1.5], ml_dtypes.bfloat16), np.array([1.25], "float32"), 0.25),
        (["a"], ["a"], 0),
        (["a"], ["b"], np.inf),
        (["a"], [1.0], np.inf),
    ],
)
def test_distance_of_arrays(first, second, expected):
    np.testing.assert_equal(_max_difference(np.asarray(first), np.asarray(second)), expected)
