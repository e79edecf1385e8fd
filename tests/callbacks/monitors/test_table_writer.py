import json
import os

import pytest

from tests.helpers.fake_trainer import FakeTrainer
from tests.helpers.log_lines import captured_log
from tpack.callbacks.monitors.table_writer import TableWriter
from tpack.errors import CallbackError


class LinesWriter(TableWriter):
    """Writes an entry a line."""

    FILENAME = "entries.txt"

    def _read_entries(self, directory):
        path = self._path_to_read(directory)
        if not os.path.exists(path):
            return None
        with open(path, encoding="utf-8") as file:
            try:
                return [json.loads(line) for line in file]
            except ValueError as error:
                raise CallbackError(f"{path} is damaged: {error}") from error

    def _write_entries(self, file, entries):
        file.writelines(f"{json.dumps(entry)}\n" for entry in entries)

    def _trigger(self):
        self.process_scalar("cost", self.epoch_num / 2)
        super()._trigger()


def train(**training):
    with captured_log() as lines:
        FakeTrainer().train([], monitors=[LinesWriter()], steps_per_epoch=2, **training)
    return lines


def costs(log_dir):
    return [json.loads(line)["cost"] for line in (log_dir / "entries.txt").read_text().splitlines()]


def test_a_resumed_run_goes_on_with_the_entries_from_before_it(graph, log_dir):
    entries = [{"epoch_num": epoch, "global_step": 2 * epoch, "cost": epoch / 2} for epoch in (1, 2, 3)]
    (log_dir / "entries.txt").write_text("".join(f"{json.dumps(entry)}\n" for entry in entries))
    (line,) = train(epochs=(3, 4), global_step=4)
    assert "entries.txt has 1 entries later than epoch 3, step 4, where this run starts: they are dropped" in line
    assert costs(log_dir) == [0.5, 1.0, 1.5, 2.0]


def test_a_damaged_file_is_kept_aside(graph, log_dir):
    (log_dir / "entries.txt").write_text("{nothing")
    (line,) = train(epochs=(1, 1))
    assert "is damaged" in line
    assert costs(log_dir) == [0.5]
    (aside,) = log_dir.glob("entries.txt.damaged-*")
    assert aside.read_text() == "{nothing"


def test_a_file_that_cannot_be_written_ends_training(graph, log_dir):
    (log_dir / "entries.txt").mkdir()
    with pytest.raises(CallbackError, match=r"cannot write statistics to .*entries\.txt"):
        LinesWriterWithoutReading.trained()


class LinesWriterWithoutReading(LinesWriter):
    """Finds nothing to go on from."""

    def _read_entries(self, directory):
        return None

    @classmethod
    def trained(cls):
        FakeTrainer().train([], monitors=[cls()], steps_per_epoch=1, epochs=(1, 1))
