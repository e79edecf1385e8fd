from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.fake_trainer import FakeTrainer
from tests.helpers.log_lines import captured_log
from tpack.callbacks.hyper_param import GraphVarParam, ObjAttrParam
from tpack.callbacks.param_setters import HyperParamSetter, HyperParamSetterWithFunc
from tpack.callbacks.trigger import PeriodicTrigger
from tpack.errors import WrongTypeError


class Giving(HyperParamSetter):
    """Sets what comes next in a list."""

    def __init__(self, param, values, **options):
        super().__init__(param, **options)
        self.values = list(values)

    def _get_value_to_set(self):
        return self.values.pop(0)


def test_values_are_set_before_training_and_after_each_epoch(graph):
    rate = tf.get_variable("rate", initializer=1.0)
    setter, seen = Giving("rate", [0.5, None, 0.25, 7.0]), []

    class Train(FakeTrainer):
        def _run_epoch(self, *args):
            seen.append(float(self.sess.run(rate)))
            super()._run_epoch(*args)

    trainer = Train().train([setter], epochs=(1, 3))
    assert isinstance(setter.param, GraphVarParam)
    assert seen == [0.5, 0.5, 0.25]
    # Each epoch is reported with the value that it was trained with.
    assert [(val, epoch) for name, val, epoch, _ in trainer.recorder.scalars if name == "rate"] == [
        (0.5, 1),
        (0.5, 2),
        (0.25, 3),
    ]


def test_two_setters_of_one_parameter_report_the_same(graph):
    target = SimpleNamespace(rate=1.0)
    setters = [Giving(ObjAttrParam(target, "rate"), [None, value]) for value in (2.0, 3.0)]
    trainer = FakeTrainer().train(setters, epochs=(1, 1))
    assert trainer.recorder.values("rate") == [1.0, 1.0]
    assert target.rate == 3.0


def test_a_new_value_is_logged_once_an_epoch(graph):
    target = SimpleNamespace(rate=1.0)
    setter = PeriodicTrigger(Giving(ObjAttrParam(target, "rate"), [1, 2.0, 3.0, 3.0, 4.0]), every_k_steps=1)
    with captured_log() as lines:
        FakeTrainer().train([setter])
    assert [line for line in lines if "rate" in line] == [
        "rate is set to 1 after step 0.",
        "rate is set from 1 to 2 after step 1.",
        "rate is set from 3 to 4 after step 4.",
    ]


def test_what_is_no_number_is_set_and_logged_and_not_reported(graph):
    target = SimpleNamespace(mode="slow", size=np.zeros(2))
    setters = [
        Giving(ObjAttrParam(target, "mode"), ["fast", "fast"]),
        Giving(ObjAttrParam(target, "size"), [np.ones(2), np.ones(2)]),
    ]
    with captured_log() as lines:
        trainer = FakeTrainer().train(setters, epochs=(1, 1))
    assert (target.mode, target.size.tolist()) == ("fast", [1, 1])
    assert lines == ["mode is set to fast after step 0.", "size is set to [1. 1.] after step 0."]
    assert trainer.recorder.scalars == []


def test_a_disabled_setter_only_reports(graph):
    target = SimpleNamespace(rate=1.0)
    trainer = FakeTrainer().train([Giving(ObjAttrParam(target, "rate"), [], enable=False)], epochs=(1, 2))
    assert trainer.recorder.values("rate") == [1.0, 1.0]


def test_setters_name_what_they_set_and_run_in_every_process():
    setter = Giving("rate", [])
    assert str(setter) == "Giving(rate)"
    assert not setter.chief_only


def test_misuse_is_an_error(graph):
    with pytest.raises(WrongTypeError, match="^Giving got param="):
        Giving(5, [])
    with pytest.raises(NotImplementedError, match="must override _get_value_to_set"):
        HyperParamSetter("rate").get_value_to_set()


def test_the_function_gets_the_epoch_and_the_current_value(graph):
    target = SimpleNamespace(rate=8.0)
    calls = []

    def halve(epoch, value):
        calls.append((epoch, value))
        return value / 2 if epoch % 2 else None

    trainer = FakeTrainer().train([HyperParamSetterWithFunc(ObjAttrParam(target, "rate"), halve)], epochs=(1, 3))
    assert calls == [(0, 8.0), (1, 8.0), (2, 4.0), (3, 4.0)]
    assert target.rate == 2.0
    assert trainer.recorder.values("rate") == [8.0, 4.0, 4.0]


def test_what_is_no_function_is_an_error():
    with pytest.raises(WrongTypeError, match="^HyperParamSetterWithFunc got func="):
        HyperParamSetterWithFunc("rate", 0.1)
