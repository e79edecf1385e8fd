from tpack.cli.runs.log_parser import RunLog, read_log

LOG = """[11-23 09:00:00 @logger.py:1] Log directory /a; command: python old.py
[11-23 09:00:01 @trainer.py:1] WRN an old warning
[11-23 10:00:00 @logger.py:1] Log directory /a; command: python train.py
[11-23 10:00:01 @interface.py:1] 2 towers x 4 = 8 samples a step, 10 steps an epoch.
[11-23 10:00:02 @x.py:1] WRN the disk is nearly full
a traceback
[11-23 10:00:03 @trainer.py:1] Start Epoch 4 ...
[11-23 10:00:04 @trainer.py:1] Epoch 4 (global step 40) finished, time: 1.5 seconds.
[11-23 10:00:05 @progress.py:1] Estimated time left: 3 minutes.
"""


def told_of(tmp_path, text):
    (tmp_path / "log.log").write_text(text)
    return read_log(str(tmp_path))


def test_the_last_run_of_a_log_is_told(tmp_path):
    log = told_of(tmp_path, LOG)
    assert (log.command, log.began, log.last) == ("python train.py", "11-23 10:00:00", "11-23 10:00:05")
    assert (log.state, log.epoch, log.steps_per_epoch) == ("running", 4, 10)
    assert (log.epoch_time, log.time_left) == ("1.5 seconds", "3 minutes")
    assert log.warnings == ["11-23 10:00:02 the disk is nearly full"]
    assert log.settings == ["2 towers x 4 = 8 samples a step, 10 steps an epoch."]


def test_the_end_is_told_and_a_line_that_is_being_written_is_left(tmp_path):
    end = "[11-23 10:00:06 @trainer.py:1] Training has finished!"
    assert told_of(tmp_path, LOG + end).state == "running"
    assert told_of(tmp_path, f"{LOG}{end}\n").state == "finished"
    stop = "[11-23 10:00:06 @trainer.py:1] WRN Training was ended by a signal after step 41."
    assert told_of(tmp_path, f"{LOG}{stop}\n").state == "Training was ended by a signal after step 41."


def test_there_may_be_no_log(tmp_path):
    assert read_log(str(tmp_path / "later")) == RunLog()
