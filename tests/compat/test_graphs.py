"""Graphs that are being built, against public means to the same end."""

from concurrent.futures import ThreadPoolExecutor

import pytest
import tensorflow.compat.v1 as tf

from tpack.compat import graphs
from tpack.compat.graphs import (
    BaseVariable,
    BuildState,
    control_flow_of,
    current_control_dependencies,
    current_device,
    current_seed,
    is_building_gradient,
    is_in_loop_or_function,
    is_in_variable_store,
    keep_watching,
    last_loss_reduction,
    swap_graph_state,
    watch_operations,
)


def test_build_state_opens_the_same_scopes_in_another_thread(graph):
    tf.get_variable_scope()
    created = []

    def creator(next_creator, **kwargs):
        created.append(kwargs["name"])
        return next_creator(**kwargs)

    def build():
        state.install()
        with graph.as_default():
            with tf.variable_scope(None, default_name="layer"):
                variable = tf.get_variable("v", [])
            return variable, tf.constant(0, name="x")

    around = tf.variable_scope("vs"), tf.variable_creator_scope(creator), tf.device("/device:CPU:3")
    with around[0], around[1], around[2], tf.control_dependencies([tf.no_op(name="first")]):
        with tf.variable_scope(None, default_name="layer"):
            tf.no_op()
        state = BuildState(graph)
    with ThreadPoolExecutor(1) as pool:
        variable, x = pool.submit(build).result()
    assert (variable.op.name, x.op.name) == ("vs/layer_1/v", "vs/x")
    assert (x.device, [op.name for op in x.op.control_inputs]) == ("/device:CPU:3", ["vs/first"])
    assert created == ["vs/layer_1/v"]
    assert (tf.get_variable_scope().name, tf.constant(0).device) == ("", "")


def test_build_state_keeps_the_colocation(graph):
    variable = tf.get_variable("v", [])
    with graph.colocate_with(variable):
        state = BuildState(graph)

    def build():
        state.install()
        with graph.as_default():
            return tf.constant(0).op.colocation_groups()

    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(build).result() == [b"loc:@v"]


def test_swap_graph_state_closes_and_opens_blocks_that_the_graph_keeps(graph):
    outside = swap_graph_state(graph)
    with graph.container("inner"), graph.gradient_override_map({"Square": "Mine"}):
        inside = swap_graph_state(graph, outside)
        plain = tf.Variable(1.0), tf.square(1.0)
        assert swap_graph_state(graph, inside)["_container"] == ""
        marked = tf.Variable(1.0), tf.square(1.0)
    attributes = [
        (variable.op.get_attr("container"), square.op.node_def.attr["_gradient_op_type"].s)
        for variable, square in (plain, marked)
    ]
    assert attributes == [(b"", b""), (b"inner", b"Mine")]
    assert graph._container == ""


def test_control_flow_of_is_a_loop_of_tensorflow_1(graph):
    seen = []
    assert control_flow_of(graph) is None
    tf.disable_control_flow_v2()
    try:
        tf.while_loop(lambda i: i < 3, lambda i: [seen.append(control_flow_of(graph)), i + 1][1], [0])
    finally:
        tf.enable_control_flow_v2()
    assert [type(loop).__name__ for loop in seen] == ["WhileContext"]


def test_code_of_loops_and_functions_may_run_several_times_and_that_of_conditions_not(graph):
    seen = {}

    def note(where):
        seen[where] = is_in_loop_or_function(tf.get_default_graph())
        return tf.constant(0)

    def loop(where):
        return tf.while_loop(lambda i: i < 3, lambda i: [note(where), i + 1][1], [0])

    note("graph")
    loop("loop")
    tf.cond(tf.placeholder(tf.bool), lambda: note("condition"), lambda: loop("loop in condition"))
    tf.disable_control_flow_v2()
    try:
        loop("old loop")
        tf.cond(tf.placeholder(tf.bool), lambda: note("old condition"), lambda: loop("loop in old condition"))
    finally:
        tf.enable_control_flow_v2()
    assert {where for where, found in seen.items() if not found} == {"graph", "condition", "old condition"}
    assert len(seen) == 7


def test_a_gradient_that_is_being_built_is_known(graph):
    seen = []

    @tf.custom_gradient
    def watched(x):
        return x + 1, lambda grad: [seen.append(is_building_gradient(graph)), grad][1]

    x = tf.constant(1.0)
    tf.gradients(watched(x), x)
    assert (seen, is_building_gradient(graph)) == ([True], False)


def test_current_seed_is_that_of_the_graph_or_of_eager_mode():
    with tf.Graph().as_default():
        assert current_seed() is None
        tf.set_random_seed(3)
        assert current_seed() == 3
    assert current_seed() is None
    tf.set_random_seed(4)
    assert current_seed() == 4
    tf.set_random_seed(None)


@pytest.mark.parametrize("missing", [(), ("VariableStore._vars",)])
def test_is_in_variable_store_for_what_get_variable_made(graph, monkeypatch, missing):
    monkeypatch.setattr(graphs, "missing_names", lambda feature: missing)
    made = tf.get_variable("a", [], use_resource=True), tf.Variable(1.0, name="a"), tf.Variable(1.0)
    assert [is_in_variable_store(variable) for variable in made] == [True, False, False]


def test_current_device_and_control_dependencies_are_those_of_an_operation_that_is_made_now(graph):
    assert (current_device(), current_control_dependencies()) == ("", [])
    before = [tf.no_op(), tf.no_op()]
    with tf.device("/job:worker/cpu:1"), tf.control_dependencies(before):
        operation = tf.no_op()
        assert current_device() == operation.device == "/job:worker/device:CPU:1"
        assert set(current_control_dependencies()) == set(operation.control_inputs) == set(before)
    with tf.device(lambda op: "/device:GPU:3" if op.type == "VarHandleOp" else "/device:CPU:2"):
        assert current_device() == "/device:CPU:2"


def test_operations_are_watched_when_they_are_made(graph):
    seen = []

    def watch(operation):
        seen.append(operation.name)
        if operation.type == "NoOp":
            raise KeyError(operation.name)

    with watch_operations(watch):
        before = tf.constant(1.0, name="a")
        with tf.device("/cpu:1"), tf.get_default_graph().colocate_with(before), tf.control_dependencies([before.op]):
            tf.identity(before, name="b")
        assert current_control_dependencies() == []
        with pytest.raises(KeyError, match="c"):
            tf.no_op(name="c")
        with tf.control_dependencies(None):
            tf.no_op(name="unseen")
    tf.no_op(name="after")
    assert seen == ["a", "b", "c"]


def test_operations_are_watched_from_now_on_and_each_once(graph):
    seen = []

    def watch(operation):
        seen.append(operation.name)

    tf.no_op(name="before")
    with tf.control_dependencies([tf.no_op(name="also_before")]):
        keep_watching(watch)
        keep_watching(watch)
        tf.no_op(name="a")
    tf.no_op(name="b")
    assert current_control_dependencies() == []
    with tf.Graph().as_default(), tf.control_dependencies(None):
        tf.no_op(name="of_another_graph")
        keep_watching(watch)
        tf.no_op(name="c")
    with tf.control_dependencies(None):
        tf.no_op(name="unseen")
    assert seen == ["a", "b", "c"]


def test_last_loss_reduction_is_that_of_the_last_loss(graph):
    assert last_loss_reduction() is None
    tf.losses.mean_squared_error([1.0], [2.0], reduction=tf.losses.Reduction.SUM)
    assert last_loss_reduction() == tf.losses.Reduction.SUM


def test_base_variable_is_a_base_of_all_variables(graph):
    for use_resource in (True, False):
        assert isinstance(tf.get_variable(f"v{use_resource}", [], use_resource=use_resource), BaseVariable)
