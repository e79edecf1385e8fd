import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.sessions import cpu_session
from tpack.multi_worker.coordinated_stop import StopFlag
from tpack.tower.grads import ReduceOp


@pytest.mark.parametrize("what", [StopFlag.STOP, StopFlag.SIGNAL])
def test_what_is_said_is_there_in_the_next_step_and_is_kept(graph, what):
    stop_flag = StopFlag()
    # Two workers that say the same.
    stop_flag.total = 2 * stop_flag.build()
    keep, goes_on = stop_flag.store()
    with cpu_session(graph, num_cpus=1) as session:
        session.run(tf.local_variables_initializer())
        session.run(keep)
        assert (session.run(goes_on), stop_flag.stored(session)) == (True, 0)
        stop_flag.set(session, what)
        assert session.run(stop_flag.total) == 2 * what
        session.run(keep)
        assert (session.run(goes_on), stop_flag.stored(session)) == (False, 2 * what)


def test_a_mean_of_flags_becomes_a_whole_sum(graph):
    stop_flag = StopFlag()
    mean, num_workers = tf.placeholder(tf.float32, []), tf.placeholder(tf.float32, [])
    stop_flag.arrived(mean, ReduceOp.MEAN, num_workers)
    counts = np.arange(2, 1025).astype("float32")
    means = np.float32(StopFlag.SIGNAL) / counts
    assert np.any(means * counts < StopFlag.SIGNAL)
    with cpu_session(graph, num_cpus=1) as session:
        sums = [session.run(stop_flag.total, {mean: m, num_workers: n}) for m, n in zip(means, counts, strict=True)]
    assert set(sums) == {StopFlag.SIGNAL}
