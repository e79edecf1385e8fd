"""What all builders promise; that they give the right weights is in tests/integration/test_equivalence.py."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.partition_graphs import placed_devices
from tests.helpers.sessions import cpu_session
from tpack.errors import ConfigError, GraphBuildError, ReductionError, TowerMismatchError
from tpack.graph_builder.asynchronous import AsyncMultiGPUBuilder
from tpack.graph_builder.parameter_server import SyncMultiGPUParameterServerBuilder
from tpack.graph_builder.replicated import SyncMultiGPUReplicatedBuilder
from tpack.graph_builder.simple import SimpleBuilder
from tpack.reduction.round_robin import RoundRobinReducer
from tpack.tower.context import current_tower_context

BUILDERS = {
    "simple": SimpleBuilder,
    "parameter-server-cpu": lambda: SyncMultiGPUParameterServerBuilder(4, "cpu"),
    "parameter-server-gpu": lambda: SyncMultiGPUParameterServerBuilder(4, "gpu"),
    "replicated": lambda: SyncMultiGPUReplicatedBuilder(4),
    "async": lambda: AsyncMultiGPUBuilder(4),
}


def grad_fn():
    weights = [tf.get_variable(name, [8], initializer=tf.ones_initializer()) for name in "abcd"]
    cost = tf.add_n([tf.reduce_sum(weight * weight) for weight in weights], name="cost") / 2
    return list(zip(tf.gradients(cost, weights, colocate_gradients_with_ops=True), weights, strict=True))


def build(builder, optimizer=None):
    optimizer = optimizer or tf.train.MomentumOptimizer(0.1, 0.9)
    return builder.build(grad_fn, lambda: optimizer)


def run_steps(result, num_steps):
    session = cpu_session(num_cpus=4)
    session.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
    if result.init_op is not None:
        session.run(result.init_op)
    for _ in range(num_steps):
        session.run(result.train_op)
    return session


@pytest.mark.parametrize("name", BUILDERS)
def test_a_step_descends(graph, name):
    with run_steps(build(BUILDERS[name](), tf.train.GradientDescentOptimizer(0.1)), 1) as session:
        values = session.run(tf.trainable_variables())
    # The gradient is the weight itself; asynchronous towers make four updates of a quarter, in any order.
    expected = 0.9 if name != "async" else values[0][0]
    assert 0.89 < expected < 0.91
    np.testing.assert_allclose(values, np.full((4, 8), expected), rtol=1e-2 if name == "async" else 1e-6)


@pytest.mark.parametrize("name", BUILDERS)
def test_only_the_main_variables_are_saved_and_have_plain_names(graph, name):
    build(BUILDERS[name]())
    saved = {variable.op.name for variable in tf.global_variables()}
    assert saved == {*"abcd", *(f"{weight}/Momentum" for weight in "abcd")}
    assert [variable.op.name for variable in tf.trainable_variables()] == list("abcd")


@pytest.mark.parametrize("name", BUILDERS)
def test_one_result_for_each_call_and_nothing_left_on_the_builder(name):
    builder = BUILDERS[name]()
    before = dict(vars(builder))
    for _ in range(2):
        with tf.Graph().as_default() as graph:
            assert build(builder).train_op.graph is graph
    assert vars(builder) == before
    assert len(builder.devices) in (1, 4)


@pytest.mark.parametrize("name", BUILDERS)
def test_an_optimizer_of_keras_is_refused(graph, name):
    with pytest.raises(GraphBuildError, match="wanted a tf.compat.v1.train.Optimizer, got builtins.object"):
        build(BUILDERS[name](), object())


def places_of(builder):
    """Return {op name: device} of a step as it really ran, without the device's prefix."""
    result = build(builder)
    with run_steps(result, 0) as session:
        places = placed_devices(session, result.train_op)
    return {op: device.rsplit("/", 1)[-1] for op, device in places.items()}


def test_replicas_and_their_slots_lie_on_their_towers(graph):
    places = places_of(SyncMultiGPUReplicatedBuilder(4))
    for tower in range(4):
        prefix = f"tower{tower}/" if tower else ""
        for weight in "abcd":
            assert places[f"{prefix}{weight}"] == f"device:CPU:{tower}"
            assert places[f"{prefix}{weight}/Momentum"] == f"device:CPU:{tower}"
        updates = [op for op in places if op.startswith(f"apply_gradients_{tower}/update_")]
        assert len(updates) >= 4
        assert {places[op] for op in updates} == {f"device:CPU:{tower}"}


def test_parameter_server_balances_variables_and_their_slots(graph):
    places = places_of(SyncMultiGPUParameterServerBuilder(4, "gpu"))
    assert sorted(places[weight] for weight in "abcd") == [f"device:CPU:{k}" for k in range(4)]
    assert all(places[weight] == places[f"{weight}/Momentum"] for weight in "abcd")


def test_parameter_server_on_the_cpu_keeps_variables_there(graph):
    places = places_of(SyncMultiGPUParameterServerBuilder(4, "cpu"))
    assert {places[weight] for weight in "abcd"} == {"device:CPU:0"}


@pytest.mark.parametrize("name", ["parameter-server-gpu", "replicated", "async"])
def test_computation_runs_on_every_tower(graph, name):
    places = places_of(BUILDERS[name]())
    for tower in range(4):
        # A shared variable is read where it lies.
        own = {op: device for op, device in places.items() if op.startswith(f"tower{tower}/")}
        computed = {device for op, device in own.items() if "ReadVariableOp" not in op}
        assert len(own) > 8
        assert computed == {f"device:CPU:{tower}"}


def test_sync_copies_variables_and_slots_from_the_main_tower(graph):
    result = build(SyncMultiGPUReplicatedBuilder(2))
    with run_steps(result, 2) as session:
        for variable in tf.global_variables():
            variable.load(np.full(variable.shape, 5.0), session)
        session.run(result.sync_op)
        for copy in tf.local_variables():
            np.testing.assert_array_equal(session.run(copy), np.full(copy.shape, 5.0))
    assert len(tf.local_variables()) == 8


def test_adam_advances_its_beta_powers_once_a_step_in_each_tower(graph):
    result = build(SyncMultiGPUReplicatedBuilder(4), tf.train.AdamOptimizer(0.1, beta1=0.5))
    with run_steps(result, 3) as session:
        powers = [v for v in tf.global_variables() + tf.local_variables() if "beta1_power" in v.op.name]
        np.testing.assert_allclose(session.run(powers), [0.5**4] * 4)


def test_asynchronous_adam_advances_its_beta_powers_once_an_update(graph):
    result = build(AsyncMultiGPUBuilder(4), tf.train.AdamOptimizer(0.1, beta1=0.5))
    with run_steps(result, 1) as session:
        [power] = [v for v in tf.global_variables() if "beta1_power" in v.op.name]
        np.testing.assert_allclose(session.run(power), 0.5**5)


@pytest.mark.parametrize("scale", [True, False])
def test_asynchronous_gradients_are_scaled(graph, scale):
    def constant_grad():
        return [(tf.ones([2]), tf.get_variable("w", [2], initializer=tf.zeros_initializer()))]

    def sparse_grad():
        table = tf.get_variable("table", [3, 2], initializer=tf.zeros_initializer())
        return [(tf.IndexedSlices(tf.ones([1, 2]), tf.constant([1]), tf.constant([3, 2])), table)]

    result = AsyncMultiGPUBuilder(4, scale).build(
        lambda: constant_grad() + sparse_grad(), lambda: tf.train.GradientDescentOptimizer(1.0)
    )
    with run_steps(result, 1) as session:
        dense, table = session.run(tf.trainable_variables())
    np.testing.assert_allclose(dense, [-1.0 if scale else -4.0] * 2)
    np.testing.assert_allclose(table, np.outer([0, dense[0], 0], [1, 1]))


def test_replicated_takes_a_reducer_or_the_name_of_a_mode():
    reducer = RoundRobinReducer()
    assert SyncMultiGPUReplicatedBuilder(2, mode=reducer).reducer is reducer
    assert isinstance(SyncMultiGPUReplicatedBuilder(2, mode="gpu").reducer, RoundRobinReducer)
    with pytest.raises(ConfigError, match="wanted one of cpu, .*got 'ring-a-ding'"):
        SyncMultiGPUReplicatedBuilder(2, mode="ring-a-ding")
    with pytest.raises(ConfigError, match="got 3"):
        SyncMultiGPUReplicatedBuilder(2, mode=3)
    with pytest.raises(ReductionError, match="3"):
        SyncMultiGPUReplicatedBuilder(3, mode="hierarchical")


def test_parameter_server_wants_cpu_or_gpu():
    with pytest.raises(ConfigError, match="ps_device must be one of cpu, gpu, got 'tpu'"):
        SyncMultiGPUParameterServerBuilder(2, "tpu")


@pytest.mark.parametrize("name", ["parameter-server-cpu", "replicated", "async"])
def test_a_gradient_of_one_tower_only_is_an_error(graph, name):
    def uneven():
        return grad_fn()[: 4 - (current_tower_context().index == 1)]

    with pytest.raises(TowerMismatchError, match=r"tower 0 alone has gradients of \[d\]"):
        BUILDERS[name]().build(uneven, lambda: tf.train.GradientDescentOptimizer(0.1))
