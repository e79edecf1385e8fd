from types import SimpleNamespace

import pytest

from tests.helpers.fake_trainer import FakeTrainer
from tpack.callbacks.hyper_param import ObjAttrParam
from tpack.callbacks.param_setters import HyperParamSetterWithFunc
from tpack.errors import CallbackError


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
    with pytest.raises(CallbackError, match=r"function of \(epoch_num, current_value\), got 0.1"):
        HyperParamSetterWithFunc("rate", 0.1)
