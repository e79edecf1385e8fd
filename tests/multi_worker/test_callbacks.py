from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.log_lines import captured_log
from tests.helpers.peer_groups import joined, together
from tests.helpers.sessions import cpu_session
from tpack.errors import ClusterError
from tpack.multi_worker import callbacks
from tpack.multi_worker.callbacks import ReplicaCheck
from tpack.multi_worker.cluster.consistency import checksum


def compared(peers, values):
    """Compare, after an epoch, one variable of each of several workers, which has a value in each."""
    graphs = [tf.Graph() for _ in peers]

    def compare(one):
        with graphs[one.rank].as_default(), cpu_session(graphs[one.rank], num_cpus=1) as session:
            weight = tf.get_variable("w", initializer=values[one.rank])
            session.run(weight.initializer)
            callback = ReplicaCheck(one)
            callback.variables = [weight]
            callback._trainer = SimpleNamespace(sess=session, global_step=7)
            callback.before_epoch()
            callback._after_epoch()

    return together(peers, compare)


def test_trained_variables_that_differ_are_an_error_that_names_them():
    with joined(2) as peers:
        assert compared(peers, [0.5, 0.5]) == [None, None]
        errors = compared(peers, [0.5, 0.25])
    assert {type(error) for error in errors} == {ClusterError}
    assert all("checksums after step 7: w: " in str(error) for error in errors)


def test_on_gpus_a_difference_is_a_warning_and_no_more(monkeypatch):
    monkeypatch.setattr(callbacks, "list_gpus", lambda: ["/device:GPU:0"])
    with joined(2) as peers, captured_log() as lines:
        assert compared(peers, [0.5, 0.25]) == [None, None]
    assert sum("checksums after step 7: w: " in line for line in lines) == 2


@pytest.mark.parametrize("shape", [(), (3,), (2048,), (5, 4097)])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "bool", "float16"])
def test_a_checksum_notices_any_change_and_the_place_of_a_value(rng, shape, dtype):
    values = np.asarray(rng.normal(size=shape) * 10).astype(dtype)
    assert checksum(values) == checksum(values.copy())
    for place in {0, values.size // 2, values.size - 1}:
        other = np.array(values)
        other.flat[place] = not values.flat[place] if dtype == "bool" else values.flat[place] + 1
        assert checksum(other) != checksum(values)
    if values.size > 2000 and dtype != "bool":
        assert checksum(np.roll(values, 1)) != checksum(values)
        assert checksum(np.roll(values, 1024)) != checksum(values)


def test_a_checksum_of_texts_is_that_of_their_content():
    one, same, other = (np.array([text, b"b"], object) for text in (b"some", bytes(bytearray(b"some")), b"more"))
    assert checksum(one) == checksum(same) != checksum(other)
