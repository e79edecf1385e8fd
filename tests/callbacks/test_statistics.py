from tests.helpers.fake_trainer import FakeTrainer
from tests.helpers.log_lines import captured_log
from tpack.callbacks.base import Callback
from tpack.callbacks.statistics import StatisticReader


class Reading(Callback):
    """Notes what is new at each trigger."""

    reads_statistics = True

    def __init__(self):
        self.statistic = StatisticReader(self, "error")
        self.seen = []

    def _trigger_step(self):
        if self.global_step in (2, 3, 6):
            self.trainer.monitors.put_scalar("error", self.global_step)

    def _trigger(self):
        self.seen.append(self.statistic.new_values())


def test_each_value_is_new_once(graph):
    reading = Reading()
    with captured_log() as lines:
        FakeTrainer().train([reading], steps_per_epoch=1, epochs=(1, 7))
    assert reading.seen == [[], [2], [3], [], [], [6], []]
    assert lines == ["Reading has nothing to go by yet: no statistic named 'error' was reported; there are none yet"]
