"""What is special about QueueInput: queues that are given, private copies, strings, placement, and how full it is."""

import threading

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.run_input import SIGNATURE, running
from tpack.dataflow import DataFlow, DataFromList, start_workers_by
from tpack.dataflow.parallel import MultiProcessMapData, MultiProcessRunner
from tpack.errors import ConfigError, DataPointError, InputError
from tpack.input_source import QueueInput
from tpack.input_source.queue_input import _QueueSizeSummary


def points(number=4):
    return DataFromList([[np.full([3, 2], k), k] for k in range(number)], shuffle=False)


def test_a_buffer_that_is_reused_gives_the_right_values(graph):
    class OneBuffer(DataFlow):
        def __iter__(self):
            memory = np.empty(64 + 6 * 4, np.uint8)
            offset = -memory.ctypes.data % 64
            buffer = np.ndarray([3, 2], np.float32, memory, offset)
            for k in range(1000):
                buffer[...] = k
                yield [buffer, k]

    with running(QueueInput(OneBuffer())) as run:
        for _ in range(200):
            ((image, label),) = run.step()
            np.testing.assert_array_equal(image, np.full([3, 2], label))


def test_a_queue_can_be_given(graph):
    queue = tf.FIFOQueue(1, [tf.float32, tf.int32])
    with running(QueueInput(points(), queue), num_towers=2) as run:
        assert run.labels(3) == [0, 1, 2, 3, 0, 1]
        run.source.refill_queue()
        assert run.labels(1) == [0, 1]


def test_a_queue_that_shuffles_trains_and_does_not_begin_again(graph):
    queue = tf.RandomShuffleQueue(4, 1, [tf.float32, tf.int32])
    with running(QueueInput(points(), queue)) as run:
        assert set(run.labels(5)) <= {0, 1, 2, 3}
        with pytest.raises(InputError, match="cannot begin again: its RandomShuffleQueue always keeps some"):
            run.source.reset_state()


def test_a_queue_of_other_dtypes_is_an_error(graph):
    source = QueueInput(points(), tf.FIFOQueue(1, [tf.float32, tf.int64]))
    with pytest.raises(ConfigError, match=r"has the dtypes \['float32', 'int64'\], .* expects \['float32', 'int32'\]"):
        source.setup(SIGNATURE)


def test_a_queue_of_other_shapes_is_an_error(graph):
    source = QueueInput(points(), tf.FIFOQueue(1, [tf.float32], [[4]]))
    signature = [tf.TensorSpec([None], tf.float32, "x")]
    source.setup(signature)
    source._signature = [tf.TensorSpec([3], tf.float32, "x")]
    with pytest.raises(DataPointError, match=r"has shape \(4,\), expected \(3,\)"):
        source.get_input_tensors()


def test_an_empty_signature_is_an_error(graph):
    with pytest.raises(ConfigError, match="got no signature: expected at least one entry"):
        QueueInput(points()).setup([])


def test_something_else_than_a_dataflow_is_an_error():
    with pytest.raises(ConfigError, match=r"QueueInput got ds=\[\]: expected a DataFlow; as_dataflow makes one"):
        QueueInput([])


def test_a_single_component_and_strings(graph):
    texts = [b"a\0", "b\u00e4", b""]
    signature = [tf.TensorSpec([], tf.string, "text")]
    with running(QueueInput(DataFromList([[text] for text in texts], shuffle=False)), signature) as run:
        values = [run.step()[0][0] for _ in range(4)]
    assert values == [b"a\0", "b\u00e4".encode(), b"", b"a\0"]


@pytest.mark.parametrize(
    "wrap", [lambda ds: MultiProcessRunner(ds, 3, 1), lambda ds: MultiProcessMapData(ds, 1, list, strict=True)]
)
def test_forks_that_were_made_before_other_threads_serve_the_queue(graph, wrap, monkeypatch):
    with start_workers_by("spawn"):
        start_workers_by("fork")
        ds = wrap(points())
    with monkeypatch.context() as alone:
        alone.setattr(threading, "enumerate", lambda: [threading.current_thread()])
        ds.reset_state()
    with running(QueueInput(ds)) as run:
        assert run.labels(4) == [k % len(ds) for k in range(4)]
    # Where none wait, a fork beside the thread of the queue is refused.
    message = "was to fork a process with .* other threads"
    with tf.Graph().as_default(), pytest.raises(InputError, match=message), running(QueueInput(ds)) as run:
        run.step()


def test_dicts_and_casts(graph):
    ds = DataFromList([{"label": np.int64(k), "image": [[k, k]]} for k in range(3)], shuffle=False)
    with running(QueueInput(ds)) as run:
        assert run.labels(4) == [0, 1, 2, 0]


def test_the_queue_is_on_the_cpu_whatever_the_tower(graph):
    with running(QueueInput(points()), num_towers=3) as run:
        devices = {tensor.device for tower in run.inputs for tensor in tower}
    assert devices == {"/device:CPU:0"}
    assert run.source.queue.queue_ref.device == "/device:CPU:0"


def test_two_sources_of_one_graph_are_apart(graph):
    first = QueueInput(points(3))
    first.setup(SIGNATURE)
    with running(QueueInput(points(2))) as run:
        assert run.labels(3) == [0, 1, 0]


def test_refill_before_training_does_nothing(graph):
    source = QueueInput(points())
    source.setup(SIGNATURE)
    source.refill_queue()
    assert not source.get_callbacks()[1].is_running


def test_large_data_that_were_fetched_stay_as_they_are(graph):
    ds = DataFromList([[np.full([20_000, 2], k, np.float32), k] for k in range(5)], shuffle=False)
    with running(QueueInput(ds), num_towers=2) as run:
        kept = [values for _ in range(100) for values in run.step()]
    # Memory is used again as soon as nobody holds it, and these are held.
    assert [label for _, label in kept] == [k % 5 for k in range(200)]
    assert all((image == label).all() for image, label in kept)


def test_the_average_is_written_and_updated_by_each_step(graph):
    source = QueueInput(DataFromList([[np.zeros([1, 2]), 0]]))
    with running(source) as run:
        (summary,) = tf.get_collection(tf.GraphKeys.SUMMARIES)
        values = []
        for _ in range(3):
            run.step()
            values.append(tf.Summary.FromString(run.trainer.sess.run(summary)).value[0])
        assert {value.tag for value in values} == {"QueueInput/queue_size"}
        assert all(0 <= value.simple_value <= 50 for value in values)


def test_what_a_step_fetches_is_always_the_same_object(graph):
    with running(QueueInput(DataFromList([[np.zeros([1, 2]), 0]]))) as run:
        callback = next(cb for cb in run.callbacks if isinstance(cb, _QueueSizeSummary))
        assert callback.before_run(None) is callback.before_run(None)
        assert callback.before_run(None).type == "NoOp"
