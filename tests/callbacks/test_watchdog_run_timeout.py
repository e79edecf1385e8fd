import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.fake_trainer import FakeTrainer
from tpack.callbacks.watchdog import SessionRunTimeout
from tpack.errors import ConfigError, StepTimeoutError


def test_a_step_that_takes_too_long_ends_training_with_an_error_that_says_so(graph):
    queue = tf.FIFOQueue(4, [tf.float32], [[]])
    fill = queue.enqueue_many([[1.0, 2.0]])
    trainer = FakeTrainer(queue.dequeue().op)
    callback = SessionRunTimeout(50)
    trainer.setup([callback])
    trainer.sess.run(fill)
    steps = []
    with trainer.sess, pytest.raises(StepTimeoutError, match="longer than the 50 ms"):
        for step in range(5):
            trainer.hooked_sess.run(trainer.train_op)
            steps.append(step)
    assert steps == [0, 1]


def test_steps_in_time_are_compiled_as_without_it(graph):
    trainer = FakeTrainer().train([SessionRunTimeout(60000)])
    assert trainer.global_step == 4
    assert len(trainer.hooked_sess._steps) == 1


@pytest.mark.parametrize("timeout", [0, -1, 2.5, None])
def test_a_timeout_is_a_positive_integer(timeout):
    with pytest.raises(ConfigError, match="^SessionRunTimeout got timeout_in_ms="):
        SessionRunTimeout(timeout)
