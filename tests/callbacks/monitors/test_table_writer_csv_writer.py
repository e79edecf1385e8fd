import csv
import math

import pytest

from tests.helpers.fake_trainer import FakeTrainer
from tests.helpers.log_lines import captured_log
from tpack.callbacks.base import Callback
from tpack.callbacks.monitors.table_writer import CSVWriter


class Reports(Callback):
    """Reports a cost after each epoch, and from the second on an error that is not finite."""

    def _trigger(self):
        self.trainer.monitors.put_scalar("cost", self.epoch_num / 2)
        if self.epoch_num > 1:
            self.trainer.monitors.put_scalar("error, of all", [math.nan, math.inf, -math.inf][self.epoch_num - 2])


def train(graph, **training):
    return FakeTrainer().train([Reports()], monitors=[CSVWriter()], steps_per_epoch=2, **training)


def read(log_dir):
    with open(log_dir / "stats.csv", encoding="utf-8", newline="") as file:
        return list(csv.reader(file))


TABLE = [
    ["epoch_num", "global_step", "cost", "error, of all"],
    ["1", "2", "0.5", ""],
    ["2", "4", "1.0", "nan"],
    ["3", "6", "1.5", "inf"],
    ["4", "8", "2.0", "-inf"],
]


def test_a_statistic_that_comes_later_is_a_column_more(graph, log_dir):
    seen = []

    class Look(Callback):
        def _before_epoch(self):
            if self.epoch_num == 2:
                seen.extend(read(log_dir))

    FakeTrainer().train([Reports(), Look()], monitors=[CSVWriter()], steps_per_epoch=2, epochs=(1, 4))
    assert seen == [row[:3] for row in TABLE[:2]]
    assert read(log_dir) == TABLE


def test_a_resumed_run_continues_the_table_and_drops_what_came_later(graph, log_dir):
    former = [",".join(f'"{cell}"' for cell in row) for row in [*TABLE[:3], ["3", "6", "7", "8"]]]
    (log_dir / "stats.csv").write_text("\n".join(former) + "\n")
    with captured_log() as lines:
        train(graph, epochs=(3, 4), global_step=4)
    assert read(log_dir) == TABLE
    assert len(lines) == 1
    assert "stats.csv has 1 entries later than epoch 3, step 4" in lines[0]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("epoch_num,global_step\n1,2,3\n", "does not have as many cells"),
        ("epoch_num,global_step,cost\n1,2\n", "does not have as many cells"),
        ("epoch_num,global_step,cost\n1,2,low\n", "could not convert string to float: 'low'"),
        ("epoch_num,global_step\n1,2.5\n", "no whole number for global_step"),
        ("step\n1\n", "no whole number for epoch_num and global_step"),
        ('epoch_num,global_step\n1,"2\n', "unexpected end of data"),
    ],
)
def test_a_damaged_table_is_moved_aside(graph, log_dir, text, said):
    (log_dir / "stats.csv").write_text(text)
    with captured_log() as lines:
        train(graph, epochs=(1, 1))
    assert read(log_dir) == [row[:3] for row in TABLE[:2]]
    assert [path.read_text() for path in log_dir.glob("stats.csv.damaged-*")] == [text]
    assert said in lines[0]


def test_a_run_that_reports_nothing_writes_nothing(graph, log_dir):
    FakeTrainer().train([], monitors=[CSVWriter()], epochs=(1, 1))
    assert not (log_dir / "stats.csv").exists()


def test_without_a_log_directory_it_says_so(graph):
    with captured_log() as lines:
        train(graph, epochs=(1, 1))
    assert lines == [
        "CSVWriter writes nothing: the logger's directory is not set; use logger.set_logger_dir(path), or log_dir of "
        "TrainConfig or fit"
    ]
