import shlex
import subprocess

import pytest

from tests.helpers.fake_trainer import FakeTrainer
from tests.helpers.log_lines import captured_log
from tpack.callbacks.base import CallbackFactory
from tpack.callbacks.send_stat import CommandTemplate, SendMonitorData, SendStat, run_command
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


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("echo {error}", "echo 0.125"),
        ("echo {error:.2f} {layer.0/cost:>5}", "echo 0.12 '    3'"),
        ("echo '{{\"e\": {error}}}'", "echo '{\"e\": 0.125}'"),
        ("echo nothing", "echo nothing"),
    ],
)
def test_values_are_filled_in(command, expected):
    template = CommandTemplate(command, ["error", "layer.0/cost"])
    assert template.fill({"error": 0.125, "layer.0/cost": 3, "more": 1}) == expected


@pytest.mark.parametrize(
    "value", ["; touch evil", "$(touch evil)", "`x`", "it's", 'a "b"', "", "-n", float("nan"), 1e-30]
)
def test_whatever_a_value_is_the_shell_sees_one_word(value):
    filled = CommandTemplate("printf '%s|' {a} end", ["a"]).fill({"a": value})
    assert shlex.split(filled) == ["printf", "%s|", str(value), "end"]
    assert subprocess.run(filled, shell=True, capture_output=True, text=True).stdout == f"{value}|end|"


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("echo {eror} {x}", r"uses eror, x: expected names of \['error'\]"),
        ("echo {", "cannot be read as a template"),
        ("echo {}", "uses : expected"),
    ],
)
def test_a_template_that_cannot_be_filled_is_an_error(command, message):
    with pytest.raises(ConfigError, match=message):
        CommandTemplate(command, ["error"])


def test_a_command_is_run_and_its_failure_is_told(tmp_path):
    with captured_log() as lines:
        run_command(f"touch {tmp_path}/done", 60)
        assert (tmp_path / "done").exists()
        assert lines == []
        run_command("exit 3", 60)
    assert lines == ["Command 'exit 3' failed with exit code 3."]


def test_a_command_that_does_not_end_is_killed_with_what_it_started():
    with captured_log() as lines:
        run_command("sleep 1000 & sleep 1000; wait", 0.05)
    assert lines == ["Command 'sleep 1000 & sleep 1000; wait' did not end within 0.05 seconds and was killed."]


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


def test_another_name_in_the_command_of_a_monitor_is_an_error():
    with pytest.raises(ConfigError, match="uses eror"):
        SendMonitorData("echo {eror}", "error")
