"""Gradients of several steps that are applied once equal one large batch, and between nothing is reduced."""

from typing import Any

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.builders import build, grad_fn, run_steps
from tests.helpers.equivalence import OPTIMIZERS, STEPS, TOWER_BATCH, batches, build_cost, one_tower
from tests.helpers.partition_graphs import placed_devices
from tests.helpers.sessions import cpu_session
from tests.helpers.summaries import read_summaries
from tpack.errors import ConfigError, ReductionError, WrongTypeError
from tpack.graph_builder.base import BuildResult
from tpack.graph_builder.replicated import (
    SyncMultiGPUReplicatedBuilder,
    apply_in_replicas,
    build_replicas,
    copy_to_replicas,
)
from tpack.graph_builder.sharded import ShardedReplicatedBuilder
from tpack.graph_builder.towers import SimpleBuilder, SyncMultiGPUParameterServerBuilder
from tpack.reduction.algorithms.one_device import RoundRobinReducer
from tpack.reduction.gradients import merge_grad_list, split_grad_list
from tpack.schedules import Constant, Step
from tpack.tfutils.dependency import dependency_of_targets
from tpack.tfutils.gradproc import GlobalNormClip, SummaryGradient
from tpack.tfutils.optimizer import AccumGradOptimizer, apply_grad_processors
from tpack.tower.collections import MOVING_SUMMARY_OPS_KEY
from tpack.tower.context import current_tower_context

SEVERAL = 3
BUILDERS = {
    "one tower": lambda **options: SyncMultiGPUReplicatedBuilder(1, **options),
    "replicated": lambda **options: SyncMultiGPUReplicatedBuilder(2, **options),
    "variables on the processor": lambda **options: SyncMultiGPUParameterServerBuilder(2, "cpu", **options),
    "divided optimizer": lambda **options: ShardedReplicatedBuilder(2, **options),
    "balanced variables": lambda **options: SyncMultiGPUParameterServerBuilder(2, "gpu", **options),
}


def train(builder: Any, make_optimizer: Any, num_steps: int = SEVERAL) -> list[list[np.ndarray]]:
    """Train `STEPS` times ``num_steps`` steps on small batches; return the weights of each tower."""
    num_towers = len(builder.devices)
    data = batches(num_towers * num_steps, "float64")
    made = make_optimizer()
    with tf.Graph().as_default() as graph:
        step = tf.get_variable("step", [], tf.int32, tf.zeros_initializer(), trainable=False, use_resource=True)
        count = step.assign_add(1, read_value=False)
        now = step.read_value()

        def grads() -> Any:
            first = (now % num_steps * num_towers + current_tower_context().index) * TOWER_BATCH
            rows = [tf.constant(data[key])[now // num_steps] for key in ("x", "p", "ids", "y")]
            cost = build_cost(*(each[first : first + TOWER_BATCH] for each in rows))
            variables = current_tower_context().get_collection_in_tower(tf.GraphKeys.TRAINABLE_VARIABLES)
            return list(zip(tf.gradients(cost, variables, colocate_gradients_with_ops=True), variables, strict=True))

        result = builder.build(grads, lambda: made)
        with cpu_session(graph, num_cpus=num_towers) as session:
            session.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
            if result.init_op is not None:
                session.run(result.init_op)
            for number in range(STEPS * num_steps):
                session.run(result.train_op)
                session.run(count)
                for sync_op in result.sync_ops:
                    if sync_op.every_steps and (number + 1) % sync_op.steps_in_epoch(1) == 0:
                        session.run(sync_op.op)
            trained = [tower.get_collection_in_tower(tf.GraphKeys.TRAINABLE_VARIABLES) for tower in result.towers]
            return [list(session.run(variables)) for variables in trained]


@pytest.mark.parametrize("optimizer", ["momentum", "adam", "ftrl"])
@pytest.mark.parametrize("kind", BUILDERS)
def test_weights_are_those_of_the_large_batch(kind: str, optimizer: str) -> None:
    builder = BUILDERS[kind](accumulate=SEVERAL)
    towers = train(builder, OPTIMIZERS[optimizer])
    expected = one_tower(optimizer, len(builder.devices) * SEVERAL).weights[0]
    for weights in towers:
        for weight, value, main in zip(weights, expected.values(), towers[0], strict=True):
            np.testing.assert_allclose(weight, value, rtol=1e-9, atol=1e-11)
            np.testing.assert_array_equal(weight, main)


@pytest.mark.parametrize("optimizer", ["sgd", "momentum", "adam", "adagrad", "ftrl"])
def test_one_tower_equals_the_optimizer_that_accumulates_bit_for_bit(optimizer: str) -> None:
    (ours,) = train(BUILDERS["one tower"](accumulate=SEVERAL), OPTIMIZERS[optimizer])
    (other,) = train(SimpleBuilder(), lambda: AccumGradOptimizer(OPTIMIZERS[optimizer](), SEVERAL))
    for weight, value in zip(ours, other, strict=True):
        np.testing.assert_array_equal(weight, value)


def test_one_step_is_the_graph_of_the_parts_without_accumulation() -> None:
    def by_hand() -> BuildResult:
        devices = SyncMultiGPUReplicatedBuilder(3).devices
        towers = build_replicas(grad_fn, devices, copies_are_set=True)
        grads, variables = split_grad_list(towers.outputs)
        with tf.name_scope("reduce_gradients"):
            reduced = merge_grad_list(RoundRobinReducer().reduce(grads), variables)
        optimizer = tf.train.MomentumOptimizer(0.1, 0.9)
        train_op = apply_in_replicas(towers.contexts, reduced, optimizer, copies_are_set=True)
        return BuildResult(train_op, towers.contexts, copy_to_replicas(towers.contexts).op)

    graphs = []
    for make in (by_hand, lambda: build(SyncMultiGPUReplicatedBuilder(3, accumulate=1))):
        with tf.Graph().as_default() as graph:
            make()
            graphs.append(graph.as_graph_def())
    assert graphs[0] == graphs[1]


def test_sums_lie_where_gradients_are_made_and_a_step_reduces_and_applies_nothing(graph: Any) -> None:
    result = build(SyncMultiGPUReplicatedBuilder(3, tower_building="copy", accumulate=2))
    applying, _ = result.sync_ops
    updates = [op for op in graph.get_operations() if op.type == "ResourceApplyMomentum"]
    assert len(updates) == 12
    assert not any(dependency_of_targets([result.train_op], op) for op in updates)
    assert all(dependency_of_targets([applying.op], op) for op in updates)
    with run_steps(result, 1) as session:
        places = placed_devices(session, result.train_op)
        for variable in tf.trainable_variables():
            np.testing.assert_array_equal(session.run(variable), np.ones(8))
        session.run(applying.op)
        for variable in tf.trainable_variables():
            np.testing.assert_allclose(session.run(variable), np.full(8, 0.9))
    additions = [place for name, place in places.items() if name.startswith("accumulate") and "AssignAdd" in name]
    assert sorted(additions) == ["/device:CPU:0"] * 5 + ["/device:CPU:1"] * 4 + ["/device:CPU:2"] * 4
    saved = {variable.op.name for variable in tf.global_variables()}
    assert saved == {*"abcd", *(f"{name}/Momentum" for name in "abcd")}


def test_what_is_applied_is_divided_by_the_steps_in_it(graph: Any) -> None:
    factor = tf.placeholder_with_default(1.0, [])

    def grads() -> Any:
        weight = tf.get_variable("w", [2], initializer=tf.zeros_initializer())
        return [(factor * (1.0 + current_tower_context().index) * [1.0, 2.0], weight)]

    optimizer = tf.train.GradientDescentOptimizer(1.0)
    result = SyncMultiGPUReplicatedBuilder(2, accumulate=8).build(grads, lambda: optimizer)
    applying = result.sync_ops[0]
    (weight,) = tf.trainable_variables()
    with run_steps(result, 0) as session:
        moved = []
        for values in ([1, 3], [4], [1, 2, 3, 6]):
            for value in values:
                session.run(result.train_op, {factor: value})
            assert session.run(applying.num_steps) == len(values)
            before = session.run(weight)
            session.run(applying.op)
            moved.append(before - session.run(weight))
    # The mean over towers is 1.5.
    np.testing.assert_array_equal(moved, [[3, 6], [6, 12], [4.5, 9]])


def test_rows_are_summed_as_rows_that_are_touched_once(graph: Any) -> None:
    rows = tf.placeholder(tf.int64, [None])

    def grads() -> Any:
        table = tf.get_variable("table", [4, 1], initializer=tf.ones_initializer())
        return list(zip(tf.gradients(tf.reduce_sum(tf.gather(table, rows)), [table]), [table], strict=True))

    optimizer = tf.train.MomentumOptimizer(1.0, 0.5)
    result = SyncMultiGPUReplicatedBuilder(1, accumulate=2).build(grads, lambda: optimizer)
    (table,) = tf.trainable_variables()
    with run_steps(result, 0) as session:
        for number, batch in enumerate(([0, 0], [1], [2], [2])):
            session.run(result.train_op, {rows: batch})
            if number % 2:
                session.run(result.sync_ops[0].op)
        # A dense gradient would have moved rows 0 and 1 again by their momentum.
        np.testing.assert_allclose(session.run(table)[:, 0], [0, 0.5, 0, 1])


def test_processors_get_the_mean_and_no_step_reduces_for_their_summaries(graph: Any) -> None:
    factor = tf.placeholder_with_default(0.0, [])

    def grads() -> Any:
        weight = tf.get_variable("w", [2], initializer=tf.zeros_initializer())
        tf.summary.scalar("step", factor)
        return [(factor * [3.0, 4.0], weight)]

    processed = apply_grad_processors(tf.train.GradientDescentOptimizer(1.0), [SummaryGradient(), GlobalNormClip(5)])
    result = SyncMultiGPUReplicatedBuilder(2, accumulate=2).build(grads, lambda: processed)
    (weight,) = tf.trainable_variables()
    assert tf.get_collection(MOVING_SUMMARY_OPS_KEY) == []
    written = []
    with run_steps(result, 0) as session:
        for value in (1, 5):
            _, serialized = session.run([result.train_op, tf.summary.merge_all()], {factor: value})
            written.append([each.tag for each in tf.Summary.FromString(serialized).value])
        session.run(result.sync_ops[0].op)
        after = read_summaries(session)
        # The mean of both gradients is (9, 12), which is clipped.
        np.testing.assert_allclose(session.run(weight), [-3, -4], rtol=1e-6)
    average = "SummaryGradient/w-grad-rms"
    assert written == [["tower0/step", average]] * 2
    assert after["SummaryGradient/w-grad"].sum == 21
    assert after[average] == pytest.approx(np.sqrt((81 + 144) / 2))


@pytest.mark.parametrize("make", [SyncMultiGPUReplicatedBuilder, SyncMultiGPUParameterServerBuilder])
@pytest.mark.parametrize(
    ("wrong", "kind", "words"),
    [
        (0, ConfigError, "got accumulate=0: expected an integer of at least 1"),
        (2.0, WrongTypeError, "got accumulate=2.0: expected an integer or a Schedule"),
        (True, WrongTypeError, "got accumulate=True: expected an integer"),
        (Step(4, {3: 0.25}), ConfigError, "got accumulate=.*a Schedule with 0.25 in epoch 4.*at least 1 in each epoch"),
        (Constant(0), ConfigError, "a Schedule with 0 in epoch 1"),
    ],
)
def test_other_numbers_of_steps_are_refused(make: Any, wrong: Any, kind: Any, words: str) -> None:
    with pytest.raises(kind, match=words):
        make(2, accumulate=wrong)


def test_towers_whose_gradients_differ_are_refused_before_any_sum_is_made(graph: Any) -> None:
    def grads() -> Any:
        weight = tf.get_variable("w", [2])
        return [(weight if current_tower_context().index else tf.ones([3]), weight)]

    with pytest.raises(ReductionError):
        SyncMultiGPUReplicatedBuilder(2, accumulate=2).build(grads, lambda: tf.train.GradientDescentOptimizer(1.0))
    assert not [variable for variable in tf.local_variables() if "accumulate" in variable.op.name]
