import math

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.fake_trainer import FakeTrainer, noting
from tpack.callbacks.base import CallbackFactory
from tpack.callbacks.monitors.base import MonitorBase
from tpack.callbacks.monitors.group import Monitors
from tpack.callbacks.summary import MergeAllSummaries
from tpack.errors import CallbackError, ConfigError, WrongTypeError


@noting("before_train", "trigger", "after_train", attribute="hooks")
class Keeper(MonitorBase):
    def __init__(self):
        self.scalars, self.images, self.summaries, self.events, self.hooks = [], [], [], [], []

    def process_scalar(self, name, val):
        self.scalars.append((name, val))

    def process_image(self, name, val):
        self.images.append((name, val.shape))

    def process_summary(self, summary):
        self.summaries.append(summary)

    def process_event(self, evt):
        self.events.append(evt)


@pytest.fixture
def keepers():
    return [Keeper(), Keeper()]


def test_scalar_reaches_every_monitor_as_number_and_summary(keepers):
    Monitors(keepers).put_scalar("cost", np.float32(0.5))
    for keeper in keepers:
        assert keeper.scalars == [("cost", 0.5)]
        assert [(v.tag, v.simple_value) for v in keeper.summaries[0].value] == [("cost", 0.5)]


@pytest.mark.parametrize(
    ("given", "expected"), [(np.int64(3), 3), (np.float32(0.5), 0.5), (True, 1), (np.array([2.0]), 2.0), (7, 7)]
)
def test_numbers_of_all_kinds_become_python_numbers(given, expected):
    monitors = Monitors([])
    monitors.put_scalar("x", given)
    assert monitors.get_latest("x") == expected
    assert type(monitors.get_latest("x")) is type(expected)


def test_nan_is_a_statistic():
    monitors = Monitors([])
    monitors.put_scalar("x", math.nan)
    assert math.isnan(monitors.get_latest("x"))
    assert len(monitors.get_history("x")) == 1


@pytest.mark.parametrize("bad", ["text", [1.0, 2.0], None])
def test_statistic_that_is_no_number_is_an_error(bad):
    with pytest.raises(CallbackError, match="statistic 'x' got .*: expected one number"):
        Monitors([]).put_scalar("x", bad)


def test_unknown_name_is_an_error():
    with pytest.raises(CallbackError, match="no statistic named 'x' was reported"):
        Monitors([]).get_latest("x")
    with pytest.raises(CallbackError, match="no statistic named 'x' was reported"):
        Monitors([]).get_history("x")


@pytest.mark.parametrize("shape", [(4, 5), (4, 5, 3), (2, 4, 5, 3)])
def test_image_becomes_a_batch(keepers, rng, shape):
    images = rng.integers(0, 256, shape).astype(np.uint8)
    Monitors(keepers).put_image("picture", images)
    name, got = keepers[0].images[0]
    assert name == "picture"
    assert got == ((shape[0] if len(shape) == 4 else 1), 4, 5, (3 if len(shape) > 2 else 1))
    assert all(value.HasField("image") for value in keepers[0].summaries[0].value)


def test_image_of_another_rank_is_an_error():
    with pytest.raises(CallbackError, match=r"image 'x' got shape \(3,\): expected 2, 3 or 4 dimensions"):
        Monitors([]).put_image("x", np.zeros(3))
    with pytest.raises(ConfigError, match="x"):
        Monitors([]).put_image("x", np.zeros([2, 2, 7]))


@pytest.mark.parametrize("as_bytes", [False, True])
def test_scalars_inside_a_summary_are_reported_without_the_tower(keepers, as_bytes):
    summary = tf.Summary()
    summary.value.add(tag="tower0/cost", simple_value=1.0)
    summary.value.add(tag="my_tower0/cost", simple_value=2.0)
    summary.value.add(tag="tower0/histogram").histo.min = 3
    monitors = Monitors(keepers)
    monitors.put_summary(summary.SerializeToString() if as_bytes else summary)
    assert keepers[0].scalars == [("cost", 1.0), ("my_tower0/cost", 2.0)]
    assert [value.tag for value in keepers[0].summaries[0].value] == ["cost", "my_tower0/cost", "histogram"]
    assert summary.value[0].tag == "tower0/cost"


def test_event_gets_its_step_and_time(graph, keepers):
    event = tf.Event()
    report = CallbackFactory(trigger=lambda cb: cb.trainer.monitors.put_event(event))
    FakeTrainer().train([report], monitors=keepers, steps_per_epoch=3, epochs=(1, 1))
    assert keepers[1].events == [event]
    assert event.step == 3
    assert event.wall_time > 0


def test_monitors_have_their_hooks_called(graph, keepers):
    FakeTrainer().train([], monitors=keepers, epochs=(1, 2))
    assert keepers[0].hooks == ["before_train", "trigger", "trigger", "after_train"]


def test_monitors_cost_a_step_nothing(keepers):
    assert not Monitors(keepers).implements("trigger_step")
    assert not Monitors(keepers).implements("before_run")


def test_something_else_than_a_monitor_is_an_error(keepers):
    with pytest.raises(
        WrongTypeError, match=r"Monitors got monitors\[[0-9]\]=a CallbackFactory: expected a MonitorBase"
    ):
        Monitors([CallbackFactory()])
    with pytest.raises(CallbackError, match="Keeper.* twice"):
        Monitors([keepers[0], keepers[0]])


def test_a_summary_of_a_variable_has_its_name(graph):
    """TensorFlow numbers the name of a summary where a variable has it."""
    for name in ("learning_rate", "other_1"):
        tf.get_variable(name, initializer=0.5, trainable=False, use_resource=True)
    for name in ("learning_rate", "loss", "loss", "other_1"):
        tf.summary.scalar(name, tf.constant(1.0))
    trainer = FakeTrainer()
    trainer.train([MergeAllSummaries()], epochs=(1, 1))
    names = [name for name, *_ in trainer.recorder.scalars]
    assert names == ["learning_rate", "loss", "loss_1", "other_1"]


def test_a_summary_in_a_scope_of_its_name_is_reported_by_it_once(graph):
    for scope, name in (("val_loss", "val_loss"), ("part/error", "error"), ("cost", "cost"), ("a", "b")):
        with tf.name_scope(f"{scope}/"):
            tf.summary.scalar(name, tf.constant(1.0))
    # Two statistics stay two.
    tf.summary.scalar("cost", tf.constant(2.0))
    trainer = FakeTrainer()
    trainer.train([MergeAllSummaries()], epochs=(1, 1))
    names = [name for name, *_ in trainer.recorder.scalars]
    assert names == ["val_loss", "part/error", "cost/cost", "a/b", "cost"]
