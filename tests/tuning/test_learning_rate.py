import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.log_lines import captured_log
from tpack.errors import CallbackError, ConfigError
from tpack.graph_builder.model_desc import ModelDesc
from tpack.train.config import TrainConfig
from tpack.train.trainers import SimpleTrainer, SyncMultiGPUTrainerReplicated
from tpack.tuning.learning_rate import find_learning_rate

X = np.random.default_rng(0).normal(size=(64, 4)).astype(np.float32)
Y = (X @ np.array([1.0, -2.0, 0.5, 3.0], np.float32)).astype(np.float32)


class Linear(ModelDesc):
    """A cost that gradient descent lowers up to a rate of about 1, and raises beyond it."""

    def __init__(self, rate="learning_rate"):
        self._rate = rate

    def inputs(self):
        return [tf.TensorSpec([None, 4], tf.float32, "x"), tf.TensorSpec([None], tf.float32, "y")]

    def build_graph(self, x, y):
        w = tf.get_variable("w", [4, 1], initializer=tf.zeros_initializer())
        return tf.reduce_mean((tf.matmul(x, w)[:, 0] - y) ** 2, name="cost")

    def optimizer(self):
        return tf.train.GradientDescentOptimizer(tf.get_variable(self._rate, initializer=0.5, trainable=False))


def config(**arguments):
    return TrainConfig(model=Linear(), dataflow=(X, Y), batch_size=64, steps_per_epoch=7, max_epoch=3, **arguments)


@pytest.mark.parametrize("make", [SimpleTrainer, lambda: SyncMultiGPUTrainerReplicated(2)])
def test_rates_grow_until_the_cost_does(make, tmp_path):
    with tf.Graph().as_default(), captured_log() as lines:
        found = find_learning_rate(config(), make(), smallest=1e-4, largest=100.0, num_steps=60)
    assert len(found.rates) == len(found.costs) < 60
    np.testing.assert_allclose(found.rates[1:] / found.rates[:-1], 10 ** (6 / 59))
    assert found.costs[0] == pytest.approx(np.mean(Y**2), rel=1e-4)
    assert found.costs[-1] > 4 * found.costs.min()
    # The cost is a quadratic form whose largest eigenvalue is about 3: it grows with rates above two thirds.
    assert 0.005 < found.suggestion < 0.7
    assert any(f"fell fastest at {found.suggestion:.2g}" in line for line in lines)
    assert any("grown fourfold" in line for line in lines)
    found.plot(tmp_path / "rates.png")
    assert (tmp_path / "rates.png").read_bytes().startswith(b"\x89PNG")


def test_a_cost_that_never_falls_has_no_suggestion():
    class Flat(Linear):
        def build_graph(self, x, y):
            return super().build_graph(x, y) * 0 + 1

    with tf.Graph().as_default(), captured_log() as lines:
        found = find_learning_rate(
            TrainConfig(model=Flat(), dataflow=(X, Y), batch_size=64), SimpleTrainer(), num_steps=10
        )
    assert found.suggestion is None
    assert len(found.rates) == 10
    assert any("the cost never fell" in line for line in lines)


def test_what_cannot_be_is_refused():
    for wrong, message in [
        ({"smallest": 0.0}, "smallest"),
        ({"smallest": 1.0, "largest": 0.5}, "expected a larger largest"),
        ({"num_steps": 3}, "num_steps"),
    ]:
        with tf.Graph().as_default(), pytest.raises(ConfigError, match=message):
            find_learning_rate(config(), SimpleTrainer(), **wrong)
    with tf.Graph().as_default(), pytest.raises(CallbackError, match="learning_rate"):
        find_learning_rate(TrainConfig(model=Linear("rate"), dataflow=(X, Y), batch_size=64), SimpleTrainer())
