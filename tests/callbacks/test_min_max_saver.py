import json
import os
import shutil

import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.fake_trainer import FakeTrainer
from tests.helpers.log_lines import captured_log
from tpack.callbacks.base import Callback
from tpack.callbacks.min_max_saver import MaxSaver, MinSaver
from tpack.errors import CheckpointError

NAN = float("nan")


class Reports(Callback):
    """Reports one value after each epoch; None for no report."""

    def __init__(self, values, name="error"):
        self.values, self.name = list(values), name

    def _trigger(self):
        value = self.values.pop(0)
        if value is not None:
            self.trainer.monitors.put_scalar(self.name, value)


def train(saver, values, *, first_epoch=1, name="error", saver_is_first=True):
    """Train one step an epoch, each adding 1 to w, so that w is the number of the epoch."""
    with tf.Graph().as_default():
        trainer = FakeTrainer()
        if first_epoch > 1:
            trainer.train_op = tf.assign(trainer.weight, tf.cast(trainer.global_step_var + 1, tf.float32)).op
        callbacks = [saver, Reports(values, name)]
        epochs = (first_epoch, first_epoch + len(values) - 1)
        return trainer.train(
            callbacks if saver_is_first else callbacks[::-1],
            steps_per_epoch=1,
            epochs=epochs,
            global_step=first_epoch - 1,
        )


def saved_epoch(prefix):
    return int(tf.train.load_checkpoint(str(prefix)).get_tensor("w"))


@pytest.mark.parametrize("saver_is_first", [True, False])
@pytest.mark.parametrize(
    ("values", "best"),
    [([3, 1, 2], 2), ([3, 2, 1], 3), ([1, 1, 1], 1), ([NAN, 2, NAN], 2), ([2, None, None], 1), ([None, 5, 4], 3)],
)
def test_variables_of_the_minimum_are_kept(log_dir, values, best, saver_is_first):
    train(MinSaver("error"), values, saver_is_first=saver_is_first)
    assert saved_epoch(log_dir / "min-error") == best


@pytest.mark.parametrize("make", [lambda: MaxSaver("error"), lambda: MinSaver("error", reverse=True)])
def test_variables_of_the_maximum_are_kept(log_dir, make):
    train(make(), [1, 3, NAN, 2])
    assert saved_epoch(log_dir / "max-error") == 2


def test_value_that_is_not_new_is_not_looked_at_again(log_dir):
    class Counting(MinSaver):
        looked_at = 0

        def _is_better(self, value):
            self.looked_at += 1
            return super()._is_better(value)

    saver = Counting("error")
    train(saver, [3, None, None, 2, None])
    assert saver.looked_at == 2


def test_names_and_place_can_be_chosen(tmp_path):
    train(MinSaver("val/error", checkpoint_dir=str(tmp_path / "a")), [1], name="val/error")
    train(MaxSaver("val/error", "best", str(tmp_path / "b")), [1], name="val/error")
    assert saved_epoch(tmp_path / "a" / "min-val-error") == 1
    assert saved_epoch(tmp_path / "b" / "best") == 1


def test_checkpoint_file_of_the_directory_is_not_touched(log_dir):
    train(MinSaver("error"), [3, 2])
    assert tf.train.latest_checkpoint(str(log_dir)) is None
    assert sorted(name for name in os.listdir(log_dir) if "error" in name) == [
        "min-error.best.json",
        "min-error.data-00000-of-00001",
        "min-error.index",
    ]


def test_resumed_run_does_not_begin_anew(log_dir):
    train(MinSaver("error"), [5, 1])
    train(MinSaver("error"), [3, 2], first_epoch=3)
    assert saved_epoch(log_dir / "min-error") == 2
    train(MinSaver("error"), [0.5], first_epoch=5)
    assert saved_epoch(log_dir / "min-error") == 5


def test_new_run_in_the_same_directory_does_begin_anew(log_dir):
    train(MinSaver("error"), [5, 1])
    train(MinSaver("error"), [9])
    assert saved_epoch(log_dir / "min-error") == 1
    assert json.loads((log_dir / "min-error.best.json").read_text())["value"] == 9


def test_damaged_record_is_ignored_with_a_warning(log_dir):
    (log_dir / "min-error.best.json").write_text("{")
    with captured_log() as lines:
        train(MinSaver("error"), [9])
    assert "min-error.best.json is damaged and ignored" in lines[0]
    assert saved_epoch(log_dir / "min-error") == 1


def test_statistic_that_never_came_is_warned_of_at_first_and_in_the_end(log_dir):
    with captured_log() as lines:
        train(MinSaver("eror"), [3, 2, 1])
    assert lines == [
        "MinSaver(eror) has nothing to go by yet: no statistic named 'eror' was reported; near names: error",
        "MinSaver(eror) has done nothing in this training: eror was never reported.",
    ]


def test_checkpoint_that_cannot_be_written_names_the_path(log_dir):
    class Vanish(Callback):
        def _after_epoch(self):
            shutil.rmtree(log_dir)
            log_dir.write_text("a file where the directory was")

    with tf.Graph().as_default():
        trainer = FakeTrainer()
        with pytest.raises(CheckpointError, match=f"cannot write checkpoint {log_dir}/min-error"):
            trainer.train([Reports([1, 1]), Vanish(), MinSaver("error")])


def test_record_that_cannot_be_written_names_the_path(log_dir):
    (log_dir / "min-error.best.json").mkdir()
    with pytest.raises(CheckpointError, match=f"cannot write checkpoint {log_dir}/min-error: "):
        saver = MinSaver("error")
        saver._before_train = lambda: None
        train(saver, [1])


def test_what_a_killed_process_was_doing_is_brought_to_its_end(log_dir):
    train(MinSaver("error"), [5])
    aside = log_dir / "aside"
    aside.mkdir()
    train(MinSaver("error", checkpoint_dir=str(aside)), [3, 2])
    # The data was moved, and the index was about to be.
    os.replace(aside / "min-error.data-00000-of-00001", log_dir / "min-error.data-00000-of-00001")
    os.replace(aside / "min-error.index", log_dir / "min-error.aside.index")
    os.remove(log_dir / "min-error.index")
    train(MinSaver("error"), [None])
    assert saved_epoch(log_dir / "min-error") == 2
    assert not list(log_dir.glob("*.aside*"))


def test_half_of_a_checkpoint_that_a_killed_process_left_is_removed(log_dir):
    train(MinSaver("error"), [5])
    for name in ("min-error.aside.data-00000-of-00001", "min-error.aside.index.tempstate12"):
        (log_dir / name).touch()
    train(MinSaver("error"), [None])
    assert not list(log_dir.glob("*.aside*"))
    assert saved_epoch(log_dir / "min-error") == 1


def test_record_with_another_checksum_is_ignored_with_a_warning(log_dir):
    train(MinSaver("error"), [5, 1])
    path = log_dir / "min-error.best.json"
    path.write_text(path.read_text().replace('"value": 1', '"value": 0'))
    with captured_log() as lines:
        train(MinSaver("error"), [0.5], first_epoch=3)
    assert "min-error.best.json is damaged and ignored: InputError: the checksum is" in lines[0]
    assert saved_epoch(log_dir / "min-error") == 3
