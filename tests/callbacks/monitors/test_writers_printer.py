import pytest

from tests.helpers.fake_trainer import FakeTrainer
from tests.helpers.log_lines import captured_log
from tpack.callbacks.base import Callback
from tpack.callbacks.monitors.writers import ScalarPrinter


class Reports(Callback):
    def _trigger_step(self):
        self.trainer.monitors.put_scalar("step/time", self.global_step)

    def _trigger(self):
        self.trainer.monitors.put_scalar("error", 0.123456789)
        self.trainer.monitors.put_scalar("cost", float("nan"))


EPOCH = ["cost: nan", "error: 0.12346"]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, [*EPOCH, "step/time: 2"]),
        ({"enable_step": True}, ["step/time: 1", "step/time: 2", *EPOCH]),
        ({"enable_step": True, "enable_epoch": False}, ["step/time: 1", "step/time: 2"]),
        ({"whitelist": ["err", "c"]}, EPOCH),
        ({"whitelist": []}, []),
        ({"blacklist": [".*or"]}, ["cost: nan", "step/time: 2"]),
        ({"whitelist": ["cost", "error"], "blacklist": ["cost"]}, ["error: 0.12346"]),
    ],
)
def test_printer_logs_what_came(graph, options, expected):
    with captured_log() as lines:
        FakeTrainer().train([Reports()], monitors=[ScalarPrinter(**options)], steps_per_epoch=2, epochs=(1, 1))
    assert lines == expected


def test_printer_asks_for_steps_only_when_enabled():
    assert not ScalarPrinter().implements("trigger_step")
    assert ScalarPrinter(enable_step=True).implements("trigger_step")


def test_printer_logs_each_value_once(graph):
    class Once(Callback):
        def _before_train(self):
            self.trainer.monitors.put_scalar("start", 1)

    with captured_log() as lines:
        FakeTrainer().train([Once()], monitors=[ScalarPrinter()], epochs=(1, 3))
    assert lines == ["start: 1"]
