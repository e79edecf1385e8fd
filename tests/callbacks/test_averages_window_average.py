import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.fake_trainer import FakeTrainer
from tpack.callbacks.averages import SimpleMovingAverage
from tpack.errors import CallbackError, ConfigError


def test_the_mean_is_of_the_last_steps(graph):
    weight = tf.get_variable("w", initializer=1.0, use_resource=True)
    tripled = tf.multiply(weight, 3.0, name="tripled")
    trainer = FakeTrainer(tf.assign(weight, tripled).op).train(
        [SimpleMovingAverage(["tripled"], 3), SimpleMovingAverage("tripled:0", 100)], epochs=(1, 3), steps_per_epoch=2
    )
    steps = 3.0 ** np.arange(1, 7)
    np.testing.assert_allclose(
        trainer.recorder.values("tripled/SMA"), [np.mean(steps[:2]), *(np.mean(steps[k - 3 : k]) for k in (4, 6))]
    )
    np.testing.assert_allclose(trainer.recorder.values("tripled:0/SMA"), [np.mean(steps[:k]) for k in (2, 4, 6)])


def test_before_the_first_step_there_is_nothing_to_report(graph):
    callback = SimpleMovingAverage(["w"], 3)
    trainer = FakeTrainer()
    trainer.setup([callback])
    callback.trigger()
    assert trainer.recorder.scalars == []


def test_misuse_is_an_error(graph):
    with pytest.raises(ConfigError, match="window of at least 1 step, got 0"):
        SimpleMovingAverage(["w"], 0)
    tf.ones([2], name="pair")
    with pytest.raises(CallbackError, match=r"wants scalars, got pair:0 of shape \(2,\)"):
        FakeTrainer().setup([SimpleMovingAverage(["pair"], 2)])
