import pytest
import tensorflow.compat.v1 as tf

from tpack.errors import TowerMismatchError
from tpack.graph_builder.towers import build_towers, check_own_variables, check_shared_variables


def grads_of(*variables):
    return [(tf.zeros_like(variable), variable) for variable in variables]


def test_same_variables_in_the_same_order_pass(graph):
    a, b = tf.get_variable("a", []), tf.get_variable("b", [])
    assert check_shared_variables([grads_of(a, b), grads_of(a, b)]) is None


def test_a_variable_of_one_tower_is_named(graph):
    a, b, c = (tf.get_variable(name, []) for name in "abc")
    with pytest.raises(TowerMismatchError, match=r"tower 0 alone has gradients of \[b\], tower 1 alone of \[c\]"):
        check_shared_variables([grads_of(a, b), grads_of(a, c)])


def test_another_order_is_an_error(graph):
    a, b = tf.get_variable("a", []), tf.get_variable("b", [])
    with pytest.raises(TowerMismatchError, match="towers 0 and 1 return .* different order"):
        check_shared_variables([grads_of(a, b), grads_of(b, a)])


def build_own(names_of_tower):
    names = iter(names_of_tower)

    def func():
        return grads_of(*(tf.get_variable(name, []) for name in next(names)))

    return build_towers(func, ["/cpu:0"] * len(names_of_tower), [True] * len(names_of_tower))


def test_copies_are_compared_with_their_main_variables(graph):
    towers = build_own([["a", "b"], ["a", "b"]])
    assert check_own_variables(towers.outputs, towers.contexts) is None


def test_copies_in_another_order_are_an_error(graph):
    towers = build_own([["a", "b"], ["a", "b"]])
    outputs = [towers.outputs[0], towers.outputs[1][::-1]]
    with pytest.raises(TowerMismatchError, match="different order"):
        check_own_variables(outputs, towers.contexts)


def test_a_gradient_missing_in_one_tower_is_named(graph):
    towers = build_own([["a", "b"], ["a", "b"]])
    with pytest.raises(TowerMismatchError, match=r"tower 0 alone has gradients of \[b\]"):
        check_own_variables([towers.outputs[0], towers.outputs[1][:1]], towers.contexts)


def test_a_variable_created_in_one_tower_only_is_named(graph):
    towers = build_own([["a"], ["a", "extra"]])
    with pytest.raises(TowerMismatchError, match=r"created 2 variables .* created 1.*tower1/extra"):
        check_own_variables(towers.outputs, towers.contexts)
