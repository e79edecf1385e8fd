"""Statistics are read without TensorFlow, under their name of today or the former one."""

import json
import math
import os
import subprocess
import sys

import pytest

from tests.helpers.source import ROOT
from tpack.callbacks.monitors import stats_file
from tpack.errors import CallbackError

ENTRIES = [{"epoch_num": 1, "global_step": 3, "cost": 0.5}, {"epoch_num": 2, "global_step": 6, "cost": None}]


def test_null_is_read_as_nan_and_written_for_what_is_not_finite(tmp_path):
    (tmp_path / "stats.json").write_text(json.dumps(ENTRIES))
    first, second = stats_file.read_entries(str(tmp_path))
    assert first == ENTRIES[0]
    assert math.isnan(second["cost"])
    assert [stats_file.as_json(entry) for entry in (first, second, {"a": math.inf})] == [*ENTRIES, {"a": None}]


def test_the_former_name_counts_where_there_is_no_other(tmp_path):
    assert stats_file.read_entries(str(tmp_path)) is None
    (tmp_path / "stat.json").write_text(json.dumps(ENTRIES[:1]))
    assert len(stats_file.read_entries(str(tmp_path))) == 1
    (tmp_path / "stats.json").write_text(json.dumps(ENTRIES))
    assert len(stats_file.read_entries(str(tmp_path))) == 2


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[", "is not valid JSON"),
        ("{}", "should hold a list"),
        ("[1]", "should hold"),
        ('[{"epoch_num": "1"}]', "hold"),
    ],
)
def test_other_content_is_an_error(tmp_path, text, message):
    (tmp_path / "stats.json").write_text(text)
    with pytest.raises(CallbackError, match=message):
        stats_file.read_entries(str(tmp_path))


def test_reading_loads_no_tensorflow():
    code = (
        "import sys, tpack.cli.plot, tpack.callbacks.monitors.stats_file as s; assert 'tensorflow' not in sys.modules"
    )
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 0


def test_deeply_nested_content_is_refused_in_words(tmp_path):
    (tmp_path / "stats.json").write_text("[" * 100_000 + "]" * 100_000)
    with pytest.raises(CallbackError, match="is not valid JSON"):
        stats_file.read_entries(str(tmp_path))


@pytest.mark.parametrize("value", ["[1]", "{}", "1" + "0" * 400, "9" * 4000])
def test_what_is_no_number_is_refused(tmp_path, value):
    (tmp_path / "stats.json").write_text(f'[{{"epoch_num": 1, "global_step": 2, "cost": {value}}}]')
    with pytest.raises(CallbackError, match="should hold a list of dictionaries of numbers, got"):
        stats_file.read_entries(str(tmp_path))


def test_pipes_devices_and_files_above_the_limit_are_refused(tmp_path, monkeypatch):
    path = tmp_path / "stats.json"
    os.mkfifo(path)
    with pytest.raises(CallbackError, match="expected a regular file"):
        stats_file.read_entries(str(tmp_path))
    path.unlink()
    path.symlink_to("/dev/zero")
    with pytest.raises(CallbackError, match="expected a regular file"):
        stats_file.read_entries(str(tmp_path))
    path.unlink()
    path.write_text(json.dumps(ENTRIES))
    monkeypatch.setattr(stats_file, "MOST_BYTES", 20)
    with pytest.raises(CallbackError, match=r"stats.json has \d+ bytes: expected at most 20"):
        stats_file.read_entries(str(tmp_path))
