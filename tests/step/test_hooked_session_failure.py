"""Errors of a run in words that say what became of the data."""

import pytest
import tensorflow.compat.v1 as tf

from tpack.errors import DataExhaustedError, InputError, StepTimeoutError
from tpack.step.hooked_session import explain_failure


def failure_of(graph, fetch, *to_run_before):
    with tf.Session(graph=graph) as session:
        session.run(to_run_before)
        with pytest.raises(tf.errors.OpError) as caught:
            session.run(fetch)
    return explain_failure(caught.value, graph)


def test_the_end_of_a_queue_is_the_end_of_the_data(graph):
    queue = tf.FIFOQueue(1, tf.int32)
    explanation = failure_of(graph, queue.dequeue(), queue.close())
    assert isinstance(explanation, DataExhaustedError)


def test_a_dataset_that_fails_is_named_with_what_it_says(graph):
    dataset = tf.data.Dataset.range(3).map(lambda k: tf.debugging.check_numerics(1 / tf.cast(k, tf.float32), "divided"))
    iterator = tf.data.make_initializable_iterator(dataset)
    explanation = failure_of(graph, iterator.get_next(name="element"), iterator.initializer)
    assert isinstance(explanation, InputError)
    assert str(explanation).startswith("the dataset of element failed: ")
    assert "divided" in str(explanation)


def test_a_model_that_fails_speaks_for_itself(graph):
    assert failure_of(graph, tf.debugging.check_numerics(tf.constant(1.0) / 0.0, "divided")) is None


@pytest.mark.parametrize(
    ("message", "timeout_in_ms", "is_explained"),
    [
        ("Timed out waiting for notification", 30, True),
        ("Timed out waiting for notification", 0, False),
        ("Collective has timed out [[node all_reduce]]", 30, False),
    ],
)
def test_a_timeout_is_explained_unless_an_operation_says_it_was_its_own(graph, message, timeout_in_ms, is_explained):
    explanation = explain_failure(tf.errors.DeadlineExceededError(None, None, message), graph, timeout_in_ms)
    assert isinstance(explanation, StepTimeoutError) is is_explained
    assert explanation is None or "30 ms" in str(explanation)
