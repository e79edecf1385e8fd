from tpack.cli.runs.terminal import RunLog, read_log

LOG = """[11-23 10:00:00 @logger.py:1] Log directory /a; command: python train.py
[11-23 10:00:02 @x.py:1] WRN the disk is nearly full
a traceback
[11-23 10:00:03 @trainer.py:1] Start Epoch 4 ...
[11-23 10:00:05 @trainer.py:1] ERR a worker failed
[11-23 10:00:06 @progress.py:1] Estimated time left: 3 minutes.
"""


def read(tmp_path, text):
    (tmp_path / "log.log").write_text(text)
    return read_log(str(tmp_path))


def test_warnings_errors_and_the_time_of_the_last_line_are_read(tmp_path):
    log = read(tmp_path, LOG)
    assert log.last == "11-23 10:00:06"
    assert log.warnings == ["11-23 10:00:02 the disk is nearly full", "11-23 10:00:05 a worker failed"]


def test_a_line_that_is_being_written_is_left(tmp_path):
    line = "[11-23 10:00:07 @x.py:1] WRN beware"
    assert read(tmp_path, LOG + line).last == "11-23 10:00:06"
    assert read(tmp_path, f"{LOG}{line}\n").warnings[-1] == "11-23 10:00:07 beware"


def test_the_last_warnings_are_kept(tmp_path):
    lines = [f"[11-23 10:00:00 @x.py:1] WRN {number}\n" for number in range(203)]
    warnings = read(tmp_path, "".join(lines)).warnings
    assert (len(warnings), warnings[0], warnings[-1]) == (200, "11-23 10:00:00 3", "11-23 10:00:00 202")


def test_there_may_be_no_log(tmp_path):
    assert read_log(str(tmp_path / "later")) == RunLog()
