"""The towers of a model_fn: names, variables, devices, and what they make of errors."""

import pytest
import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError, TowerError
from tpack.estimator.replicated import (
    ModelFnTower,
    Replication,
    build_towers,
    current_model_fn_tower,
    outside_of_towers,
)
from tpack.estimator.spec import EstimatorSpec, ModeKeys
from tpack.tower.context import TowerContext, current_tower_context, get_current_tower_context

DEVICES = tuple(f"/device:CPU:{k}" for k in range(3))
PLAN = Replication(DEVICES, ("/device:CPU:7",), "/device:CPU:0")


def build(call, mode=ModeKeys.PREDICT, *, plan=PLAN, averages_losses=True):
    return build_towers(call, plan, mode, averages_losses=averages_losses)


def model(index):
    weights = tf.get_variable("weights", [2], use_resource=True)
    tf.losses.add_loss(tf.reduce_sum(weights, name="sum"))
    assert len(tf.losses.get_losses()) == 1
    tf.metrics.mean(weights, name="metric")
    return EstimatorSpec(ModeKeys.PREDICT, tf.identity(weights, name="output") + index)


def test_the_first_tower_has_plain_names_and_all_share_variables(graph):
    towers = build(model)
    assert [variable.op.name for variable in tf.global_variables()] == ["weights"]
    assert [tower.spec.predictions.op.inputs[0].op.name for tower in towers] == [
        "output",
        "tower_1/output",
        "tower_2/output",
    ]
    assert graph.get_operation_by_name("sum").device == DEVICES[0]
    assert graph.get_operation_by_name("tower_2/sum").device == DEVICES[2]
    assert tf.global_variables()[0].device == "/device:CPU:7"
    metrics = [tower.context.get_collection_in_tower(tf.GraphKeys.METRIC_VARIABLES) for tower in towers]
    assert [[variable.op.name for variable in own] for own in metrics] == [
        [f"{prefix}metric/total", f"{prefix}metric/count"] for prefix in ("", "tower_1/", "tower_2/")
    ]


@pytest.mark.parametrize("mode", [ModeKeys.TRAIN, ModeKeys.EVAL])
def test_layers_learn_whether_they_train(graph, mode):
    seen = []

    def call(index):
        tower = current_tower_context()
        seen.append((index, tower.index, tower.total, tower.is_training))
        return index

    towers = build(call, mode)
    assert seen == [(k, k, 3, mode == ModeKeys.TRAIN) for k in range(3)]
    assert [tower.spec for tower in towers] == [0, 1, 2]


def test_towers_meet(graph):
    def call(index):
        return tf.identity(current_tower_context().merge_call(lambda values: values[::-1], index))

    towers = build(call, ModeKeys.TRAIN)
    with tf.Session(config=tf.ConfigProto(device_count={"CPU": 8})) as session:
        assert session.run([tower.spec for tower in towers]) == [2, 1, 0]


def test_leaves_the_tower_of_the_caller(graph):
    with TowerContext("outer", is_training=True), tf.device("/device:CPU:5"):
        build(model)
        assert get_current_tower_context().name == "outer"
        assert tf.constant(1).device == "/device:CPU:5"
        with outside_of_towers():
            assert get_current_tower_context() is None
            assert tf.constant(1).device == ""
    assert [variable.op.name for variable in tf.global_variables()] == ["weights"]
    with outside_of_towers():
        assert tf.constant(1, name="plain").op.name == "plain"


def test_does_not_nest(graph):
    with pytest.raises(TowerError, match="towers of one graph cannot be nested"):
        build(lambda index: ModelFnTower(0, 1, device=None, is_training=False, averages_losses=True).__enter__())


def test_losses_are_parts_of_the_whole(session8):
    for total, averages, part in [(1, True, 6.0), (4, True, 1.5), (4, False, 6.0)]:
        tower = ModelFnTower(0, total, device=None, is_training=True, averages_losses=averages)
        assert session8.run(tf.identity(tower.scale_loss(tf.constant(6.0)))) == part
        assert tower.scale_loss(None) is None


def test_only_towers_of_models_are_found(graph):
    assert current_model_fn_tower() is None
    with TowerContext("", is_training=True):
        assert current_model_fn_tower() is None
    with ModelFnTower(0, 1, device=None, is_training=True, averages_losses=True) as tower:
        assert current_model_fn_tower() is tower


def test_different_variables_are_refused(graph):
    with pytest.raises(ConfigError, match="expected the same variables.*'only_here'"):
        build(lambda index: tf.get_variable("only_here", [1]) if index else tf.no_op())


def test_meeting_a_different_number_of_times_is_refused(graph):
    def call(index):
        for _ in range(index):
            current_tower_context().merge_call(lambda values: values, index)

    with pytest.raises(ConfigError, match="the same optimizers in the same order"):
        build(call, ModeKeys.TRAIN)
