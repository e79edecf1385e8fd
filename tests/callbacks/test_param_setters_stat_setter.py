import json
from types import SimpleNamespace

import pytest

from tests.helpers.fake_trainer import FakeTrainer
from tests.helpers.log_lines import captured_log
from tpack.callbacks.base import CallbackFactory
from tpack.callbacks.hyper_param import ObjAttrParam
from tpack.callbacks.param_setters import StatMonitorParamSetter
from tpack.errors import ConfigError


def train(stats, first_epoch=1, **options):
    """Report one statistic in each epoch (None for none) and return the rate that each epoch was trained with."""
    target = SimpleNamespace(rate=64.0)
    pending = list(stats)

    def report(callback):
        value = pending.pop(0)
        if value is not None:
            callback.trainer.monitors.put_scalar("error", value)

    options = {"threshold": 0, "last_k": 2, **options}
    setter = StatMonitorParamSetter(ObjAttrParam(target, "rate"), "error", lambda rate: rate / 2, **options)
    # The setter stands before the one who reports, and is triggered after it all the same.
    trainer = FakeTrainer().train(
        [setter, CallbackFactory(trigger=report)], epochs=(first_epoch, first_epoch + len(stats) - 1), steps_per_epoch=1
    )
    return [*trainer.recorder.values("rate")[1:], target.rate]


def test_the_parameter_changes_when_the_statistic_does_not_get_better(graph):
    assert train([9, 8, 8, 8, 7, 6, 6, 6]) == [64, 64, 64, 32, 32, 32, 32, 16]


def test_the_next_change_waits_for_as_many_values_again(graph):
    assert train([5] * 7) == [64, 64, 32, 32, 16, 16, 8]


def test_a_statistic_may_be_better_when_it_is_larger(graph):
    assert train([1, 2, 3, 3, 2], reverse=True) == [64, 64, 64, 64, 32]


def test_less_than_the_threshold_is_no_improvement(graph):
    assert train([9, 8.5, 8.1, 7, 6], threshold=1.0) == [64, 64, 32, 32, 32]


def test_epochs_without_a_new_value_do_not_count(graph):
    with captured_log() as lines:
        assert train([None, None, 5, None, 5, None, 5]) == [64, 64, 64, 64, 64, 64, 32]
    assert len([line for line in lines if "has nothing to go by yet" in line]) == 1


def test_values_of_a_former_run_count(graph, log_dir):
    entries = [{"epoch_num": k, "global_step": k, "error": 5.0} for k in (1, 2, 3, 4)]
    (log_dir / "stats.json").write_text(json.dumps(entries))
    # Epochs 3 and 4 of the former run come after where this one starts.
    assert train([5, 5, 5], first_epoch=3) == [32, 32, 16]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"last_k": 0}, "last_k=0: expected an integer of at least 1"),
        ({"threshold": -1}, "threshold=-1: expected a number of at least 0"),
        ({"reverse": "no"}, "reverse='no': expected True or False or None"),
        ({"enable": 1}, "enable=1: expected True or False"),
    ],
)
def test_what_makes_no_sense_is_an_error(options, message):
    with pytest.raises(ConfigError, match=message):
        StatMonitorParamSetter("rate", "error", abs, **{"threshold": 0, "last_k": 2, **options})


def test_a_resumed_run_remembers_the_last_change(graph):
    setter = StatMonitorParamSetter(ObjAttrParam(SimpleNamespace(rate=64.0), "rate"), "error", abs, 0, 2)
    other = StatMonitorParamSetter(ObjAttrParam(SimpleNamespace(rate=64.0), "rate"), "error", abs, 0, 2)
    pending = [5, 5, 5, 5]
    report = CallbackFactory(trigger=lambda cb: cb.trainer.monitors.put_scalar("error", pending.pop(0)))
    FakeTrainer().train([setter, report], epochs=(1, 4), steps_per_epoch=1)
    # The third value brought a change, and the fourth came after it.
    assert setter.state_to_save() == [5, 5]
    other.load_saved_state([9, 5, 5, 5])
    assert other.state_to_save() == [5, 5, 5]
