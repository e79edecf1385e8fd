"""What tpack uses of TensorFlow below its public interface, against public means to the same end."""

import json
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import tensorflow
import tensorflow.compat.v1 as tf

from tpack import compat


def test_version_is_the_installed_one(monkeypatch):
    assert compat.get_tf_version_tuple() == tuple(int(part) for part in tensorflow.__version__.split(".")[:2])
    assert compat.is_tfv2()
    monkeypatch.setattr(tensorflow, "__version__", "2.17.0-rc1")
    assert compat.get_tf_version_tuple() == (2, 17)
    monkeypatch.setattr(tensorflow, "__version__", "1.15.5")
    assert not compat.is_tfv2()


def test_tfv1_is_the_compatible_interface():
    assert compat.tfv1 is tf


def test_collective_all_reduce_sums_over_devices(session8, rng):
    values = rng.normal(size=(4, 3, 2)).astype("float32")
    sums = []
    for k, value in enumerate(values):
        with tf.device(f"/device:CPU:{k}"):
            summand = tf.constant(value)
            sums.append(compat.collective_all_reduce(summand, group_size=4, group_key=1, instance_key=7))
    assert [t.op.device for t in sums] == [f"/device:CPU:{k}" for k in range(4)]
    for total in session8.run(sums):
        np.testing.assert_allclose(total, values.sum(0), rtol=1e-5)


def test_collective_all_reduce_passes_its_options_on(graph):
    total = compat.collective_all_reduce(
        tf.constant([1.0]), group_size=2, group_key=3, instance_key=4, hint="ring", timeout_secs=1.5
    )
    attributes = ("group_size", "group_key", "instance_key", "communication_hint", "timeout_seconds", "merge_op")
    assert [total.op.get_attr(name) for name in attributes] == [2, 3, 4, b"ring", 1.5, b"Add"]


def test_a_multi_device_iterator_deals_elements_out(session8):
    devices = ["/device:CPU:1", "/device:CPU:2"]
    iterator = compat.make_multi_device_iterator(tf.data.Dataset.range(5), devices, buffer_size=2)
    elements = iterator.get_next()
    session8.run(iterator.initializer)
    assert [element.device for element in elements] == devices
    assert [session8.run(elements), session8.run(elements)] == [[0, 1], [2, 3]]


def test_nccl_all_sum_builds_one_op_on_each_device(graph):
    tensors = []
    for k in range(3):
        with tf.device(f"/device:GPU:{k}"):
            tensors.append(tf.constant([1.0, 2.0]))
    sums = compat.nccl_all_sum(tensors)
    assert [t.op.type for t in sums] == ["NcclAllReduce"] * 3
    assert [t.device for t in sums] == [f"/device:GPU:{k}" for k in range(3)]
    assert len({t.op.get_attr("shared_name") for t in sums}) == 1
    assert {t.op.get_attr("reduction") for t in sums} == {b"sum"}
    assert {tuple(t.shape) for t in sums} == {(2,)}


@pytest.mark.parametrize("in_caller_thread", [False, True])
def test_make_callable_gives_what_session_run_gives(session8, rng, in_caller_thread):
    a, b = tf.placeholder(tf.float32, [None, 3]), tf.placeholder(tf.float32, [3])
    count = tf.get_variable("count", initializer=0, use_resource=True)
    fetches = [a * b, tf.reduce_sum(a)]
    session8.run(count.initializer)
    call = compat.make_callable(
        session8, feeds=[a, b], fetches=fetches, targets=[count.assign_add(1).op], in_caller_thread=in_caller_thread
    )
    for step in range(1, 4):
        arrays = rng.normal(size=(step, 3)).astype("float32"), rng.normal(size=3).astype("float32")
        for got, expected in zip(call(*arrays), session8.run(fetches, {a: arrays[0], b: arrays[1]}), strict=True):
            np.testing.assert_allclose(got, expected, rtol=1e-6)
        assert session8.run(count) == step


def test_make_callable_wakes_up_when_another_thread_feeds_a_queue(session8):
    queue = tf.FIFOQueue(1, [tf.int32], [[]])
    enqueue, dequeue = queue.enqueue(7), queue.dequeue()
    call = compat.make_callable(session8, fetches=[dequeue], in_caller_thread=True)
    coordinator = tf.train.Coordinator()
    thread = tf.train.LooperThread(
        coordinator, None, target=lambda: (session8.run(enqueue), coordinator.request_stop())
    )
    thread.start()
    assert call() == [7]
    thread.join()


def test_make_callable_gives_up_after_its_timeout(session8):
    queue = tf.FIFOQueue(1, [tf.int32], [[]])
    call = compat.make_callable(session8, fetches=[queue.dequeue()], timeout_in_ms=20)
    with pytest.raises(tf.errors.DeadlineExceededError):
        call()


def test_chrome_trace_names_the_operations_of_the_run(session8):
    metadata = tf.RunMetadata()
    matrix, traced = tf.placeholder(tf.float32, [2, 2]), tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE)
    product = tf.matmul(matrix, matrix, name="product")
    session8.run(product, {matrix: np.eye(2)}, options=traced, run_metadata=metadata)
    events = json.loads(compat.chrome_trace(metadata))["traceEvents"]
    assert "product" in {event.get("args", {}).get("name") for event in events}


def test_local_devices_are_those_of_a_session_with_the_same_config(graph):
    config = tf.ConfigProto(device_count={"CPU": 3})
    with tf.Session(config=config) as session:
        wanted = [device.name.replace("/job:localhost/replica:0/task:0", "") for device in session.list_devices()]
    assert [device.name for device in compat.list_local_devices(config)] == wanted
    assert "/device:CPU:0" in [device.name for device in compat.list_local_devices()]


def test_onednn_is_enabled_where_pooling_works_with_the_channels_first(session8):
    with tf.device("/device:CPU:0"):
        pooled = tf.nn.max_pool2d(tf.Variable(tf.ones([1, 1, 2, 2])), 2, 2, "VALID", data_format="NCHW")
    session8.run(tf.global_variables_initializer())
    try:
        session8.run(pooled)
    except tf.errors.InvalidArgumentError:
        assert not compat.is_onednn_enabled()
    else:
        assert compat.is_onednn_enabled()


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
        state = compat.BuildState(graph)
    with ThreadPoolExecutor(1) as pool:
        variable, x = pool.submit(build).result()
    assert (variable.op.name, x.op.name) == ("vs/layer_1/v", "vs/x")
    assert (x.device, [op.name for op in x.op.control_inputs]) == ("/device:CPU:3", ["vs/first"])
    assert created == ["vs/layer_1/v"]
    assert (tf.get_variable_scope().name, tf.constant(0).device) == ("", "")


def test_build_state_keeps_the_colocation(graph):
    variable = tf.get_variable("v", [])
    with graph.colocate_with(variable):
        state = compat.BuildState(graph)

    def build():
        state.install()
        with graph.as_default():
            return tf.constant(0).op.colocation_groups()

    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(build).result() == [b"loc:@v"]


def test_swap_graph_state_closes_and_opens_blocks_that_the_graph_keeps(graph):
    outside = compat.swap_graph_state(graph)
    with graph.container("inner"), graph.gradient_override_map({"Square": "Mine"}):
        inside = compat.swap_graph_state(graph, outside)
        plain = tf.Variable(1.0), tf.square(1.0)
        assert compat.swap_graph_state(graph, inside)["_container"] == ""
        marked = tf.Variable(1.0), tf.square(1.0)
    attributes = [
        (variable.op.get_attr("container"), square.op.node_def.attr["_gradient_op_type"].s)
        for variable, square in (plain, marked)
    ]
    assert attributes == [(b"", b""), (b"inner", b"Mine")]
    assert graph._container == ""


def test_control_flow_of_is_a_loop_of_tensorflow_1(graph):
    seen = []
    assert compat.control_flow_of(graph) is None
    tf.disable_control_flow_v2()
    try:
        tf.while_loop(lambda i: i < 3, lambda i: [seen.append(compat.control_flow_of(graph)), i + 1][1], [0])
    finally:
        tf.enable_control_flow_v2()
    assert [type(loop).__name__ for loop in seen] == ["WhileContext"]


def test_code_of_loops_and_functions_may_run_several_times_and_that_of_conditions_not(graph):
    seen = {}

    def note(where):
        seen[where] = compat.is_in_loop_or_function(tf.get_default_graph())
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
        return x + 1, lambda grad: [seen.append(compat.is_building_gradient(graph)), grad][1]

    x = tf.constant(1.0)
    tf.gradients(watched(x), x)
    assert (seen, compat.is_building_gradient(graph)) == ([True], False)


def test_current_seed_is_that_of_the_graph_or_of_eager_mode():
    with tf.Graph().as_default():
        assert compat.current_seed() is None
        tf.set_random_seed(3)
        assert compat.current_seed() == 3
    assert compat.current_seed() is None
    tf.set_random_seed(4)
    assert compat.current_seed() == 4
    tf.set_random_seed(None)


def test_run_after_adds_an_order(graph):
    first, second = tf.constant(1), tf.constant(2)
    compat.run_after(second.op, [first.op])
    assert second.op.control_inputs == [first.op]


def test_is_in_variable_store_for_what_get_variable_made(graph):
    made = tf.get_variable("a", [], use_resource=True), tf.Variable(1.0, name="a"), tf.Variable(1.0)
    assert [compat.is_in_variable_store(variable) for variable in made] == [True, False, False]


def test_current_device_and_control_dependencies_are_those_of_an_operation_that_is_made_now(graph):
    assert (compat.current_device(), compat.current_control_dependencies()) == ("", [])
    before = [tf.no_op(), tf.no_op()]
    with tf.device("/job:worker/cpu:1"), tf.control_dependencies(before):
        operation = tf.no_op()
        assert compat.current_device() == operation.device == "/job:worker/device:CPU:1"
        assert set(compat.current_control_dependencies()) == set(operation.control_inputs) == set(before)
    with tf.device(lambda op: "/device:GPU:3" if op.type == "VarHandleOp" else "/device:CPU:2"):
        assert compat.current_device() == "/device:CPU:2"


def test_operations_are_watched_when_they_are_made(graph):
    seen = []

    def watch(operation):
        seen.append(operation.name)
        if operation.type == "NoOp":
            raise KeyError(operation.name)

    with compat.watch_operations(watch):
        before = tf.constant(1.0, name="a")
        with tf.device("/cpu:1"), tf.get_default_graph().colocate_with(before), tf.control_dependencies([before.op]):
            tf.identity(before, name="b")
        assert compat.current_control_dependencies() == []
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
        compat.keep_watching(watch)
        compat.keep_watching(watch)
        tf.no_op(name="a")
    tf.no_op(name="b")
    assert compat.current_control_dependencies() == []
    with tf.Graph().as_default(), tf.control_dependencies(None):
        tf.no_op(name="of_another_graph")
        compat.keep_watching(watch)
        tf.no_op(name="c")
    with tf.control_dependencies(None):
        tf.no_op(name="unseen")
    assert seen == ["a", "b", "c"]


def test_last_loss_reduction_is_that_of_the_last_loss(graph):
    assert compat.last_loss_reduction() is None
    tf.losses.mean_squared_error([1.0], [2.0], reduction=tf.losses.Reduction.SUM)
    assert compat.last_loss_reduction() == tf.losses.Reduction.SUM


def test_base_variable_is_a_base_of_all_variables(graph):
    for use_resource in (True, False):
        assert isinstance(tf.get_variable(f"v{use_resource}", [], use_resource=use_resource), compat.BaseVariable)


def test_xla_compiles_what_is_marked_and_tells_for_which_dtypes(graph):
    product = tf.constant([[2.0]]) @ tf.placeholder(tf.float32, [1, 1])
    assert not compat.is_marked_for_compilation(product.op)
    compat.mark_for_compilation(product.op, "scope")
    assert compat.is_marked_for_compilation(product.op)
    with tf.Session() as session:
        session.run(tf.no_op())
    dtypes = [kernel["T"] for kernel in compat.compiled_kernels("MatMul", "CPU")]
    assert any(tf.float32.as_datatype_enum in each for each in dtypes)
    assert not any(tf.string.as_datatype_enum in each for each in dtypes)
    assert compat.compiled_kernels("PyFunc", "CPU") == []
