"""What run.json says, and what is refused."""

import json
import os
import socket
import subprocess
import sys

import pytest

from tpack.callbacks.monitors.run_status import FILENAME, read_run, write_run
from tpack.errors import CallbackError

TOLD = {"state": "running", "versions": {"tpack": "1"}, "config": {}, "progress": {"epoch": 3}}


def test_what_is_written_is_read(tmp_path):
    assert read_run(str(tmp_path)) == {}
    write_run(str(tmp_path), TOLD)
    assert read_run(str(tmp_path)) == TOLD
    assert os.listdir(tmp_path) == [FILENAME]


@pytest.mark.parametrize(
    ("host", "state"), [(socket.gethostname(), "ended without a word"), ("another machine", "running")]
)
def test_a_run_whose_process_is_gone_is_no_running_one(tmp_path, host, state):
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        process.wait()
    write_run(str(tmp_path), {**TOLD, "host": host, "pid": process.pid})
    assert read_run(str(tmp_path))["state"] == state
    write_run(str(tmp_path), {**TOLD, "host": host, "pid": os.getpid()})
    assert read_run(str(tmp_path))["state"] == "running"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"state": ', "is not valid JSON"),
        ("[1]", r"should hold a dictionary with versions, config, progress, got \[1\]"),
        (json.dumps({**TOLD, "progress": 5}), "should hold a dictionary"),
    ],
)
def test_another_file_is_refused(tmp_path, text, message):
    (tmp_path / FILENAME).write_text(text, encoding="utf-8")
    with pytest.raises(CallbackError, match=message):
        read_run(str(tmp_path))


def test_deeply_nested_content_is_refused_in_words(tmp_path):
    (tmp_path / "run.json").write_text("[" * 100_000 + "]" * 100_000)
    with pytest.raises(CallbackError, match="is not valid JSON"):
        read_run(str(tmp_path))


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"state": 5}, "got state=5: expected text"),
        ({"reason": ["a"]}, "got reason=.*: expected text"),
        ({"progress": {"step": "x"}}, "got progress.step='x': expected a finite number"),
        ({"progress": {"secs_left": float("nan")}}, "got progress.secs_left=nan: expected a finite number"),
        ({"progress": {"epoch": 10**400}}, "got progress.epoch=10*\\.\\.\\.: expected a finite number"),
    ],
)
def test_values_of_other_kinds_are_refused(tmp_path, changed, message):
    (tmp_path / FILENAME).write_text(json.dumps({**TOLD, **changed}))
    with pytest.raises(CallbackError, match=message):
        read_run(str(tmp_path))


@pytest.mark.parametrize("pid", [0, -1, 10**30, "1", None])
def test_a_process_number_that_no_process_has_is_no_running_one(tmp_path, pid):
    write_run(str(tmp_path), {**TOLD, "host": socket.gethostname(), "pid": pid})
    assert read_run(str(tmp_path))["state"] == "ended without a word"


def test_a_pipe_in_its_place_is_refused(tmp_path):
    os.mkfifo(tmp_path / FILENAME)
    with pytest.raises(CallbackError, match="run.json is a pipe, a device or the like: expected a regular file"):
        read_run(str(tmp_path))
