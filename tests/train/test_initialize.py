import tensorflow.compat.v1 as tf

from tpack.train.initialize import initialize_variables


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
