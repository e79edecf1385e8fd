"""Small batches that are summed up equal one large batch, in every builder."""

from typing import Any

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.builders import build, run_steps
from tests.helpers.equivalence import OPTIMIZERS, STEPS, TOWER_BATCH, batches, build_cost, one_tower
from tests.helpers.optimizers import REPRESENTATIVE
from tests.helpers.partition_graphs import placed_devices
from tests.helpers.sessions import cpu_session
from tests.helpers.summaries import read_summaries
from tpack.errors import ConfigError, GraphBuildError, WrongTypeError
from tpack.graph_builder.replicated import SyncMultiGPUReplicatedBuilder
from tpack.graph_builder.towers import AsyncMultiGPUBuilder, SimpleBuilder, SyncMultiGPUParameterServerBuilder
from tpack.tfutils.gradproc import GlobalNormClip, SummaryGradient
from tpack.tfutils.optimizer import AccumGradOptimizer, apply_grad_processors
from tpack.tfutils.predicated import Gate
from tpack.tower.context import current_tower_context

NITER = 3
CASES = [
    *((SimpleBuilder, name) for name in REPRESENTATIVE),
    *((lambda: SyncMultiGPUReplicatedBuilder(2), name) for name in ("adam", "ftrl")),
    *((lambda: SyncMultiGPUParameterServerBuilder(2, "cpu"), name) for name in ("adam", "momentum")),
    *((lambda: SyncMultiGPUParameterServerBuilder(2, "gpu"), name) for name in ("adam", "rmsprop")),
]


def train(builder: Any, optimizer: str) -> list[list[np.ndarray]]:
    """Train `STEPS` times `NITER` steps on small batches; return the weights of each tower."""
    num_towers = len(builder.devices)
    data = batches(num_towers * NITER, "float64")
    made = AccumGradOptimizer(OPTIMIZERS[optimizer](), NITER)
    with tf.Graph().as_default() as graph:
        large, small = tf.placeholder(tf.int32, []), tf.placeholder(tf.int32, [])

        def grad_fn() -> Any:
            tower = current_tower_context()
            first = (small * num_towers + tower.index) * TOWER_BATCH
            batch = [tf.constant(data[key])[large][first : first + TOWER_BATCH] for key in ("x", "p", "ids", "y")]
            variables_before = tower.get_collection_in_tower(tf.GraphKeys.TRAINABLE_VARIABLES)
            cost = build_cost(*batch)
            variables = tower.get_collection_in_tower(tf.GraphKeys.TRAINABLE_VARIABLES)
            assert tower.index or not variables_before
            return list(zip(tf.gradients(cost, variables, colocate_gradients_with_ops=True), variables, strict=True))

        result = builder.build(grad_fn, lambda: made)
        with cpu_session(graph, num_cpus=num_towers) as session:
            session.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
            if result.init_op is not None:
                session.run(result.init_op)
            for number in range(STEPS * NITER):
                session.run(result.train_op, {large: number // NITER, small: number % NITER})
            trained = [tower.get_collection_in_tower(tf.GraphKeys.TRAINABLE_VARIABLES) for tower in result.towers]
            return [list(session.run(variables)) for variables in trained]


@pytest.mark.parametrize(("make_builder", "optimizer"), CASES)
def test_weights_are_those_of_the_large_batch(make_builder: Any, optimizer: str) -> None:
    builder = make_builder()
    towers = train(builder, optimizer)
    expected = one_tower(optimizer, len(builder.devices) * NITER).weights[0]
    for weights in towers:
        for weight, value in zip(weights, expected.values(), strict=True):
            np.testing.assert_allclose(weight, value, rtol=1e-9, atol=1e-11)
        for weight, main in zip(weights, towers[0], strict=True):
            np.testing.assert_array_equal(weight, main)


def test_asynchronous_towers_sum_up_their_own(graph: Any) -> None:
    optimizer = AccumGradOptimizer(tf.train.GradientDescentOptimizer(0.1), 2)

    def grad_fn() -> Any:
        weight = tf.get_variable("w", [3], initializer=tf.ones_initializer())
        scale = 1.0 + current_tower_context().index
        return [(tf.fill([3], scale), weight)]

    result = AsyncMultiGPUBuilder(3).build(grad_fn, lambda: optimizer)
    (weight,) = tf.trainable_variables()
    with run_steps(result, 3) as session:
        # Scaled by a third, the three towers' means are 1/3, 2/3 and 1, and applied once.
        np.testing.assert_allclose(session.run(weight), [0.8] * 3, rtol=1e-6)
        session.run(result.train_op)
        np.testing.assert_allclose(session.run(weight), [0.6] * 3, rtol=1e-6)
    names = {v.op.name for v in tf.global_variables()}
    assert {"w/AccumGrad", "w/AccumGrad_1", "w/AccumGrad_2", "AccumGrad_counter_2"} < names


def test_sums_and_counters_lie_on_their_towers(graph: Any) -> None:
    optimizer = AccumGradOptimizer(tf.train.MomentumOptimizer(0.1, 0.9), 2)
    result = build(SyncMultiGPUReplicatedBuilder(3), optimizer)
    own = [v for v in tf.global_variables() + tf.local_variables() if "Accum" in v.op.name]
    assert len(own) == 3 * 5
    for tower in result.towers:
        devices = {v.device for v in tower.recorder.variables}
        assert devices == {f"/device:CPU:{tower.index}"}
    assert {v.op.name for v in tf.global_variables() if "Accum" in v.op.name} == {
        "AccumGrad_counter",
        *(f"{weight}/AccumGrad" for weight in "abcd"),
    }


def test_updates_run_on_their_towers_when_they_run(graph: Any) -> None:
    result = build(SyncMultiGPUReplicatedBuilder(2), AccumGradOptimizer(tf.train.GradientDescentOptimizer(0.1), 2))
    with run_steps(result, 1) as session:
        places = placed_devices(session, result.train_op)
    updates = [op for op in graph.get_operations() if op.type == "ResourceApplyGradientDescent"]
    updated = {op.inputs[0].op.name: places[op.name] for op in updates}
    assert updated == {
        **{weight: "/device:CPU:0" for weight in "abcd"},
        **{f"tower1/{weight}": "/device:CPU:1" for weight in "abcd"},
    }


def test_weights_and_slots_wait_and_the_global_step_does_not(session8: Any) -> None:
    step = tf.train.create_global_step()
    variable = tf.get_variable("v", initializer=[1.0, 2.0], use_resource=True)
    inner = tf.train.MomentumOptimizer(0.5, 0.9)
    optimizer = AccumGradOptimizer(inner, 4)
    factor = tf.placeholder(tf.float32, [])
    train_op = optimizer.minimize(tf.reduce_sum(variable) * factor, global_step=step, name="train_op")
    assert train_op.name == "train_op"
    session8.run(tf.global_variables_initializer())
    for number in range(1, 9):
        session8.run(train_op, {factor: number})
        weights, momentum, count = session8.run([variable, inner.get_slot(variable, "momentum"), step])
        means = [2.5, 6.5][: number // 4]
        velocity = sum(mean * 0.9 ** (len(means) - 1 - k) for k, mean in enumerate(means))
        assert count == number
        np.testing.assert_allclose(momentum, [velocity] * 2, rtol=1e-6)
        moved = {0: 0, 1: 2.5, 2: 2.5 + 0.9 * 2.5 + 6.5}[len(means)]
        np.testing.assert_allclose(weights, np.array([1.0, 2.0]) - 0.5 * moved, rtol=1e-6)
    assert optimizer.get_slot(variable, "momentum") is inner.get_slot(variable, "momentum")
    assert {v.op.name for v in optimizer.variables()} == {"v/Momentum", "v/AccumGrad", "AccumGrad_counter"}


def test_rows_that_no_batch_touched_stay(session8: Any) -> None:
    table = tf.get_variable("table", initializer=np.ones((4, 1), "float32"), use_resource=True)
    rows = tf.placeholder(tf.int64, [None])
    optimizer = AccumGradOptimizer(tf.train.MomentumOptimizer(1.0, 0.5), 2)
    train_op = optimizer.minimize(tf.reduce_sum(tf.gather(table, rows)))
    session8.run(tf.global_variables_initializer())
    for batch in ([0, 0], [1], [2], [2]):
        session8.run(train_op, {rows: batch})
    # A dense gradient would have moved rows 0 and 1 again by their momentum.
    np.testing.assert_allclose(session8.run(table)[:, 0], [0, 0.5, 0, 1])


def test_a_run_that_stopped_in_the_middle_goes_on_there(graph: Any, tmp_path: Any) -> None:
    variable = tf.get_variable("v", initializer=1.0, use_resource=True)
    factor = tf.placeholder(tf.float32, [])
    train_op = AccumGradOptimizer(tf.train.GradientDescentOptimizer(1.0), 3).minimize(variable * factor)
    saver = tf.train.Saver()
    with tf.Session() as first:
        first.run(tf.global_variables_initializer())
        for value in (1, 2):
            first.run(train_op, {factor: value})
        path = saver.save(first, str(tmp_path / "model"))
    with tf.Session() as second:
        saver.restore(second, path)
        second.run(train_op, {factor: 6})
        assert second.run(variable) == pytest.approx(1 - 3)


def test_processors_inside_see_the_mean_and_write_it_when_there_is_one(session8: Any) -> None:
    variable = tf.get_variable("v", initializer=[0.0, 0.0], use_resource=True)
    factor = tf.placeholder_with_default(0.0, [])
    processed = apply_grad_processors(tf.train.GradientDescentOptimizer(1.0), [SummaryGradient(), GlobalNormClip(5)])
    train_op = AccumGradOptimizer(processed, 2).minimize(tf.reduce_sum(variable * [3.0, 4.0]) * factor)
    session8.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
    averages = tf.get_collection("MOVING_SUMMARY_OPS")
    merged = tf.summary.merge_all()
    written = []
    for value in (1, 5):
        serialized, *_ = session8.run([merged, train_op, averages], {factor: value})
        written.append({v.tag: v.histo.sum for v in tf.Summary.FromString(serialized).value if v.HasField("histo")})
    # The mean of both gradients is (9, 12), which is clipped.
    assert written == [{}, {"SummaryGradient/v-grad": 21}]
    np.testing.assert_allclose(session8.run(variable), [-3, -4], rtol=1e-6)


def test_summaries_of_other_things_stay_what_they_were(session8: Any) -> None:
    variable = tf.get_variable("v", initializer=2.0, use_resource=True)
    tf.summary.scalar("before", variable)
    AccumGradOptimizer(tf.train.GradientDescentOptimizer(1.0), 2).minimize(variable)
    session8.run(tf.global_variables_initializer())
    assert read_summaries(session8) == {"before": 2}


def test_a_step_that_is_held_back_does_not_count(session8: Any) -> None:
    variable = tf.get_variable("v", initializer=[1.0, 2.0], use_resource=True)
    is_open, factor = tf.placeholder(tf.bool, []), tf.placeholder(tf.float32, [])
    gate = Gate(is_open)
    with gate.behind():
        update = AccumGradOptimizer(tf.train.AdamOptimizer(0.5), 2).apply_gradients([(factor * [1.0, 1.0], variable)])
    done = gate.wait_for([update])
    session8.run(tf.global_variables_initializer())
    for value, opened in ((1, True), (9, False), (np.nan, False)):
        session8.run(done, {factor: value, is_open: opened})
        np.testing.assert_array_equal(session8.run(variable), [1, 2])
    session8.run(done, {factor: 3, is_open: True})
    np.testing.assert_allclose(session8.run(variable), [0.5, 1.5], rtol=1e-5)


def test_one_step_is_no_accumulation(graph: Any) -> None:
    variable = tf.get_variable("v", initializer=1.0, use_resource=True)
    AccumGradOptimizer(tf.train.GradientDescentOptimizer(1.0), 1).apply_gradients([(None, variable), (1.0, variable)])
    assert tf.global_variables() == [variable]


@pytest.mark.parametrize(
    ("niter", "message"),
    [
        (0, "AccumGradOptimizer got niter=0: expected an integer of at least 1"),
        (-1, "AccumGradOptimizer got niter=-1: expected an integer of at least 1"),
        (1.5, "AccumGradOptimizer got niter=1.5: expected an integer"),
        (True, "AccumGradOptimizer got niter=True: expected an integer"),
        ("2", "AccumGradOptimizer got niter='2': expected an integer"),
    ],
)
def test_other_numbers_of_steps_are_refused(niter: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        AccumGradOptimizer(tf.train.GradientDescentOptimizer(1.0), niter)


def test_no_gradients_and_no_optimizer_are_refused(graph: Any) -> None:
    variable = tf.get_variable("v", initializer=1.0, use_resource=True)
    with pytest.raises(GraphBuildError, match="got no gradients"):
        AccumGradOptimizer(tf.train.GradientDescentOptimizer(1.0), 2).apply_gradients([(None, variable)])
    with pytest.raises(WrongTypeError, match="^AccumGradOptimizer got opt="):
        AccumGradOptimizer("sgd", 2)
