"""A log directory that is deleted, or cannot be written any more, ends training with one error that says so."""

import errno
import os
import shutil

import pytest

from tests.helpers.log_lines import captured_log
from tests.helpers.toy_training import Line, line_input
from tpack.callbacks.base import Callback, CallbackFactory
from tpack.callbacks.min_max_saver import MinSaver
from tpack.callbacks.saver import ModelSaver
from tpack.errors import TpackError
from tpack.train.config import TrainConfig
from tpack.train.interface import launch_train_with_config
from tpack.train.trainers import SimpleTrainer


def train(change, callbacks):
    """Train two epochs, at the end of the first of which something is changed."""
    report = CallbackFactory(trigger=lambda cb: cb.trainer.monitors.put_scalar("cost", 1 / cb.epoch_num))
    config = TrainConfig(
        model=Line(),
        data=line_input(),
        callbacks=[report, CallbackFactory(trigger=lambda cb: cb.epoch_num == 2 and change()), *callbacks],
        steps_per_epoch=2,
        max_epoch=3,
    )
    launch_train_with_config(config, SimpleTrainer())


def chain(error):
    """Return an error and those that it came of, as a traceback prints them."""
    found = []
    while error is not None:
        found.append(error)
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return found


@pytest.mark.parametrize(
    "callbacks",
    [lambda: [], lambda: [ModelSaver()], lambda: [MinSaver("cost")]],
    ids=["none", "ModelSaver", "MinSaver"],
)
def test_deleted_directory_is_one_error_in_words(log_dir, callbacks):
    with captured_log() as lines, pytest.raises(TpackError) as caught:
        train(lambda: shutil.rmtree(log_dir), callbacks())
    assert len([error for error in chain(caught.value) if isinstance(error, TpackError)]) == 1
    assert "cannot write" in str(caught.value)
    assert f"the directory {log_dir} is gone" in str(caught.value) or "No such file or directory" in str(caught.value)
    assert "Traceback" not in "".join(lines)
    assert not log_dir.exists()


def test_full_disk_is_one_error_in_words(log_dir, monkeypatch):
    def fill_up():
        def fail(handle):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        monkeypatch.setattr(os, "fsync", fail)

    with pytest.raises(TpackError, match="cannot write statistics to .*: No space left on device") as caught:
        train(fill_up, [ModelSaver()])
    assert len([error for error in chain(caught.value) if isinstance(error, TpackError)]) == 1


def test_the_error_that_training_ends_with_is_not_replaced_by_those_of_callbacks_that_cannot_be_finished(log_dir):
    class Broken(Callback):
        def _trigger(self):
            raise ZeroDivisionError("the reason")

        def _after_train(self):
            raise OSError("what follows")

    with captured_log() as lines, pytest.raises(ZeroDivisionError, match="the reason"):
        train(lambda: None, [Broken()])
    assert [line for line in lines if "what follows" in line] == [
        "Callbacks could not finish after the error that ended training: what follows"
    ]


def test_an_error_of_a_callback_that_cannot_be_finished_is_raised_where_there_is_no_other(log_dir):
    class Broken(Callback):
        def _after_train(self):
            raise OSError("what is wrong")

    with pytest.raises(OSError, match="what is wrong"):
        train(lambda: None, [Broken()])
