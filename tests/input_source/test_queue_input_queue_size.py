"""The size of the queue is averaged with every step and written under the name of the source."""

import numpy as np
import tensorflow.compat.v1 as tf

from tests.helpers.run_input import running
from tpack.dataflow import DataFromList
from tpack.input_source import QueueInput
from tpack.input_source.queue_input import QueueSizeSummary


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
        callback = next(cb for cb in run.callbacks if isinstance(cb, QueueSizeSummary))
        assert callback.before_run(None) is callback.before_run(None)
        assert callback.before_run(None).type == "NoOp"
