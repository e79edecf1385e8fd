"""A schedule sets the same values whether or not the run was interrupted, wherever that was."""

from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.fake_trainer import FakeTrainer
from tpack.callbacks.base import Callback, WithSteps
from tpack.callbacks.hyper_param import ObjAttrParam
from tpack.callbacks.param_setters import ScheduledHyperParamSetter
from tpack.callbacks.saver import ModelSaver
from tpack.callbacks.trigger import PeriodicTrigger
from tpack.errors import ConfigError
from tpack.schedules import Constant, Cosine, Linear, OneCycle, Step, WarmUp
from tpack.tfutils.sesscreate import NewSessionCreator
from tpack.tfutils.sessinit import SmartInit
from tpack.train.trainer import Trainer

SCHEDULE = [(2, 0.1), (5, 0.4), (6, 0.2)]


class Watch(Callback):
    """Notes the value that each step sees."""

    def __init__(self, target):
        self.target = target
        self.seen = []

    def _before_run(self, ctx):
        self.seen.append(self.target.rate)


def values_seen(epochs, steps_per_epoch=2, start=7.0, schedule=SCHEDULE, **options):
    """Train and return the value that each step saw."""
    target = SimpleNamespace(rate=start)
    watch = Watch(target)
    setter = ScheduledHyperParamSetter(ObjAttrParam(target, "rate"), schedule, **options)
    first_step = (epochs[0] - 1) * steps_per_epoch
    with tf.Graph().as_default():
        FakeTrainer().train([setter, watch], epochs=epochs, steps_per_epoch=steps_per_epoch, global_step=first_step)
    return watch.seen


def test_epochs_after_the_scheduled_one_get_its_value():
    # A value at epoch 2 is for epoch 3 and later.
    assert values_seen((1, 8), steps_per_epoch=1) == [7.0, 7.0, 0.1, 0.1, 0.1, 0.4, 0.2, 0.2]


def test_steps_after_the_scheduled_one_get_its_value():
    assert values_seen((1, 4), step_based=True) == [7.0, 7.0, 0.1, 0.1, 0.1, 0.4, 0.2, 0.2]


def test_lines_are_followed_between_points():
    expected = [7.0, 7.0, *np.interp([2, 3, 4, 5, 6], *zip(*SCHEDULE, strict=True)), 0.2]
    np.testing.assert_allclose(values_seen((1, 8), steps_per_epoch=1, interp="linear"), expected)
    np.testing.assert_allclose(values_seen((1, 4), step_based=True, interp="linear"), expected)


@pytest.mark.parametrize(
    "schedule", [WarmUp(Linear(0.8, 0, 4), 2).then(Constant(5)), Step(0.1, {3: 0.2, 6: 0.3}), Cosine(1, 0, 5)], ids=str
)
def test_schedules_are_followed_from_anywhere(schedule):
    # The first step of a warm-up from 0 has the value in its middle.
    wanted = [schedule.value_at(point) or schedule.value_at(point + 0.5) for point in range(10)]
    assert values_seen((1, 10), 1, schedule=schedule) == wanted
    assert values_seen((1, 5), step_based=True, schedule=schedule) == wanted
    assert values_seen((4, 10), 1, schedule=schedule) == wanted[3:]


@pytest.mark.parametrize(
    "schedule",
    [WarmUp(Linear(0.8, 0, 4), 2), Step(0.1, {2.5: 0.2, 3: 0.3}), OneCycle(1, 3).then(Cosine(1, 0, 1))],
    ids=str,
)
@pytest.mark.parametrize("first", [1, 3])
def test_schedules_of_epochs_are_followed_in_each_step(schedule, first):
    points = np.arange(4 * (first - 1), 28) / 4
    wanted = [schedule.value_at(point) or schedule.value_at(point + 0.125) for point in points]
    assert values_seen((first, 7), 4, schedule=schedule) == wanted
    assert wanted[0] > 0


def test_stairs_are_to_be_had():
    schedule = Cosine(1, 0, 4)
    wanted = [schedule.value_at(point) for point in (0, 0, 1, 1, 2, 2)]
    assert values_seen((1, 3), 2, schedule=schedule, smooth=False) == wanted


def test_a_schedule_goes_on_where_an_epoch_was_interrupted():
    target = SimpleNamespace(rate=7.0)
    watch, trainer = Watch(target), Trainer()
    schedule = Linear(1, 0, 2)
    with trainer.graph.as_default():
        trainer.train_op = tf.no_op()
    setter = ScheduledHyperParamSetter(ObjAttrParam(target, "rate"), schedule)
    place = {"starting_epoch": 2, "starting_step": 1, "max_epoch": 2}
    trainer.train([setter, watch], [], NewSessionCreator(), steps_per_epoch=4, session_init=None, **place)
    assert watch.seen == [schedule.value_at(point) for point in (1.25, 1.5, 1.75)]


def test_a_schedule_leaves_the_value_of_others_while_it_stays():
    target = SimpleNamespace(rate=7.0)

    class Edits(Watch):
        def _before_run(self, ctx):
            super()._before_run(ctx)
            if self.global_step == 5:
                target.rate = 42.0

    watch = Edits(target)
    setter = ScheduledHyperParamSetter(ObjAttrParam(target, "rate"), Linear(1, 0.5, 1).then(Linear(0.5, 0.25, 1)))
    with tf.Graph().as_default():
        FakeTrainer().train([setter, watch], epochs=(1, 4), steps_per_epoch=2)
    assert watch.seen == [1, 0.75, 0.5, 0.375, 0.25, 0.25, 42, 42]


def test_what_is_for_pairs_is_refused_with_a_schedule():
    with pytest.raises(ConfigError, match=r"got interp='linear' and Constant\(value=1"):
        ScheduledHyperParamSetter("rate", Constant(1), interp="linear")


@pytest.mark.parametrize("step_based", [False, True])
@pytest.mark.parametrize("interp", [None, "linear"])
@pytest.mark.parametrize("first", [2, 3, 4, 5, 6, 7, 8])
def test_a_resumed_run_goes_on_as_if_nothing_had_happened(step_based, interp, first):
    options = {"step_based": step_based, "interp": interp, "steps_per_epoch": 1}
    # Whatever the checkpoint or the model's initializer says, the schedule's value counts once it has one.
    whole = values_seen((1, 8), **options)
    np.testing.assert_allclose(values_seen((first, 8), **options), whole[first - 1 :])


@pytest.mark.parametrize("step_based", [False, True])
def test_a_run_that_resumes_in_the_middle_of_an_epoch_goes_on_too(tmp_path, step_based):
    def train(**place):
        target = SimpleNamespace(rate=7.0)
        watch = Watch(target)
        setter = ScheduledHyperParamSetter(ObjAttrParam(target, "rate"), SCHEDULE, "linear", step_based=step_based)
        trainer = Trainer()
        with trainer.graph.as_default():
            trainer.train_op = tf.no_op()
        saver = PeriodicTrigger(ModelSaver(0, checkpoint_dir=str(tmp_path)), every_k_steps=1)
        trainer.train([setter, watch, saver], [], NewSessionCreator(), steps_per_epoch=2, **place)
        return watch.seen

    whole = train(session_init=None, max_epoch=8)
    for step in (3, 5, 9):
        place = {"starting_epoch": step // 2 + 1, "starting_step": step % 2, "max_epoch": 8}
        resumed = train(session_init=SmartInit(str(tmp_path / f"model-{step}")), **place)
        np.testing.assert_allclose(resumed, whole[step:])


def test_without_set_at_beginning_only_scheduled_points_count():
    assert values_seen((4, 7), steps_per_epoch=1, set_at_beginning=False) == [7.0, 7.0, 0.4, 0.2]
    assert values_seen((6, 7), steps_per_epoch=1, set_at_beginning=False) == [0.4, 0.2]


def test_only_a_schedule_of_steps_is_asked_after_each_step():
    for step_based in (False, True):
        setter = ScheduledHyperParamSetter("rate", SCHEDULE, step_based=step_based)
        assert setter.implements("trigger_step") is step_based
    for schedule, is_asked in [(Step(1, {2: 3}), False), (Constant(1), False), (Step(1, {2.5: 3}), True)]:
        assert ScheduledHyperParamSetter("rate", schedule).implements("trigger_step") is is_asked
    # Where one call makes several steps, such a schedule does not end it.
    smooth = ScheduledHyperParamSetter("rate", Linear(1, 0, 3))
    assert smooth.implements("trigger_step")
    assert smooth.with_several_steps() == WithSteps()


def test_a_schedule_that_cannot_be_read_is_an_error():
    with pytest.raises(ConfigError, match="interp='cubic': expected one of None, 'linear'"):
        ScheduledHyperParamSetter("rate", SCHEDULE, interp="cubic")


@pytest.mark.parametrize(
    ("name", "options", "warns"),
    [
        ("learning_rate", {"smooth": False}, True),
        ("learning_rate", {}, False),
        ("learning_rate", {"schedule": WarmUp(Cosine(0.1, 0, 3), 1, start=0.01)}, False),
        ("learning_rate", {"step_based": True}, False),
        ("learning_rate", {"enable": False}, False),
        ("weight_of_the_prior", {}, False),
    ],
)
def test_a_learning_rate_of_0_for_a_whole_epoch_is_told(capsys, name, options, warns):
    param = ObjAttrParam(SimpleNamespace(rate=0.1), "rate", name)
    options = {"schedule": WarmUp(Cosine(0.1, 0, 3), 1), **options}
    with tf.Graph().as_default():
        FakeTrainer().train([ScheduledHyperParamSetter(param, **options)], epochs=(1, 1), steps_per_epoch=2)
    assert ("learning_rate is 0 for all of the epoch that begins" in capsys.readouterr().err) == warns
