"""Structures of tensors."""

from tpack.tf1.contrib.framework import nest


def test_nest_has_the_names_of_1_15():
    assert nest.is_sequence([1])
    assert nest.flatten({"b": 2, "a": 1}) == [1, 2]
    assert {"is_sequence", "map_structure_up_to"} <= set(dir(nest))
