import pytest
import tensorflow.compat.v1 as tf

from tpack.errors import CheckpointError, DeviceError
from tpack.tfutils.determinism import create_initialized_session, initialize_variables, order_sums
from tpack.tfutils.sesscreate import NewSessionCreator, ReuseSessionCreator, SessionCreatorAdapter, makes_new_sessions
from tpack.tfutils.sessinit import DictRestore, JustCurrentSession


def test_global_and_local_variables_and_tables_get_their_values(graph):
    a = tf.get_variable("a", initializer=1.0)
    b = tf.get_variable("b", initializer=2.0, collections=[tf.GraphKeys.LOCAL_VARIABLES])
    table = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(["x"], [3]), -1)
    found = table.lookup(tf.constant("x"))
    with tf.Session() as session:
        initialize_variables(session)
        assert session.run([a, b, found]) == [1.0, 2.0, 3]


def test_variables_that_have_a_value_keep_it(graph):
    a, b = tf.get_variable("a", initializer=1.0), tf.get_variable("b", initializer=2.0)
    with tf.Session() as session:
        a.load(5.0, session)
        initialize_variables(session)
        assert session.run([a, b]) == [5.0, 2.0]


def test_a_graph_without_variables_is_fine(graph):
    with tf.Session() as session:
        initialize_variables(session)
    assert tf.global_variables() == []


def test_excepted_variables_are_left_without_a_value(graph):
    a, b = tf.get_variable("a", initializer=1.0), tf.get_variable("b", initializer=2.0)
    with tf.Session() as session:
        initialize_variables(session, except_for=[a])
        assert session.run([tf.is_variable_initialized(a), tf.is_variable_initialized(b)]) == [False, True]


def test_sums_are_ordered_unless_the_session_was_handed_over(graph):
    total = tf.add_n([tf.constant(1.0), tf.constant(2.0), tf.constant(3.0)])
    with tf.Session() as session:
        order_sums(graph, ReuseSessionCreator(session))
        assert "_forward_input" not in total.op.node_def.attr
        order_sums(graph, NewSessionCreator())
        assert "_forward_input" in total.op.node_def.attr


def test_a_created_session_has_all_values(graph):
    a, b = tf.get_variable("a", initializer=1.0), tf.get_variable("b", initializer=2.0)
    with create_initialized_session(NewSessionCreator(), DictRestore({"b": 7.0})) as session:
        assert session.run([a, b]) == [1.0, 7.0]


def test_a_session_that_cannot_be_initialized_is_closed_unless_it_was_handed_over(graph):
    a = tf.get_variable("a", initializer=1.0)
    made = []
    creator = SessionCreatorAdapter(NewSessionCreator(), lambda session: made.append(session) or session)
    with pytest.raises(CheckpointError, match="do not fit"):
        create_initialized_session(creator, DictRestore({"a": [1.0, 2.0]}))
    with pytest.raises(RuntimeError, match="closed"):
        made[0].run(a)
    with tf.Session() as session:
        with pytest.raises(CheckpointError, match="do not fit"):
            create_initialized_session(ReuseSessionCreator(session), DictRestore({"a": [1.0, 2.0]}))
        assert session.run(a) == 1.0


def test_a_session_without_the_devices_is_refused(graph):
    with tf.device("/cpu:5"):
        tf.constant(1.0)
    with tf.Session() as session, pytest.raises(DeviceError, match="/device:CPU:5"):
        create_initialized_session(ReuseSessionCreator(session), JustCurrentSession())


class _Trained(NewSessionCreator):
    def create_session(self):
        session = super().create_session()
        tf.global_variables()[0].load(5.0, session)
        return session


@pytest.mark.parametrize(
    ("make_creator", "num_added", "value"),
    [
        (lambda: NewSessionCreator(), 0, 1.0),
        (lambda: SessionCreatorAdapter(NewSessionCreator(), lambda session: session), 1, 1.0),
        (lambda: _Trained(), 1, 5.0),
    ],
)
def test_only_new_sessions_are_not_asked_what_is_set(graph, make_creator, num_added, value):
    a = tf.get_variable("a", initializer=1.0)
    creator, num_before = make_creator(), len(graph.get_operations())
    with create_initialized_session(creator, JustCurrentSession()) as session:
        assert session.run(a) == value
    added = [op.type for op in graph.get_operations()[num_before:]]
    assert sum(kind in ("VarIsInitializedOp", "IsVariableInitialized") for kind in added) == num_added


def test_sessions_on_servers_share_variables():
    assert makes_new_sessions(NewSessionCreator())
    assert not makes_new_sessions(NewSessionCreator("grpc://localhost:2222"))
