"""What takes data: in order, counted, and with the values that were taken."""

import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.counting_up import counted_up
from tpack.input_source.taking import DataTaker


@pytest.mark.parametrize("timed", [True, False])
def test_towers_take_in_order_and_are_counted(graph, timed):
    with tf.device("/device:CPU:0"):
        given = tf.Variable(0, use_resource=True, name="given")
    taker = DataTaker()

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
    assert DataTaker().take(lambda: parts, 1, timed=True) == parts
