import json
import math

import pytest

from tests.helpers.claims import claimed_elsewhere
from tests.helpers.fake_trainer import FakeTrainer
from tests.helpers.log_lines import captured_log
from tpack.callbacks.base import Callback
from tpack.callbacks.monitors.table_writer import JSONWriter
from tpack.errors import CallbackError, ConfigError


class Reports(Callback):
    """Reports the epoch after each, and something in the middle of each and before training."""

    def __init__(self, *, before_train=False):
        self.reports_before_train = before_train

    def _before_train(self):
        if self.reports_before_train:
            self.trainer.monitors.put_scalar("start", 1)

    def _trigger_step(self):
        if self.local_step == 1:
            self.trainer.monitors.put_scalar("middle", self.global_step)

    def _trigger(self):
        self.trainer.monitors.put_scalar("cost", self.epoch_num / 2)


def entry(epoch_num, global_step, **statistics):
    return {"epoch_num": epoch_num, "global_step": global_step, **statistics}


def epoch_entries(epoch):
    return [entry(epoch, 2 * epoch - 1, middle=2 * epoch - 1), entry(epoch, 2 * epoch, cost=epoch / 2)]


def train(graph, callback=None, **training):
    callbacks = [callback or Reports()]
    return FakeTrainer().train(callbacks, monitors=[JSONWriter()], steps_per_epoch=2, **training)


def read(log_dir):
    return json.loads((log_dir / "stats.json").read_text())


def test_statistics_are_written_by_step(graph, log_dir):
    train(graph, epochs=(1, 2))
    assert read(log_dir) == [*epoch_entries(1), *epoch_entries(2)]


def test_file_is_complete_after_each_epoch(graph, log_dir):
    seen = []

    class Look(Callback):
        def _before_epoch(self):
            if self.epoch_num > 1:
                seen.append(read(log_dir))

    FakeTrainer().train([Reports(), Look()], monitors=[JSONWriter()], steps_per_epoch=2, epochs=(1, 2))
    assert seen == [epoch_entries(1)]


def test_what_an_interrupted_epoch_reported_is_written(graph, log_dir):
    train(graph, interrupt_at=1)
    assert read(log_dir) == [entry(1, 1, middle=1)]


def test_resumed_run_drops_what_came_later(graph, log_dir):
    former = [entry(epoch, 2 * epoch, cost=7.0) for epoch in (1, 2, 3)]
    (log_dir / "stats.json").write_text(json.dumps(former))
    with captured_log() as lines:
        train(graph, epochs=(2, 2), global_step=2)
    assert read(log_dir) == [former[0], *epoch_entries(2)]
    assert len(lines) == 1
    assert "has 2 entries later than epoch 2, step 2" in lines[0]


def test_run_resumed_in_the_middle_of_an_epoch_keeps_its_beginning(graph, log_dir):
    former = [entry(1, 1, middle=7), entry(1, 2, cost=7)]
    (log_dir / "stats.json").write_text(json.dumps(former))
    train(graph, epochs=(1, 1), global_step=1)
    assert read(log_dir)[0] == former[0]
    assert [e["global_step"] for e in read(log_dir)] == [1, 2, 3]


def test_nothing_is_double_when_the_start_is_reported_again(graph, log_dir):
    former = [entry(0, 0, start=5, other=6)]
    (log_dir / "stats.json").write_text(json.dumps(former))
    train(graph, Reports(before_train=True), epochs=(1, 1))
    assert read(log_dir) == [entry(0, 0, start=1, other=6), *epoch_entries(1)]


@pytest.mark.parametrize("text", ["[{", "{}", "[1]", '[{"epoch_num": "1"}]'])
def test_damaged_file_is_moved_aside(graph, log_dir, text):
    (log_dir / "stats.json").write_text(text)
    with captured_log() as lines:
        train(graph, epochs=(1, 1))
    assert read(log_dir) == epoch_entries(1)
    moved = list(log_dir.glob("stats.json.damaged-*"))
    assert [path.read_text() for path in moved] == [text]
    assert str(moved[0]) in lines[0]


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_what_is_not_finite_is_null_and_comes_back_as_nan(graph, log_dir, value):
    class Nan(Callback):
        def _trigger(self):
            self.trainer.monitors.put_scalar("cost", value)

    def refuse(name):
        raise AssertionError(f"{name} is no JSON")

    train(graph, Nan(), epochs=(1, 1))
    text = (log_dir / "stats.json").read_text()
    assert json.loads(text, parse_constant=refuse) == [entry(1, 2, cost=None)]
    assert math.isnan(JSONWriter.load_existing_json()[0]["cost"])


def test_a_file_of_the_former_name_is_gone_on_from(graph, log_dir):
    former = [*epoch_entries(1), entry(1, 2, bare=math.nan)]
    (log_dir / "stat.json").write_text(json.dumps(former))
    assert JSONWriter.load_existing_epoch_number() == 1
    train(graph, epochs=(2, 2), global_step=2)
    assert read(log_dir) == [*epoch_entries(1), entry(1, 2, bare=None), *epoch_entries(2)]
    # From now on the new one counts.
    (log_dir / "stat.json").write_text("[]")
    assert len(JSONWriter.load_existing_json()) == 5


def test_existing_file_can_be_loaded(log_dir, tmp_path):
    assert JSONWriter.load_existing_json() is None
    assert JSONWriter.load_existing_epoch_number() is None
    (log_dir / "stats.json").write_text(json.dumps([entry(1, 2), entry(3, 6)]))
    assert JSONWriter.load_existing_json() == [entry(1, 2), entry(3, 6)]
    assert JSONWriter.load_existing_epoch_number() == 3
    assert JSONWriter.load_existing_json(str(tmp_path)) is None


def test_loading_says_what_is_wrong(log_dir):
    (log_dir / "stats.json").write_text("nonsense")
    with pytest.raises(CallbackError, match="stats.json is not valid JSON"):
        JSONWriter.load_existing_json()
    (log_dir / "stats.json").write_text("{}")
    with pytest.raises(CallbackError, match="should hold a list of dictionaries"):
        JSONWriter.load_existing_epoch_number()


def test_loading_without_a_directory_is_an_error():
    with pytest.raises(CallbackError, match="JSONWriter got dir=None: expected a directory"):
        JSONWriter.load_existing_json()


def test_without_a_directory_nothing_is_written(graph):
    with captured_log() as lines:
        train(graph)
    assert lines == [
        "JSONWriter writes nothing: the logger's directory is not set; use logger.set_logger_dir(path), or log_dir of "
        "TrainConfig or fit"
    ]


def test_what_a_killed_process_left_of_writing_the_file_is_removed(graph, log_dir):
    left, other = log_dir / f".{JSONWriter.FILENAME}.0a1b2c3d.tmp", log_dir / ".mine.json.0a1b2c3d.tmp"
    left.touch()
    other.touch()
    FakeTrainer().train([], monitors=[JSONWriter()])
    assert not left.exists()
    assert other.exists()


def test_directory_that_another_process_writes_to_is_an_error(graph, log_dir):
    with claimed_elsewhere(log_dir) as pid, pytest.raises(ConfigError, match=f"in use: process {pid} on "):
        FakeTrainer().train([], monitors=[JSONWriter()])
    assert not (log_dir / JSONWriter.FILENAME).exists()
