"""Savers that keep several of the best."""

import os

import pytest
import tensorflow.compat.v1 as tf

from tests.callbacks.test_min_max_saver import NAN, Reports, saved_epoch, train
from tests.helpers.fake_trainer import FakeTrainer
from tests.helpers.log_lines import captured_log
from tpack.callbacks.base import Callback
from tpack.callbacks.min_max_saver import MaxSaver, MinSaver
from tpack.errors import CheckpointError, ConfigError
from tpack.tfutils.checkpoint import resolve_checkpoint
from tpack.tfutils.checkpoints import best


def kept(directory, name="min-error"):
    """Return the steps of the checkpoints of a name; each holds the number of its step."""
    steps = sorted(
        int(entry.split("-")[-1].split(".")[0])
        for entry in os.listdir(directory)
        if entry.startswith(f"{name}-") and entry.endswith(".index")
    )
    assert [saved_epoch(directory / f"{name}-{step}") for step in steps] == steps
    return steps


@pytest.mark.parametrize(
    ("values", "steps", "first"),
    [
        ([5, 4, 3, 2, 1], [4, 5], 5),
        ([1, 2, 3, 4, 5], [1, 2], 1),
        ([3, 1, NAN, None, 2], [2, 5], 2),
        ([1, 1, 1], [1, 2], 1),
        ([7], [1], 1),
    ],
)
def test_the_best_are_kept_and_the_best_of_them_is_found(log_dir, values, steps, first):
    train(MinSaver("error", max_to_keep=2), values)
    assert kept(log_dir) == steps
    assert resolve_checkpoint(str(log_dir / "min-error")) == str(log_dir / f"min-error-{first}")
    assert len(list(log_dir.glob("min-error*data*"))) == len(steps)


def test_maxima_are_kept_and_each_is_told(log_dir):
    with captured_log() as lines:
        train(MaxSaver("error", max_to_keep=2), [1, 3, 2, 0])
    assert kept(log_dir, "max-error") == [2, 3]
    assert [line.partition(", saved")[0] for line in lines if "saved" in line] == [
        f"Model with 'error' {value}, number {place} of the best" for value, place in [(1, 1), (3, 1), (2, 2)]
    ]


def test_resumed_run_goes_on_with_them(log_dir):
    train(MinSaver("error", max_to_keep=2), [5, 1])
    train(MinSaver("error", max_to_keep=2), [9, 3], first_epoch=3)
    assert kept(log_dir) == [2, 4]


def test_run_that_goes_on_from_before_forgets_what_came_later(log_dir):
    train(MinSaver("error", max_to_keep=2), [5, 3, 1])
    train(MinSaver("error", max_to_keep=2), [4, 8], first_epoch=2)
    assert kept(log_dir) == [2, 3]
    assert best.read_kept(str(log_dir / "min-error")) == [(4, 2), (8, 3)]


@pytest.mark.parametrize(("before", "now", "left"), [(1, 2, [2, 3]), (2, 1, [])])
def test_another_number_takes_over_what_was_kept(log_dir, before, now, left):
    train(MinSaver("error", max_to_keep=before), [5, 1])
    train(MinSaver("error", max_to_keep=now), [2], first_epoch=3)
    if left:
        assert kept(log_dir) == left
    else:
        assert saved_epoch(log_dir / "min-error") == 2


def test_what_is_remembered_is_what_is_there(log_dir):
    saver = MinSaver("error", max_to_keep=2)
    train(saver, [5, 1, 3])
    assert saver.state_to_save() == [[1.0, 2], [3.0, 3]]
    os.remove(log_dir / "min-error-2.index")
    saver.load_saved_state([[1.0, 2], [3.0, 3]])
    assert saver.state_to_save() == [[3.0, 3]]


@pytest.mark.parametrize("moment", ["write_kept", "remove_others", "move_checkpoint"])
def test_run_that_is_killed_at_any_moment_has_the_best_of_before_or_of_now(log_dir, monkeypatch, moment):
    class Killed(Callback):
        def _trigger(self):
            if self.global_step == 3:
                monkeypatch.setattr(f"tpack.callbacks.min_max_saver.{moment}", killed)

    def killed(*args, **options):
        raise KeyboardInterrupt

    with tf.Graph().as_default(), pytest.raises(KeyboardInterrupt):
        FakeTrainer().train(
            [Reports([3, 2, 1]), Killed(), MinSaver("error", max_to_keep=2)], steps_per_epoch=1, epochs=(1, 3)
        )
    steps = [each.global_step for each in best.read_kept(str(log_dir / "min-error"))]
    assert steps == ([3, 2] if moment == "remove_others" else [2, 1])
    assert set(steps) <= set(kept(log_dir))
    monkeypatch.undo()
    train(MinSaver("error", max_to_keep=2), [0.5], first_epoch=4)
    assert kept(log_dir) == ([3, 4] if moment == "remove_others" else [2, 4])
    assert not list(log_dir.glob("*.aside*"))


def test_checkpoints_of_a_saver_whose_name_ends_with_a_number_stay(log_dir):
    train(MinSaver("error-1"), [5], name="error-1")
    train(MinSaver("error", max_to_keep=2), [3, 2, 1])
    assert saved_epoch(log_dir / "min-error-1") == 1


def test_damaged_record_of_the_best_is_named(log_dir):
    train(MinSaver("error", max_to_keep=2), [5, 1])
    (log_dir / "min-error.best.json").write_text("{}")
    with pytest.raises(CheckpointError, match="min-error.best.json is damaged"):
        resolve_checkpoint(str(log_dir / "min-error"))


@pytest.mark.parametrize("number", [0, -1, True, 1.5])
def test_wrong_number_is_an_error(number):
    with pytest.raises(ConfigError, match="max_to_keep"):
        MinSaver("error", max_to_keep=number)
