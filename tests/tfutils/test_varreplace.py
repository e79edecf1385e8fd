"""Variables that are frozen or replaced, in every tower of every builder."""

from typing import Any

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.sessions import cpu_session
from tpack.graph_builder.cost import GradientOptions, make_grad_fn
from tpack.graph_builder.predict import build_predict_tower
from tpack.graph_builder.replicated import SyncMultiGPUReplicatedBuilder
from tpack.graph_builder.towers import AsyncMultiGPUBuilder, SimpleBuilder, SyncMultiGPUParameterServerBuilder
from tpack.tfutils.varreplace import custom_getter_scope, freeze_variables, remap_variables
from tpack.tower.getters import compute_in
from tpack.tower.tower_func import TowerFunc

BUILDERS = {
    "simple": SimpleBuilder,
    "replicated": lambda: SyncMultiGPUReplicatedBuilder(3),
    "ps-cpu": lambda: SyncMultiGPUParameterServerBuilder(3, "cpu"),
    "ps-gpu": lambda: SyncMultiGPUParameterServerBuilder(3, "gpu"),
    "async": lambda: AsyncMultiGPUBuilder(3),
}


def weight(name: str, value: float, **options: Any) -> Any:
    return tf.get_variable(name, [], initializer=tf.constant_initializer(value), use_resource=True, **options)


def train(builder: Any, model: Any, num_steps: int = 3) -> tuple[list[dict[str, float]], float]:
    """Train `model` by gradient descent of rate 0.5; return the variables of each tower, and the prediction for 1."""
    with tf.Graph().as_default() as graph:
        optimizer = tf.train.GradientDescentOptimizer(0.5)
        tower_func = TowerFunc(model, [tf.TensorSpec([], tf.float32, "x")])
        grad_fn = make_grad_fn(lambda: [tf.constant(1.0)], tower_func, lambda: optimizer, GradientOptions())
        result = builder.build(grad_fn, lambda: optimizer)
        handle = build_predict_tower(tower_func, [tf.constant(1.0)], name="predict")
        with cpu_session(graph, num_cpus=3) as session:
            session.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
            if result.init_op is not None:
                session.run(result.init_op)
            for _ in range(num_steps):
                session.run(result.train_op)
            towers = []
            for tower in result.towers:
                variables = tower.recorder.variables or result.towers[0].recorder.variables
                names = [v.op.name.removeprefix(f"{tower.vs_name}/") for v in variables]
                towers.append(dict(zip(names, session.run(variables), strict=True)))
            return towers, session.run(handle["prediction"])


@pytest.mark.parametrize("builder", BUILDERS)
@pytest.mark.parametrize("options", [{}, {"stop_gradient": False, "skip_collection": True}, {"skip_collection": True}])
def test_frozen_variables_are_trained_in_no_tower(builder: str, options: dict[str, bool]) -> None:
    def model(x: Any) -> Any:
        with freeze_variables(**options), tf.variable_scope("backbone"):
            feature = weight("W", 3.0) * x + weight("b", 1.0)
        prediction = tf.add(feature, weight("head", 0.0), name="prediction")
        return tf.square(prediction, name="cost") / 2

    towers, prediction = train(BUILDERS[builder](), model)
    # The head alone has to make up for 4, and halves the error at each step.
    head = {"async": None}.get(builder, -3.5)
    for values in towers:
        assert (values["backbone/W"], values["backbone/b"]) == (3, 1)
        assert head is None or values["head"] == head
        assert values["head"] < -1
    assert prediction == pytest.approx(4 + towers[0]["head"])


@pytest.mark.parametrize("builder", BUILDERS)
def test_remapped_variables_are_used_in_every_tower(builder: str) -> None:
    def model(x: Any) -> Any:
        with remap_variables(lambda var: 2 * var if var.op.name.endswith("W") else var):
            prediction = tf.add(weight("W", 1.0) * x, weight("b", 0.0), name="prediction")
        return tf.square(prediction) / 2

    towers, prediction = train(BUILDERS[builder](), model, 1)
    # The error is 2, so the gradient of W is 4 and that of b is 2. Asynchronous updates add up to the same or less.
    if builder != "async":
        assert towers == [{"W": -1, "b": -1}] * len(towers)
    assert prediction == pytest.approx(2 * towers[0]["W"] + towers[0]["b"])


def test_stop_gradient_leaves_the_variable_in_the_collection(graph: Any) -> None:
    with freeze_variables():
        frozen = weight("W", 1.0)
    with freeze_variables(skip_collection=True, stop_gradient=False):
        skipped = weight("V", 1.0)
    assert [v.op.name for v in tf.trainable_variables()] == ["W"]
    assert isinstance(frozen, tf.Tensor)
    assert tf.gradients(frozen * 3, tf.trainable_variables()) == [None]
    assert skipped is tf.global_variables()[1]
    assert tf.model_variables() == [skipped]


@pytest.mark.parametrize("stop_gradient", [True, False])
def test_frozen_variables_are_part_of_the_model_in_16_bits_too(graph: Any, stop_gradient: bool) -> None:
    with compute_in(tf.bfloat16), freeze_variables(stop_gradient, skip_collection=True), freeze_variables():
        weight("W", 1.0)
        weight("counter", 1.0, trainable=False)
    assert [v.op.name for v in tf.model_variables()] == ["W"]
    assert tf.trainable_variables() == []


def test_variables_that_are_not_trained_keep_their_updates(session8: Any) -> None:
    with freeze_variables(skip_collection=True):
        moving = weight("moving", 1.0, trainable=False)
    update = moving.assign_add(1.0)
    session8.run(tf.global_variables_initializer())
    assert session8.run(update) == 2


def test_blocks_may_be_nested_and_end(session8: Any) -> None:
    def add_one(getter: Any, *args: Any, **kwargs: Any) -> Any:
        return getter(*args, **kwargs) + 1

    with remap_variables(lambda var: var * 10), freeze_variables(), custom_getter_scope(add_one):
        nested = weight("a", 2.0)
    plain = weight("b", 2.0)
    session8.run(tf.global_variables_initializer())
    assert session8.run([nested, plain]) == [21, 2]
    assert plain is tf.global_variables()[1]
    with pytest.raises(KeyError), freeze_variables():
        raise KeyError
    assert weight("c", 0.0) is tf.global_variables()[2]


def test_names_and_shared_variables_stay(graph: Any) -> None:
    with tf.variable_scope("scope"), tf.name_scope("ns"):
        weight("W", 1.0)
        with tf.variable_scope(tf.get_variable_scope(), reuse=True), remap_variables(lambda var: var):
            again = weight("W", 1.0)
    assert again is tf.global_variables()[0]
    np.testing.assert_array_equal([v.op.name for v in tf.global_variables()], ["scope/W"])


def test_operations_made_of_variables_are_in_the_name_scope_of_the_block(graph: Any) -> None:
    with tf.name_scope("tower1"), freeze_variables():
        frozen = weight("W", 3.0)
        with tf.name_scope("layer"), remap_variables(lambda variable: tf.add(variable, 1.0, name="more")):
            remapped = weight("b", 1.0)
    assert [frozen.op.name, remapped.op.name] == ["tower1/frozen", "tower1/layer/more"]
    with freeze_variables():
        assert weight("c", 1.0).op.name == "frozen"
