import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.fake_trainer import FakeTrainer
from tpack.callbacks.summary import MergeAllSummaries
from tpack.errors import ConfigError


def steps_of_summaries(key=None, **options):
    """Return the steps at which the weight's summary came, and the values."""
    weight = tf.get_variable("w", initializer=0.0, use_resource=True)
    train_op = tf.assign_add(weight, 1.0).op
    with tf.control_dependencies([train_op]):
        after = weight.read_value()
    tf.summary.scalar("weight", after, collections=key and [key])
    trainer = FakeTrainer(train_op).train([MergeAllSummaries(key=key, **options)], steps_per_epoch=4, epochs=(1, 2))
    return [(step, value) for name, value, _, step in trainer.recorder.scalars if name == "weight"]


@pytest.mark.parametrize("key", [None, "MINE"])
def test_summaries_come_with_the_last_step_of_an_epoch(graph, key):
    assert steps_of_summaries(key) == [(4, 4.0), (8, 8.0)]


def test_summaries_come_every_period_too(graph):
    assert steps_of_summaries(period=3) == [(3, 3.0), (4, 4.0), (7, 7.0), (8, 8.0)]


def test_summaries_alone_take_a_run_of_their_own(graph):
    # The summary depends on the train op here, so that each evaluation is seen as one more step of the weight.
    assert steps_of_summaries(run_alone=True) == [(4, 5.0), (8, 10.0)]


def test_summaries_alone_come_every_period_too(graph):
    assert [step for step, _ in steps_of_summaries(run_alone=True, period=2)] == [2, 4, 6, 8]


@pytest.mark.parametrize("run_alone", [False, True])
def test_graph_without_summaries_gives_none(graph, run_alone):
    trainer = FakeTrainer().train([MergeAllSummaries(run_alone=run_alone, period=1)])
    assert trainer.recorder.summaries == []
    assert str(MergeAllSummaries(run_alone=run_alone)) == "MergeAllSummaries"


def test_negative_period_is_an_error():
    with pytest.raises(ConfigError, match="period=-1: expected an integer of at least 0"):
        MergeAllSummaries(period=-1)
