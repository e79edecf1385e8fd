"""Tables of the command line, and what is written in them."""

import ml_dtypes
import numpy as np
import pytest

from tpack.cli.inspect import _draw_table, _format_shape, _format_size, _is_number


def test_columns_are_aligned_and_numbers_left_as_they_are():
    table = _draw_table([("a", "1.50"), ("bbb", "20")], ("name", "x"), ("left", "right"))
    assert table.splitlines() == ["name       x", "------  ----", "a       1.50", "bbb       20"]
    assert _draw_table([], ("name", "x"), ("left", "right")).split() == ["name", "x", "------", "---"]


@pytest.mark.parametrize(("shape", "text"), [((), "[]"), ((3,), "[3]"), ((3, 0, 2), "[3, 0, 2]")])
def test_shapes_are_lists(shape, text):
    assert _format_shape(np.zeros(shape)) == text


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "0 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (1536, "1.5 KiB"), (5 * 2**20, "5.0 MiB"), (2**51, "2048.0 TiB")],
)
def test_sizes_have_units(size, text):
    assert _format_size(size) == text


@pytest.mark.parametrize("dtype", ["float16", "int8", "bool", "complex64", ml_dtypes.bfloat16])
def test_numbers_are_numbers(dtype):
    assert _is_number(np.zeros(2, dtype))


@pytest.mark.parametrize("dtype", ["U3", "S2", "O", "M8[s]", "V4", [("a", "f4")]])
def test_other_things_are_not(dtype):
    assert not _is_number(np.zeros(2, dtype))
