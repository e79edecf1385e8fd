"""A compiled copy of a step shares what holds values with the step, and nothing else."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tpack.compat.operations import is_marked_for_compilation, run_after
from tpack.errors import ConfigError
from tpack.step.fetch_plan import CompiledCopy, FetchPlan


def test_both_steps_go_on_where_the_last_one_ended(graph):
    x = tf.placeholder(tf.float32, [], name="x")
    before = tf.multiply(x, 2.0, name="before")
    weight = tf.get_variable("weight", [], initializer=tf.ones_initializer(), use_resource=True)
    with tf.control_dependencies([before]):
        product = tf.tanh(weight.read_value() * before, name="product")
    after = tf.add(product, 1.0, name="after")
    with tf.control_dependencies([after]):
        update = weight.assign_add(1.0, read_value=False, name="update")
    copy = CompiledCopy({product.op: "scope"})
    names = {op.name for op in graph.get_operations() if op.name.startswith("compiled/")}
    assert {"compiled/product", "compiled/after", "compiled/update"} <= names
    assert not names & {"compiled/x", "compiled/before", "compiled/weight"}
    marked = [op.name for op in graph.get_operations() if is_marked_for_compilation(op)]
    assert marked == ["compiled/product"]
    assert copy.in_place_of(before) is before
    with tf.Session() as session:
        session.run(weight.initializer)
        plain = FetchPlan(session, {"after": after, "all": [update, "before:0"]}, [x])
        compiled = plain.with_others(copy.in_place_of)
        assert FetchPlan(session, [before], [x]).with_others(copy.in_place_of).run(np.float32(3)) == [6.0]
        for number, plan in enumerate([plain, compiled, compiled, plain], start=1):
            values = plan.run(np.float32(0.1))
            assert values["after"] == pytest.approx(1 + session.run(tf.tanh(number * 0.2)), rel=1e-5)
            assert values["all"] == [None, pytest.approx(0.2)]
            assert session.run(weight) == number + 1


def test_what_is_fed_inside_the_step_is_fed_inside_the_copy(graph):
    product = tf.tanh(tf.constant(0.5), name="product")
    total = product + 1.0
    copy = CompiledCopy({product.op: "scope"})
    with tf.Session() as session:
        plan = FetchPlan(session, [total, product], [product]).with_others(copy.in_place_of)
        assert plan.run(np.float32(5)) == [6.0, 5.0]


def test_what_waits_for_something_made_later_is_copied(graph):
    early = tf.no_op(name="early")
    product = tf.tanh(tf.constant(0.5), name="product")
    run_after(early, [product.op])
    copy = CompiledCopy({product.op: "scope"})
    assert [op.name for op in copy.in_place_of(early).control_inputs] == ["compiled/product"]


def _draw(x):
    tf.raw_ops.RandomUniform(shape=tf.cast(x, tf.int32), dtype=tf.float32, name="drawn")


def _make_variable(x):
    with tf.control_dependencies([x]):
        tf.raw_ops.VarHandleOp(dtype=tf.float32, shape=[], name="late")


def _loop(x):
    tf.raw_ops.Enter(data=x, frame_name="frame", name="into")


@pytest.mark.parametrize(
    ("use", "message"),
    [
        (_draw, r"drawn \(RandomUniform\) keeps something from one step to the next"),
        (_make_variable, r"late \(VarHandleOp\) keeps something"),
        (_loop, r"into \(Enter\) is a part of a loop of TensorFlow 1"),
    ],
    ids=["random", "variable", "loop"],
)
def test_what_the_steps_could_not_share_is_an_error(graph, use, message):
    x = tf.tanh(tf.constant([2.0]))
    use(x)
    before = len(graph.get_operations())
    with pytest.raises(ConfigError, match=message):
        CompiledCopy({x.op: "scope"})
    assert len(graph.get_operations()) == before
