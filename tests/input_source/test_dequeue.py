"""What takes data: in order, counted, and with the values that were taken; and the sums that count."""

import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.counting_up import counted_up
from tpack.input_source.dequeue import GraphSum, TimedDequeue, _DequeueChain


@pytest.mark.parametrize("timed", [True, False])
def test_towers_take_in_order_and_are_counted(graph, timed):
    with tf.device("/device:CPU:0"):
        given = tf.Variable(0, use_resource=True, name="given")
    taker = TimedDequeue()

    def give():
        value = counted_up(given, 1)
        return list(tf.raw_ops.IdentityN(input=[value, value * 10]))

    towers = [taker.take(give, 5, timed=timed) for _ in range(3)]
    assert {tensor.device for tower in towers for tensor in tower} == {"/device:CPU:0"}
    with tf.Session() as session:
        session.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
        taker.connect(session)
        assert session.run(towers) == [[1, 10], [2, 20], [3, 30]]
        assert taker.num_taken() == 15
        # Any part of what a tower takes is all of it, and that of the towers before.
        assert session.run(towers[1][1]) == 50
        assert taker.num_taken() == 25
        assert (taker.waited() > 0) == timed
        taker.restart()
        assert taker.num_taken() == 0


def test_what_is_no_tensor_stays_as_it_is(graph):
    parts = [tf.constant(1), "text"]
    assert TimedDequeue().take(lambda: parts, 1, timed=True) == parts


def test_each_operation_waits_for_the_one_before(graph):
    chain, ops = _DequeueChain(), []
    for _ in range(3):
        with chain.link():
            ops.append(tf.no_op())
        chain.append(ops[-1])
    assert [list(op.control_inputs) for op in ops] == [[], [ops[0]], [ops[1]]]


def test_what_is_added_in_the_graph_is_read_since_the_beginning(graph):
    total = GraphSum(tf.int64, "total")
    first = total.add(tf.constant(3, tf.int64))
    with tf.control_dependencies([first]):
        second = total.add(tf.constant(4, tf.int64))
    assert total.value() == 0
    total.restart()
    with tf.Session() as session:
        session.run(tf.local_variables_initializer())
        session.run(first)
        total.connect(session)
        assert total.value() == 3
        total.restart()
        values = []
        for ops in ([first], [second], [first, second], []):
            session.run(ops)
            values.append(total.value())
        # The second waits for the first, so it takes both.
        assert values == [3, 10, 17, 17]
        total.restart()
        assert total.value() == 0
        session.run(first)
        assert total.value() == 3
    assert tf.global_variables() == []


def test_parts_of_a_second_add_up(graph):
    total = GraphSum(tf.float64, "waited")
    add = total.add(tf.constant(0.25, tf.float64))
    with tf.Session() as session:
        session.run(tf.local_variables_initializer())
        total.connect(session)
        for _ in range(3):
            session.run(add)
        assert total.value() == 0.75
