import json
import os

import pytest

from tpack.callbacks.monitors.run_status import write_run
from tpack.cli.runs.terminal import run_lines

LOG = "[11-23 10:00:03 @trainer.py:1] Start Epoch 2 ...\n[11-23 10:00:04 @x.py:1] WRN beware\n"
ENTRIES = [
    {"epoch_num": k, "global_step": 5 * k, "cost": 1 / k, "Throughput (steps/sec)": 90, "Q/data_wait_ratio": 0.25}
    for k in (1, 2)
]


def test_a_run_is_told_in_as_many_lines_as_there_are(tmp_path):
    (tmp_path / "log.log").write_text(LOG)
    (tmp_path / "stats.json").write_text(json.dumps(ENTRIES))
    lines = run_lines("run", str(tmp_path), 200, 40)
    assert lines[0] == "run: unknown, epoch 2, step 10, last line 11-23 10:00:04"
    assert lines[1] == "  90 steps/sec   waits for data 25 %"
    assert lines[2] == "  1 warning(s), the last: 11-23 10:00:04 beware"
    assert "cost 0.5" in lines[3]
    assert len(lines) == 8
    small = run_lines("run", str(tmp_path), 20, 6)
    assert len(small) == 3
    assert max(map(len, small)) == 20


def test_a_run_that_is_not_there_or_is_damaged_is_told(tmp_path):
    assert "nothing yet" in run_lines("later", str(tmp_path / "later"), 200, 9)[0]
    (tmp_path / "stats.json").write_text('[{"epoch_num": 1')
    assert "is not valid JSON" in run_lines("half", str(tmp_path), 200, 9)[0]


TOLD = {
    "state": "running",
    "versions": {},
    "config": {},
    "progress": {"epoch": 2, "max_epoch": 5, "step": 30, "steps_per_epoch": 100, "global_step": 130},
}


def told(tmp_path, state="running", **progress):
    write_run(str(tmp_path), {**TOLD, "state": state, "progress": {**TOLD["progress"], **progress}})
    return run_lines("run", str(tmp_path), 200, 40)


def test_progress_inside_an_epoch_is_told(tmp_path):
    lines = told(tmp_path, steps_per_sec=4.0, secs_left=92.0)
    assert lines[0] == "run: running, epoch 2 of 5, step 130, last line -"
    assert lines[1] == f"  {'█' * 9}{'░' * 21} 30/100 steps of the epoch"
    assert lines[2] == "  4 steps/sec   1 minute 32 seconds left"
    assert told(tmp_path, max_epoch=99999)[0] == "run: running, epoch 2, step 130, last line -"
    assert told(tmp_path, state="finished", steps_per_sec=4.0, secs_left=0.0)[2] == "  "


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"state": "running"}, "running"),
        ({"state": "ended without a word"}, "ended without a word"),
        ({"state": "failed"}, "failed"),
        ({"state": "finished"}, "finished"),
        ({"state": "interrupted", "reason": "Training was ended by a signal after step 4."}, "Training was ended by a"),
    ],
)
def test_the_reason_of_an_end_is_shown(tmp_path, fields, expected):
    write_run(str(tmp_path), {**TOLD, **fields})
    # No sentence of the log counts.
    (tmp_path / "log.log").write_text("[11-23 10:00:03 @trainer.py:1] Training has finished!\n")
    assert run_lines("run", str(tmp_path), 200, 40)[0].startswith(f"run: {expected}")


def test_the_time_of_an_epoch_is_shown(tmp_path):
    assert told(tmp_path, epoch_secs=1.5)[2] == "  an epoch takes 1.5 seconds"


def test_what_a_file_says_does_not_control_the_terminal(tmp_path):
    (tmp_path / "log.log").write_text("[11-23 10:00:04 @x.py:1] WRN \x1b]0;title\x07\x9b2J text\n")
    lines = run_lines("run\x1b[2J", str(tmp_path), 200, 40)
    assert "text" in lines[-1]
    assert all(letter.isprintable() for letter in "".join(lines))


@pytest.mark.parametrize("name", ["log.log", "run.json", "stats.json"])
@pytest.mark.parametrize("kind", ["pipe", "device", "loop"])
def test_what_is_no_file_is_told_and_not_waited_for(tmp_path, name, kind):
    path = tmp_path / name
    if kind == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to("/dev/zero" if kind == "device" else path)
    (line,) = run_lines("run", str(tmp_path), 400, 40)
    assert ("Too many levels" if kind == "loop" else "expected a regular file") in line


def test_a_line_without_an_end_is_left_out(tmp_path):
    (tmp_path / "log.log").write_text("x" * 300_000 + "\n" + LOG)
    assert run_lines("run", str(tmp_path), 200, 40)[0].endswith("last line 11-23 10:00:04")


def test_a_curve_between_the_largest_numbers_is_drawn(tmp_path):
    entries = [{"epoch_num": k, "global_step": k, "cost": (-1) ** k * 1.7e308} for k in range(4)]
    (tmp_path / "stats.json").write_text(json.dumps(entries))
    assert "cost -1.7e+308" in "".join(run_lines("run", str(tmp_path), 200, 40))


def test_texts_among_statistics_are_left_out(tmp_path):
    entry = {"epoch_num": 1, "global_step": 1, "Throughput (x)": "fast", "cost": 0.5}
    (tmp_path / "stats.json").write_text(json.dumps([entry]))
    assert "fast" not in "".join(run_lines("run", str(tmp_path), 200, 40))
