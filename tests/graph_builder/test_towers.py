import pytest
import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError, TowerMismatchError
from tpack.graph_builder.towers import build_towers
from tpack.tower.context import current_tower_context


def one_weight():
    return current_tower_context(), tf.get_variable("w", [2]), tf.ones([1], name="out")


def test_shared_variables_are_created_once(graph):
    towers = build_towers(one_weight, ["/cpu:0", "/cpu:1", "/cpu:2"], [False] * 3)
    assert all(weight is towers.outputs[0][1] for _, weight, _ in towers.outputs)
    assert [variable.op.name for variable in tf.global_variables()] == ["w"]


def test_own_variables_are_copies_that_are_not_saved(graph):
    towers = build_towers(one_weight, ["/cpu:0", "/cpu:1"], [True, True])
    assert [weight.op.name for _, weight, _ in towers.outputs] == ["w", "tower1/w"]
    assert [variable.op.name for variable in tf.global_variables()] == ["w"]
    assert [variable.op.name for variable in tf.local_variables()] == ["tower1/w"]


def test_towers_may_mix_own_and_shared_variables(graph):
    towers = build_towers(one_weight, ["/cpu:0"] * 3, [False, True, False])
    assert [weight.op.name for _, weight, _ in towers.outputs] == ["w", "tower1/w", "w"]


def test_each_tower_has_its_name_index_and_device(graph):
    towers = build_towers(one_weight, ["/cpu:0", "/cpu:1"], [False, False])
    for index, (context, _, out) in enumerate(towers.outputs):
        assert (context.name, context.index, context.total) == (f"tower{index}", index, 2)
        assert out.name == f"tower{index}/out:0"
        assert out.device == f"/device:CPU:{index}"
    assert towers.contexts == tuple(context for context, _, _ in towers.outputs)


def test_no_devices_or_a_missing_flag_is_an_error(graph):
    with pytest.raises(ConfigError, match="at least one"):
        build_towers(one_weight, [], [])
    with pytest.raises(ConfigError, match="as many devices as flags"):
        build_towers(one_weight, ["/cpu:0"], [])


def test_a_variable_that_only_a_later_tower_wants_is_an_error(graph):
    def func():
        return tf.get_variable(f"w{current_tower_context().index}", [])

    with pytest.raises(TowerMismatchError, match="asks for the variable 'w1'"):
        build_towers(func, ["/cpu:0", "/cpu:1"], [False, False])
