import pytest

from tests.helpers.fake_trainer import FakeTrainer
from tests.helpers.log_lines import captured_log
from tpack.callbacks.base import CallbackFactory
from tpack.callbacks.monitors.writers import SendMonitorData
from tpack.errors import ConfigError


def test_what_came_in_an_epoch_is_sent_after_it(graph, tmp_path):
    monitor = SendMonitorData(f"echo {{error}} {{epoch}} >> {tmp_path}/sent", ["error", "epoch"])

    def report(callback):
        monitors, epoch = callback.trainer.monitors, callback.epoch_num
        monitors.put_scalar("epoch", epoch)
        monitors.put_scalar("other", 5)
        if epoch != 2:
            monitors.put_scalar("error", epoch / 2)

    with captured_log() as lines:
        FakeTrainer().train([CallbackFactory(trigger=report)], monitors=[monitor], epochs=(1, 4))
    assert (tmp_path / "sent").read_text() == "0.5 1\n1.5 3\n2.0 4\n"
    assert lines == ["SendMonitorData sends nothing in epoch 2: error did not come."]


def test_another_name_in_the_command_is_an_error():
    with pytest.raises(ConfigError, match="uses eror"):
        SendMonitorData("echo {eror}", "error")
