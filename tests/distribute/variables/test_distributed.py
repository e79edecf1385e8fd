"""What variables of several devices have in common: reading, differentiating, initialising, saving."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.sessions import cpu_session
from tests.helpers.strategies import FIRST, MEAN, ON_READ, SUM, devices_of, in_scope, started, values
from tpack.distribute.contexts import UpdateContext, get_tower_context
from tpack.distribute.variables.distributed import DistributedVariable, assign_to_components
from tpack.errors import StrategyError
from tpack.tower.context import PredictTowerContext


def make(name="v", value=2.0, **options):
    return tf.get_variable(name, [2], initializer=tf.constant_initializer(value), **options)


def read_from(tensor):
    """Return the name of the variable that a tensor is computed from."""
    while tensor.op.type != "VarHandleOp":
        tensor = tensor.op.inputs[0]
    return tensor.op.name


def readers(tensor):
    """Return the types of the operations by which variables get into a tensor."""
    inputs = tensor.op.inputs
    if any(part.dtype == tf.resource for part in inputs):
        return {tensor.op.type}
    return {kind for part in inputs for kind in readers(part)}


def test_what_it_is_is_what_its_first_component_is(graph):
    with in_scope():
        variable = make(constraint=tf.abs)
    first = variable.primary
    assert first is variable.components[0]
    assert (variable.name, variable.op, variable.graph) == (first.name, first.op, graph)
    assert (variable.dtype, variable.shape, variable.get_shape()) == (tf.float32, [2], [2])
    assert variable.trainable
    assert variable.constraint is tf.abs
    assert variable.synchronization == first.synchronization
    assert variable.initial_value is first.initial_value
    assert variable.ref().deref() is variable
    assert repr(variable) == "<MirroredVariable 'v' (2,) float32 on /device:CPU:0, /device:CPU:1>"


@pytest.mark.parametrize("options", [{}, {"max_norm": 1.0}], ids=str)
def test_of_a_table_only_the_rows_that_are_looked_up_are_read(options, session8):
    def tower():
        table = tf.get_variable("table", initializer=tf.reshape(tf.range(8.0), [4, 2]) / 8)
        ids = tf.sparse.from_dense([[1, 2], [3, 0]])
        looked_up = [
            tf.nn.embedding_lookup(table, [1, 3], **options),
            tf.nn.embedding_lookup([table, table], [2, 6], **options),
            tf.nn.embedding_lookup_sparse(table, ids, None, combiner="sum", **options),
        ]
        return looked_up, [tf.gradients(rows, table)[0] for rows in looked_up]

    with in_scope() as strategy:
        rows, grads = strategy.call_for_each_tower(tower)
        tensors, grads = ([part for value in parts for part in strategy.unwrap(value)] for parts in (rows, grads))
    assert all(isinstance(grad, tf.IndexedSlices) for grad in grads)
    assert {kind for tensor in tensors for kind in readers(tensor)} == {"ResourceGather"}
    expected = [[[0.25, 0.375], [0.75, 0.875]], [[0.25, 0.375], [0.75, 0.875]], [[0.75, 1.0], [0.75, 0.875]]]
    given = started(session8).run(tensors)
    if not options:
        np.testing.assert_allclose(given, np.repeat(expected, 2, axis=0))
    else:
        assert np.linalg.norm(given[:4], axis=-1).max() <= 1 + 1e-6


def test_rows_of_a_tower_local_table_are_those_of_its_aggregate_across_towers(session8):
    with in_scope():
        table = make(value=3.0, aggregation=SUM, synchronization=ON_READ)
        rows = [tf.gather(table, [1]), tf.gather_nd(table, [[1]]), tf.nn.embedding_lookup(table, [1])]
    np.testing.assert_array_equal(started(session8).run(rows), np.full([3, 1], 6.0))


def test_each_tower_reads_its_component(session8):
    def tower():
        variable = make()
        tensors = [variable.value(), variable.read_value(), variable * 1, tf.convert_to_tensor(variable)]
        tensors += [tf.gather(variable, [1]), tf.gather_nd(variable, [[1]]), variable[0], tf.identity(variable)]
        return tensors, variable.handle, variable.device, variable.component()

    with in_scope() as strategy:
        tensors, handles, devices, components = strategy.call_for_each_tower(tower)
        variable = tf.global_variables()[0]
        assert components is variable
        assert devices.index == {device: device for device in devices_of(2)}
        assert strategy.unwrap(handles) == [c.handle for c in variable.components]
        for tensor in tensors:
            assert [read_from(part) for part in strategy.unwrap(tensor)] == ["v", "v/replica_1"]
    first, second = variable.components
    started(session8).run(second.assign([5.0, 7.0]))
    assert [v[1].tolist() for v in (values(session8, t) for t in tensors[:4])] == [[5.0, 7.0]] * 4
    assert values(session8, tensors[4])[1].tolist() == [7.0]


def test_across_towers_the_current_device_s_component_is_read_or_the_first(graph):
    with in_scope(3):
        variable = make()
        assert read_from(variable.value()) == "v"
        assert variable.handle is variable.primary.handle
        with tf.device("/cpu:2"):
            assert variable.component() is variable.components[2]
            assert read_from(variable.value()) == "v/replica_2"
        with tf.device("/cpu:7"):
            assert variable.component() is variable.primary
        with UpdateContext("/device:CPU:1"):
            assert variable.component() is variable.components[1]


def test_outside_of_strategies_and_in_prediction_towers_it_can_be_read(session8):
    with in_scope():
        variable = make()
        local = make("local", synchronization=ON_READ, aggregation=SUM)
    with PredictTowerContext("predict", device="/cpu:5"):
        get_tower_context()
        read = [variable + 0, local + 0]
    fetched = started(session8).run([variable, local, *read, variable + 0])
    assert [number.tolist() for number in fetched] == [[2, 2], [4, 4], [2, 2], [4, 4], [2, 2]]


def test_gradients_are_those_of_the_tower_s_component(session8):
    def tower(factor):
        variable, table = make(), tf.get_variable("table", [3, 2])
        loss = tf.reduce_sum(variable**2 * factor) + tf.reduce_sum(tf.nn.embedding_lookup(table, [1]))
        dense, sparse = tf.gradients(loss, [variable, table])
        pairs = tf.train.GradientDescentOptimizer(1.0).compute_gradients(loss)
        assert [v.op.name for _, v in pairs] == ["v", "table"]
        return dense, sparse, pairs[0][0]

    with in_scope() as strategy:
        factors = strategy.call_for_each_tower(lambda: tf.constant(float(get_tower_context().tower_id + 1)))
        dense, sparse, by_optimizer = strategy.call_for_each_tower(tower, factors)
        assert all(isinstance(part, tf.IndexedSlices) for part in strategy.unwrap(sparse))
    started(session8)
    assert [v.tolist() for v in values(session8, dense)] == [[4.0, 4.0], [8.0, 8.0]]
    assert [v.tolist() for v in values(session8, by_optimizer)] == [[4.0, 4.0], [8.0, 8.0]]


def test_conditions_and_loops_in_a_tower_read_its_component(session8):
    def tower():
        variable = make()
        chosen = tf.cond(tf.constant(True), lambda: variable + 1, lambda: variable + 2)
        looped = tf.while_loop(lambda i, x: i < 2, lambda i, x: (i + 1, x + variable), (0, chosen))[1]
        return looped, tf.gradients(looped, variable)[0]

    with in_scope() as strategy:
        results = strategy.call_for_each_tower(tower)
    variable = tf.global_variables()[0]
    started(session8).run(variable.components[1].assign([10.0, 20.0]))
    assert [v.tolist() for v in values(session8, results[0])] == [[7.0, 7.0], [31.0, 61.0]]
    assert [v.tolist() for v in values(session8, results[1])] == [[3.0, 3.0]] * 2


def test_operations_depend_on_it_and_are_colocated_with_it(graph):
    with in_scope():
        variable = make()
        with tf.control_dependencies([variable]):
            after = tf.no_op()
        assert len(after.control_inputs) == 1
        with tf.device("/cpu:1"):
            grouped = tf.group(variable)
            with tf.colocate_with(variable):
                tensor = tf.constant(1.0)
    assert grouped.device == "/device:CPU:1"
    assert tensor.op.colocation_groups() == [b"loc:@v/replica_1"]


def test_initialising_reaches_all_components(session8):
    with in_scope():
        variable = make()
        before = variable.initialized_value()
    known = variable.is_initialized()
    missing = tf.report_uninitialized_variables()
    with tf.colocate_with(variable):
        session8.run(variable.is_initialized())
    assert not session8.run(known)
    assert session8.run(missing).tolist() == [b"v"]
    assert session8.run(before).tolist() == [2.0, 2.0]
    session8.run(variable.components[0].initializer)
    assert not session8.run(known)
    session8.run(tf.global_variables_initializer())
    assert session8.run(known)
    assert session8.run(missing).tolist() == []
    assert variable.eval(session8).tolist() == [2.0, 2.0]


def test_loading_reaches_all_components_and_adds_nothing_to_the_graph(session8):
    with in_scope():
        variable = make()
        count = tf.get_variable("n", [], tf.int64, tf.zeros_initializer(), synchronization=ON_READ, aggregation=SUM)
    started(session8)
    size = len(session8.graph.get_operations())
    variable.load([3.0, 4.0], session8)
    count.load(7)
    assert len(session8.graph.get_operations()) == size
    assert [v.tolist() for v in session8.run(variable.components)] == [[3.0, 4.0]] * 2
    assert session8.run(count.components) == [4, 3]


def test_a_value_can_be_assigned_to_all_components(session8):
    with in_scope():
        variable = make()
    started(session8).run(assign_to_components(variable, [1, 2]))
    assert [v.tolist() for v in session8.run(variable.components)] == [[1.0, 2.0]] * 2


def test_the_shape_can_be_declared(graph):
    with in_scope():
        variable = tf.get_variable(
            "v", initializer=lambda: tf.placeholder_with_default([1.0], [None]), shape=None, validate_shape=False
        )
    variable.set_shape([1])
    assert all(component.shape == [1] for component in variable.components)


@pytest.mark.parametrize("as_dict", [False, True])
def test_checkpoints_go_to_plain_variables_and_back(tmp_path, as_dict):
    def saver(variables):
        return tf.train.Saver({v.op.name: v for v in variables} if as_dict else variables)

    def make_all():
        make("v", value)
        make("summed", value, synchronization=ON_READ, aggregation=SUM)
        make("averaged", value, synchronization=ON_READ, aggregation=MEAN)
        make("first", value, synchronization=ON_READ, aggregation=FIRST)

    value, path = 6.0, str(tmp_path / "model")
    with tf.Graph().as_default() as graph, cpu_session(graph) as session:
        make_all()
        saver(tf.global_variables()).save(started(session), path)
    value = 0.0
    with tf.Graph().as_default() as graph, cpu_session(graph) as session:
        with in_scope(3):
            make_all()
        saver(tf.global_variables()).restore(started(session), path)
        held = {v.op.name: session.run(v.components) for v in tf.global_variables()}
        for name, wanted in {"v": 6.0, "summed": 2.0, "averaged": 6.0, "first": 6.0}.items():
            assert [v.tolist() for v in held[name]] == [[wanted] * 2] * 3
        session.run([v.components[1].assign_add([3.0, 3.0]) for v in tf.global_variables()[1:]])
        path = saver(tf.global_variables()).save(session, str(tmp_path / "other"))
    with tf.Graph().as_default() as graph, cpu_session(graph) as session:
        make_all()
        saver(tf.global_variables()).restore(started(session), path)
        assert session.run([v[0] for v in tf.global_variables()]) == [6.0, 9.0, 7.0, 6.0]
    assert sorted(name for name, _ in tf.train.list_variables(path)) == ["averaged", "first", "summed", "v"]


def test_a_saver_that_reshapes_restores_into_all_components(tmp_path):
    path = str(tmp_path / "model")
    with tf.Graph().as_default() as graph, cpu_session(graph) as session:
        tf.get_variable("v", initializer=np.float32([1, 2, 3, 4]))
        tf.train.Saver().save(started(session), path)
    with tf.Graph().as_default() as graph, cpu_session(graph) as session:
        with in_scope():
            variable = tf.get_variable("v", [2, 2])
        tf.train.Saver(reshape=True).restore(session, path)
        assert [v.tolist() for v in session.run(variable.components)] == [[[1.0, 2.0], [3.0, 4.0]]] * 2


def test_a_checkpoint_can_initialise_all_components(tmp_path):
    path = str(tmp_path / "model")
    with tf.Graph().as_default() as graph, cpu_session(graph) as session:
        make(value=6.0)
        tf.train.Saver().save(started(session), path)
    with tf.Graph().as_default() as graph, cpu_session(graph) as session:
        with in_scope():
            variable, total = make(), make("total", synchronization=ON_READ, aggregation=SUM)
        tf.train.init_from_checkpoint(path, {"v": variable})
        tf.train.init_from_checkpoint(path, {"v": total})
        started(session)
        assert [v.tolist() for v in session.run(variable.components)] == [[6.0, 6.0]] * 2
        assert [v.tolist() for v in session.run(total.components)] == [[3.0, 3.0]] * 2
        assert session.run(variable.initial_value).tolist() == [6.0, 6.0]


def test_an_object_based_checkpoint_restores_all_components(tmp_path, session8):
    with in_scope():
        variable = make()
    checkpoint = tf.train.Checkpoint(variable=variable)
    path = checkpoint.save(str(tmp_path / "model"), session=started(session8))
    session8.run(variable.assign([7.0, 8.0]))
    checkpoint.restore(path).assert_consumed().run_restore_ops(session8)
    assert [v.tolist() for v in session8.run(variable.components)] == [[2.0, 2.0]] * 2


@pytest.mark.parametrize("options", [{}, {"synchronization": ON_READ, "aggregation": SUM}])
def test_nothing_else_reaches_one_component_only(graph, options):
    with in_scope():
        variable = make(**options)
        with pytest.raises(StrategyError, match="v cannot count up to 3 on 2 devices"):
            variable.count_up_to(3)
        with pytest.raises(AttributeError, match="Variable has no attribute 'is_initialised'; its components may"):
            variable.is_initialised()
        with pytest.raises(TypeError, match="Python `bool` is not allowed"):
            bool(variable)
        with pytest.raises(TypeError, match="Iterating over a symbolic"):
            iter(variable)


def test_an_exported_graph_holds_a_plain_variable(graph):
    with in_scope():
        variable = make()
    with tf.Graph().as_default():
        tf.train.import_meta_graph(tf.train.export_meta_graph(graph=graph))
        (imported,) = tf.global_variables()
    assert variable.to_proto().variable_name == imported.name == "v:0"


def test_what_is_saved_is_for_a_subclass_to_say(graph):
    with in_scope():
        variable = make()
    with pytest.raises(NotImplementedError):
        DistributedVariable(variable.index, SUM)._saved_value()
