"""Names of towers and tensors."""

import pytest

from tpack.errors import ConfigError
from tpack.tower.names import join_scope, op_and_tensor_name, tower_name


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("cost", ("cost", "cost:0")),
        ("cost:0", ("cost", "cost:0")),
        ("scope/split:12", ("scope/split", "scope/split:12")),
    ],
)
def test_op_and_tensor_name_takes_both_spellings(name, expected):
    assert op_and_tensor_name(name) == expected


@pytest.mark.parametrize("name", ["", ":0", "a:", "a:x", "a:-1", "a:0:1"])
def test_op_and_tensor_name_refuses_what_names_no_output(name):
    with pytest.raises(ConfigError, match="is no name of a tensor"):
        op_and_tensor_name(name)


def test_tower_name_counts_from_zero():
    assert [tower_name(k) for k in range(3)] == ["tower0", "tower1", "tower2"]


def test_join_scope_leaves_out_an_empty_scope():
    assert join_scope("a/b", "c") == "a/b/c"
    assert join_scope("", "c") == "c"
    assert join_scope("a", "") == "a/"
