"""A learning rate follows the number of workers by the rule that the user gave, also when others go on."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.fake_trainer import FakeTrainer
from tpack.callbacks.base import Callback
from tpack.callbacks.hyper_param import HyperParam, ObjAttrParam, ScaleWithWorkers
from tpack.callbacks.param_setters import HyperParamSetterWithFunc, ScheduledHyperParamSetter, StatMonitorParamSetter
from tpack.errors import CallbackError, ConfigError

SCALE = "rate/scale_of_workers"


class Rates(Callback):
    """Keeps the rate of each step, and what it is and is scaled by in the end."""

    _chief_only = False

    def __init__(self):
        self.rates, self._reads = [], {}

    def _before_epoch(self):
        self._reads = {v.op.name: v for v in tf.global_variables()}

    def _trigger_step(self):
        self.rates.append(round(float(self.trainer.sess.run(self._reads["rate"])), 6))

    def _after_train(self):
        self.saved = {name: self.trainer.sess.run(self._reads[name]) for name in ("rate", SCALE) if name in self._reads}


def train(num_workers, make, restored=None, **training):
    """Train with a rate of 0.1; return the rate of each step and the variables that a checkpoint would have."""
    with tf.Graph().as_default():
        tf.get_variable("rate", initializer=0.1, trainable=False, use_resource=True)
        trainer, rates = FakeTrainer(), Rates()
        trainer.peers = None if num_workers is None else SimpleNamespace(rank=0, size=num_workers)
        trainer.train([Restore(restored), *make(), rates], **training)
        return rates.rates, rates.saved


class Restore(Callback):
    """Gives variables the values of a checkpoint, before other callbacks look."""

    def __init__(self, values):
        self._values = values

    def _setup_graph(self):
        self._by_name = None

    def _before_train(self):
        for variable in tf.global_variables():
            if variable.op.name in (self._values or {}):
                variable.load(self._values[variable.op.name], self.trainer.sess)


def bare(rule="linear", base=1):
    return lambda: [ScaleWithWorkers("rate", rule, base_workers=base)]


@pytest.mark.parametrize(
    ("num_workers", "rule", "base", "expected"),
    [
        (4, np.float32, 1, 0.4),
        (None, "linear", 1, 0.1),
        (1, "linear", 4, 0.025),
        (8, "linear", 4, 0.2),
        (8, "sqrt", 2, 0.2),
        (3, lambda ratio: 1 + math.log(ratio), 1, 0.1 * (1 + math.log(3))),
    ],
)
def test_a_rate_is_scaled_before_the_first_step(num_workers, rule, base, expected):
    rates, saved = train(num_workers, bare(rule, base), epochs=(1, 1))
    assert rates == [pytest.approx(expected, rel=1e-5)] * 2
    assert saved[SCALE] == pytest.approx(expected / 0.1, rel=1e-6)


def test_another_number_of_workers_goes_on_with_the_rate_scaled_anew():
    rates, saved = train(4, bare())
    assert rates == [0.4] * 4
    for num_workers, expected in ((4, 0.4), (3, 0.3), (1, 0.1), (None, 0.1)):
        assert train(num_workers, bare(), saved)[0] == [pytest.approx(expected, rel=1e-5)] * 4
    # What a run changed meanwhile stays changed.
    saved["rate"] = np.float32(saved["rate"] / 2)
    assert train(2, bare(), saved)[0] == [pytest.approx(0.1, rel=1e-5)] * 4
    # A checkpoint from before there was a rule holds what is not scaled.
    assert train(2, bare(), {"rate": np.float32(0.05)})[0] == [pytest.approx(0.1, rel=1e-5)] * 4


def scheduled():
    scaled = ScaleWithWorkers("rate", "linear")
    # The one that sets comes first in the list, and is the first that asks.
    return [ScheduledHyperParamSetter(scaled.param, [(0, 0.1), (1, 0.01)]), scaled]


def halved():
    scaled = ScaleWithWorkers("rate", "linear")
    return [HyperParamSetterWithFunc(scaled.param, lambda epoch, rate: rate / 2 if epoch else None), scaled]


@pytest.mark.parametrize(("make", "expected"), [(scheduled, [0.1, 0.01]), (halved, [0.1, 0.05])])
def test_callbacks_that_set_speak_of_one_worker(make, expected):
    for num_workers in (1, 3):
        rates, saved = train(num_workers, make)
        assert rates == [pytest.approx(rate * num_workers, rel=1e-5) for rate in expected for _ in range(2)]
    resumed, _ = train(2, make, saved, epochs=(3, 3), global_step=4)
    # The second halves the rate at the end of each epoch, and once more as the run begins.
    last = expected[-1] if make is scheduled else expected[0] / 8
    assert resumed == [pytest.approx(2 * last, rel=1e-5)] * 2


def test_a_setter_that_watches_a_statistic_sees_the_rate_unscaled():
    seen = []

    def make():
        scaled = ScaleWithWorkers("rate", "linear")

        def lower(rate):
            seen.append(round(float(rate), 6))
            return rate * 0.1

        return [scaled, Report(), StatMonitorParamSetter(scaled.param, "loss", lower, threshold=0, last_k=1)]

    rates, _ = train(4, make, epochs=(1, 3))
    assert seen == [0.1, 0.01]
    assert rates == [pytest.approx(rate, rel=1e-5) for rate in (0.4, 0.4, 0.4, 0.4, 0.04, 0.04)]


class Report(Callback):
    def _trigger_epoch(self):
        self.trainer.monitors.put_scalar("loss", 1.0)


def test_an_attribute_is_scaled_in_each_run_anew():
    optimizer = SimpleNamespace(rate=0.1)
    with tf.Graph().as_default():
        trainer = FakeTrainer()
        trainer.peers = SimpleNamespace(rank=0, size=3)
        scaled = ScaleWithWorkers(ObjAttrParam(optimizer, "rate"), "linear")
        trainer.train([scaled])
        assert optimizer.rate == pytest.approx(0.3)
        assert scaled.param.get_value() == pytest.approx(0.1)
        assert [v.op.name for v in tf.global_variables()] == ["global_step", "w"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [(("rate", "cubic"), "rule='cubic': expected 'linear', 'sqrt' or a function"), ((3, "linear"), "param")],
)
def test_wrong_arguments_are_refused(arguments, message):
    with pytest.raises(ConfigError, match=message):
        ScaleWithWorkers(*arguments)
    with pytest.raises(ConfigError, match="base_workers"):
        ScaleWithWorkers("rate", "linear", base_workers=0)


@pytest.mark.parametrize("returned", [0, -1.0, math.inf, math.nan, "much", None])
def test_a_rule_that_returns_no_factor_is_refused(returned):
    with pytest.raises(ConfigError, match="expected a number > 0"):
        train(2, bare(lambda ratio: returned))


def test_one_who_scales_has_to_be_there_too():
    scaled = ScaleWithWorkers("rate", "linear")
    assert isinstance(scaled.param, HyperParam)
    with pytest.raises(CallbackError, match=r"without ScaleWithWorkers\(rate\): expected it among the callbacks"):
        train(2, lambda: [ScheduledHyperParamSetter(scaled.param, [(1, 0.1)])])
