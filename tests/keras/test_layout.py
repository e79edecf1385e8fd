import pytest
import tensorflow.compat.v1 as tf

from tpack.errors import WrongTypeError
from tpack.keras.layout import SHARE, Layout, map_named


def spec(name):
    return tf.TensorSpec([None], tf.float32, name)


def test_flat_values_are_nested_again():
    layout = Layout({"b": spec("b"), "a": spec("a")}, [spec("y")], {"y": spec("w")}, has_share=True)
    assert [each.name for each in layout.specs] == ["a", "b", "y", "w", SHARE]
    assert layout.unpack([1, 2, 3, 4, 5]) == ({"a": 1, "b": 2}, 3, {"y": 4}, 5)
    assert Layout((spec("a"), spec("b")), []).unpack([1, 2]) == ([1, 2], None, None, None)


def test_entries_that_are_no_specs_are_refused():
    with pytest.raises(WrongTypeError, match="target_signature=3: expected tf.TensorSpec objects"):
        Layout(spec("a"), 3)


def test_entries_are_named_by_their_keys_or_numbers():
    names = map_named(lambda name, _: name, {"a b": 0, "c": [0, 0]}, "input")
    assert names == {"a b": "a_b", "c": ["c", "c_1"]}
    assert map_named(lambda name, _: name, [0, 0], "input") == ["input", "input_1"]
