import pytest

from tests.helpers.fake_trainer import FakeTrainer
from tests.helpers.log_lines import captured_log
from tpack.callbacks.base import CallbackFactory
from tpack.callbacks.send_stat import SendStat
from tpack.errors import ConfigError


def test_the_latest_values_are_sent_after_all_were_reported(graph, tmp_path):
    send = SendStat(f"echo {{error:.2f}} {{epoch}} >> {tmp_path}/sent", ["error", "epoch"])

    def report(callback):
        callback.trainer.monitors.put_scalar("error", 1 / callback.epoch_num)
        callback.trainer.monitors.put_scalar("epoch", callback.epoch_num)

    FakeTrainer().train([send, CallbackFactory(trigger=report)])
    assert (tmp_path / "sent").read_text() == "1.00 1\n0.50 2\n"


def test_nothing_is_sent_before_there_is_a_value(graph, tmp_path):
    with captured_log() as lines:
        FakeTrainer().train([SendStat(f"echo {{error}} >> {tmp_path}/sent", "error")], epochs=(1, 1))
    assert not (tmp_path / "sent").exists()
    assert lines == ["SendStat sends nothing yet: no statistic named 'error' was reported; there are none yet"]


def test_another_name_in_the_command_is_an_error():
    with pytest.raises(ConfigError, match="uses eror"):
        SendStat("echo {eror}", "error")
