import json
from types import SimpleNamespace

from tests.helpers.fake_trainer import FakeTrainer
from tests.helpers.log_lines import captured_log
from tpack.callbacks.base import Callback
from tpack.callbacks.stat_history import StatisticReader, former_values


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


ENTRIES = [
    {"epoch_num": epoch, "global_step": 10 * epoch, "error": float(epoch), **({"rare": 1.0} if epoch == 2 else {})}
    for epoch in range(1, 6)
]


def at(epoch, step):
    return SimpleNamespace(starting_epoch=epoch, global_step=step, starting_step=0, steps_per_epoch=10)


def test_values_from_before_this_run_are_found(log_dir):
    (log_dir / "stats.json").write_text(json.dumps(ENTRIES))
    assert former_values(at(4, 30), "error") == [1.0, 2.0, 3.0]
    assert former_values(at(4, 40), "error") == [1.0, 2.0, 3.0, 4.0]
    assert former_values(at(4, 30), "rare") == [1.0]
    assert former_values(at(4, 30), "unknown") == []
    assert former_values(at(1, 0), "error") == []


def test_without_a_directory_or_a_file_there_are_none(tmp_path):
    assert former_values(at(4, 30), "error") == []


def test_without_a_file_there_are_none(log_dir):
    assert former_values(at(4, 30), "error") == []


def test_a_damaged_file_is_told(log_dir):
    (log_dir / "stats.json").write_text("[{]")
    with captured_log() as lines:
        assert former_values(at(4, 30), "error") == []
    assert "The former values of 'error' are not known" in lines[0]
