import pytest
import tensorflow.compat.v1 as tf

from tpack.errors import TowerMismatchError
from tpack.graph_builder.towers import align_own_gradients, align_shared_gradients, build_towers


def grads_of(*variables):
    return [(tf.zeros_like(variable), variable) for variable in variables]


def names_of(tower_grads):
    return [[variable.op.name for _, variable in grads] for grads in tower_grads]


@pytest.mark.parametrize("order", [1, -1])
def test_gradients_of_shared_variables_come_in_the_order_of_the_first_tower(graph, order):
    a, b = tf.get_variable("a", []), tf.get_variable("b", [])
    tower_grads = [grads_of(a, b), grads_of(a, b)[::order]]
    aligned = align_shared_gradients(tower_grads)
    assert names_of(aligned) == [["a", "b"]] * 2
    assert {v.op.name: g for g, v in aligned[1]} == {v.op.name: g for g, v in tower_grads[1]}


def test_two_gradients_of_one_variable_are_an_error(graph):
    a, b = tf.get_variable("a", []), tf.get_variable("b", [])
    with pytest.raises(TowerMismatchError, match=r"tower 1 returns more than one gradient of a variable: .*\[a, a\]"):
        align_shared_gradients([grads_of(a, b), grads_of(a, a)])


def test_a_variable_of_one_tower_is_named(graph):
    a, b, c = (tf.get_variable(name, []) for name in "abc")
    with pytest.raises(TowerMismatchError, match=r"tower 0 alone has gradients of \[b\], tower 1 alone of \[c\]"):
        align_shared_gradients([grads_of(a, b), grads_of(a, c)])


def build_own(names_of_tower):
    names = iter(names_of_tower)

    def func():
        return grads_of(*(tf.get_variable(name, []) for name in next(names)))

    return build_towers(func, ["/cpu:0"] * len(names_of_tower), [True] * len(names_of_tower))


@pytest.mark.parametrize("names", [["a", "b"], ["b", "a"]])
@pytest.mark.parametrize("order", [1, -1])
def test_gradients_of_copies_come_in_the_order_of_the_first_tower(graph, names, order):
    towers = build_own([["a", "b"], names])
    aligned = align_own_gradients([towers.outputs[0], towers.outputs[1][::order]], towers.contexts)
    assert names_of(aligned) == [["a", "b"], ["tower1/a", "tower1/b"]]


def test_a_gradient_missing_in_one_tower_is_named(graph):
    towers = build_own([["a", "b"], ["a", "b"]])
    with pytest.raises(TowerMismatchError, match=r"tower 0 alone has gradients of \[b\]"):
        align_own_gradients([towers.outputs[0], towers.outputs[1][:1]], towers.contexts)


def test_a_variable_created_in_one_tower_only_is_named(graph):
    towers = build_own([["a"], ["a", "extra"]])
    with pytest.raises(TowerMismatchError, match=r"only training tower 'tower1' .* has \[tower1/extra\]"):
        align_own_gradients(towers.outputs, towers.contexts)
