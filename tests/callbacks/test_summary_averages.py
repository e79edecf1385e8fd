import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.fake_trainer import FakeTrainer
from tpack.callbacks.base import CallbackFactory
from tpack.callbacks.summary import MovingAverageSummary, SimpleMovingAverage
from tpack.errors import CallbackError, ConfigError
from tpack.tfutils.summary import MOVING_SUMMARY_OPS_KEY


def count_updates(step_op=None, key=MOVING_SUMMARY_OPS_KEY, **options):
    counter = tf.get_variable("counter", initializer=0, use_resource=True, trainable=False)
    tf.add_to_collection(key, tf.assign_add(counter, 1))
    tf.add_to_collection(key, tf.no_op())
    found = []
    reader = CallbackFactory(after_train=lambda cb: found.append(int(cb.trainer.sess.run(counter))))
    FakeTrainer(step_op).train([MovingAverageSummary(**options), reader], steps_per_epoch=3, epochs=(1, 2))
    return found[0]


def test_averages_are_updated_once_a_step(graph):
    assert count_updates() == 6


def test_another_collection_can_be_named(graph):
    assert count_updates(key="MINE", collection="MINE") == 6


@pytest.mark.parametrize("kind", ["op", "tensor", "name"])
def test_updates_can_become_part_of_the_train_op(graph, kind):
    train = tf.identity(tf.constant(1.0), name="train_it")
    train_op = {"op": train.op, "tensor": train, "name": "train_it"}[kind]
    assert count_updates(train.op, train_op=train_op) == 6


def test_with_a_train_op_nothing_is_fetched(graph):
    assert not MovingAverageSummary(train_op=tf.no_op()).implements("before_run")
    assert MovingAverageSummary().implements("before_run")


def test_fetch_is_the_same_object_each_time(graph):
    tf.add_to_collection(MOVING_SUMMARY_OPS_KEY, tf.no_op())
    callback = MovingAverageSummary()
    callback.setup_graph(FakeTrainer())
    assert callback.before_run(None) is callback.before_run(None)


def test_empty_collection_fetches_nothing(graph):
    callback = MovingAverageSummary()
    callback.setup_graph(FakeTrainer())
    assert callback.before_run(None) is None


def test_train_op_of_no_graph_is_an_error(graph):
    tf.add_to_collection(MOVING_SUMMARY_OPS_KEY, tf.no_op())
    with pytest.raises(CallbackError, match="got train_op='nothing': expected an operation of the graph"):
        MovingAverageSummary(train_op="nothing").setup_graph(FakeTrainer())
    with tf.Graph().as_default():
        elsewhere = tf.no_op()
    with pytest.raises(CallbackError, match="got train_op=.*: expected an operation of the graph"):
        MovingAverageSummary(train_op=elsewhere).setup_graph(FakeTrainer(tf.no_op()))


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
    with pytest.raises(ConfigError, match="window_size=0: expected an integer of at least 1"):
        SimpleMovingAverage(["w"], 0)
    tf.ones([2], name="pair")
    with pytest.raises(CallbackError, match=r"got pair:0 of shape \(2,\): expected a scalar"):
        FakeTrainer().setup([SimpleMovingAverage(["pair"], 2)])
