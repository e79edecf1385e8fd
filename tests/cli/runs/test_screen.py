import json

from tpack.cli.runs.screen import run_lines

LOG = "[11-23 10:00:03 @trainer.py:1] Start Epoch 2 ...\n[11-23 10:00:04 @x.py:1] WRN beware\n"
ENTRIES = [
    {"epoch_num": k, "global_step": 5 * k, "cost": 1 / k, "Throughput (steps/sec)": 90, "Q/data_wait_ratio": 0.25}
    for k in (1, 2)
]


def test_a_run_is_told_in_as_many_lines_as_there_are(tmp_path):
    (tmp_path / "log.log").write_text(LOG)
    (tmp_path / "stats.json").write_text(json.dumps(ENTRIES))
    lines = run_lines("run", str(tmp_path), 200, 40)
    assert lines[0] == "run: running, epoch 2, step 10, last line 11-23 10:00:04"
    assert lines[1] == "  90 steps/sec   waits for data 25 %"
    assert lines[2] == "  1 warning(s), the last: 11-23 10:00:04 beware"
    assert "cost 0.5" in lines[3]
    assert len(lines) == 8
    small = run_lines("run", str(tmp_path), 20, 6)
    assert len(small) == 3
    assert max(map(len, small)) == 20


def test_a_run_that_is_not_there_or_is_damaged_is_told(tmp_path):
    assert "nothing there yet" in run_lines("later", str(tmp_path / "later"), 200, 9)[0]
    (tmp_path / "stats.json").write_text('[{"epoch_num": 1')
    assert "is not valid JSON" in run_lines("half", str(tmp_path), 200, 9)[0]
