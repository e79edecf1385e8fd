"""What all builders promise; that they give the right weights is in tests/integration/test_equivalence.py."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.builders import build, grad_fn, places_of, run_steps
from tpack.errors import GraphBuildError, TowerMismatchError
from tpack.graph_builder.replicated import SyncMultiGPUReplicatedBuilder
from tpack.graph_builder.towers import AsyncMultiGPUBuilder, SimpleBuilder, SyncMultiGPUParameterServerBuilder
from tpack.tower.context import current_tower_context

BUILDERS = {
    "simple": SimpleBuilder,
    "parameter-server-cpu": lambda: SyncMultiGPUParameterServerBuilder(4, "cpu"),
    "parameter-server-gpu": lambda: SyncMultiGPUParameterServerBuilder(4, "gpu"),
    "replicated": lambda: SyncMultiGPUReplicatedBuilder(4),
    "async": lambda: AsyncMultiGPUBuilder(4),
}


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
    with pytest.raises(GraphBuildError, match=r"optimizer\(\) returned an object: expected a tf.compat.v1.train"):
        build(BUILDERS[name](), object())


@pytest.mark.parametrize("name", ["parameter-server-gpu", "replicated", "async"])
def test_computation_runs_on_every_tower(graph, name):
    places = places_of(BUILDERS[name]())
    for tower in range(4):
        # A shared variable is read where it lies.
        own = {op: device for op, device in places.items() if op.startswith(f"tower{tower}/")}
        computed = {device for op, device in own.items() if "ReadVariableOp" not in op}
        assert len(own) > 8
        assert computed == {f"/device:CPU:{tower}"}


@pytest.mark.parametrize("name", ["parameter-server-cpu", "replicated", "async"])
def test_a_gradient_of_one_tower_only_is_an_error(graph, name):
    def uneven():
        return grad_fn()[: 4 - (current_tower_context().index == 1)]

    with pytest.raises(TowerMismatchError, match=r"tower 0 alone has gradients of \[d\]"):
        BUILDERS[name]().build(uneven, lambda: tf.train.GradientDescentOptimizer(0.1))


@pytest.mark.parametrize("builder", [SyncMultiGPUReplicatedBuilder, SyncMultiGPUParameterServerBuilder])
def test_a_result_has_the_trained_variables_of_each_tower(graph, builder):
    rows = build(builder(3)).variables
    assert [variable.op.name for variable in rows[0]] == ["a", "b", "c", "d"]
    if builder is SyncMultiGPUReplicatedBuilder:
        assert [variable.op.name for variable in rows[2]] == [f"tower2/{name}" for name in "abcd"]
    else:
        assert all(a is b for row in rows for a, b in zip(row, rows[0], strict=True))
