import math

import pytest

from tests.helpers.fake_trainer import FakeTrainer
from tpack.callbacks.base import CallbackFactory
from tpack.callbacks.monitors.group import _ScalarHistory
from tpack.errors import CallbackError


def make_history(*names):
    history = _ScalarHistory()
    for name in names:
        history.process_scalar(name, 1.0)
    return history


def test_history_keeps_every_value_in_order():
    history = _ScalarHistory()
    for value in (3.0, math.nan, 1.0):
        history.process_scalar("cost", value)
    assert history.get_latest("cost") == 1.0
    assert str(history.get_history("cost")) == "[3.0, nan, 1.0]"


def test_history_given_out_is_a_copy():
    history = make_history("cost")
    history.get_history("cost").clear()
    assert history.get_history("cost") == [1.0]


@pytest.mark.parametrize(
    ("known", "said"),
    [
        (["validation_error", "cost"], "near names: validation_error$"),
        (["a", "b"], "near names: a, b$"),
        ([], "there are none yet"),
    ],
)
def test_unknown_name_lists_near_names(known, said):
    with pytest.raises(CallbackError, match=f"no statistic named 'validation_eror' was reported; .*{said}"):
        make_history(*known).get_latest("validation_eror")


def test_rows_are_what_was_reported_at_each_step(graph):
    def report(callback):
        callback.trainer.monitors.put_scalar("cost", callback.epoch_num / 2)
        if callback.epoch_num == 2:
            callback.trainer.monitors.put_scalar("error", 7)

    reports = CallbackFactory(before_train=report, trigger=report)
    monitors = FakeTrainer().train([reports], steps_per_epoch=3, epochs=(1, 2)).monitors
    expected = [
        {"epoch_num": 0, "global_step": 0, "cost": 0.0},
        {"epoch_num": 1, "global_step": 3, "cost": 0.5},
        {"epoch_num": 2, "global_step": 6, "cost": 1.0, "error": 7},
    ]
    assert monitors.rows() == expected
    monitors.rows()[0].clear()
    assert monitors.rows() == expected
