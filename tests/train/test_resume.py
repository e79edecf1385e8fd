import json

import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.claims import claimed_elsewhere
from tests.helpers.log_lines import captured_log
from tests.helpers.toy_training import Line, Recorder, line_input
from tpack.callbacks.base import CallbackFactory
from tpack.callbacks.saver import ModelSaver
from tpack.callbacks.trigger import PeriodicTrigger
from tpack.errors import CheckpointError, ConfigError, StopTraining
from tpack.tfutils.checkpoint import latest_checkpoint
from tpack.tfutils.sessinit import DictRestore
from tpack.tfutils.train_state import TrainState, train_state_path, write_train_state
from tpack.train.config import TrainConfig
from tpack.train.interface import launch_train_with_config
from tpack.train.resume import AutoResumeTrainConfig
from tpack.train.trainers import SimpleTrainer
from tpack.utils import logger
from tpack.utils.dir_lock import LOCK_FILE


def resume(max_epoch=2, callbacks=(), **kwargs):
    """Train as far as `max_epoch`, going on from the log directory; return the config and the recorder."""
    recorder = Recorder()
    config = AutoResumeTrainConfig(
        model=Line(),
        data=line_input(),
        callbacks=[*callbacks, PeriodicTrigger(ModelSaver(), every_k_steps=3, every_k_epochs=1), recorder],
        steps_per_epoch=5,
        max_epoch=max_epoch,
        **kwargs,
    )
    launch_train_with_config(config, SimpleTrainer())
    return config, recorder


def stop_at(step):
    def check(callback):
        if callback.global_step == step:
            raise StopTraining("the test wants it")

    return PeriodicTrigger(CallbackFactory(trigger=check), every_k_steps=1)


def test_the_first_run_starts_from_the_beginning(log_dir):
    config, recorder = resume()
    assert (config.starting_epoch, config.starting_step) == (1, 0)
    assert recorder.weights["global_step"] == 10


def test_a_finished_epoch_is_followed_by_the_next(log_dir):
    _, first = resume(max_epoch=2)
    config, second = resume(max_epoch=3)
    assert (config.starting_epoch, config.starting_step) == (3, 0)
    assert second.calls[1] == ("before_train", 2, 0, 10)
    assert second.weights["global_step"] == 15
    assert second.weights["w"] > first.weights["w"]


def test_run_after_a_killed_one_removes_its_temporary_files(log_dir):
    resume(max_epoch=1)
    left = [f".{name}.0a1b2c3d.tmp" for name in ("run.json", "stats.json", "checkpoint", "model-5.train_state.json")]
    for name in left:
        (log_dir / name).touch()
    resume(max_epoch=2)
    assert not [path.name for path in log_dir.iterdir() if path.name.endswith(".tmp")]


def test_it_goes_on_where_the_directory_was_set_without_an_action(tmp_path):
    for action, epochs, start in ((None, 1, 1), (None, 2, 2), ("b", 1, 1)):
        logger.close_logger_dir()
        logger.set_logger_dir(tmp_path / "run", action)
        config, _ = resume(max_epoch=epochs)
        assert config.starting_epoch == start
    logger.close_logger_dir()
    assert len(list(tmp_path.iterdir())) == 2


@pytest.mark.parametrize(
    ("count", "config", "is_told"),
    [("1", TrainConfig, True), ("0", TrainConfig, False), ("1", AutoResumeTrainConfig, False)],
)
def test_a_restart_that_begins_anew_is_told(log_dir, monkeypatch, count, config, is_told):
    monkeypatch.setenv("TPACK_RESTART_COUNT", count)
    with captured_log() as lines:
        launch_train_with_config(
            config(model=Line(), data=line_input(), steps_per_epoch=1, max_epoch=1), SimpleTrainer()
        )
    assert (
        any("This is restart 1 of tpack launch, and training starts from the beginning" in line for line in lines)
        == is_told
    )


def test_an_epoch_that_was_cut_is_finished(log_dir):
    resume(callbacks=[stop_at(8)])
    config, recorder = resume()
    assert latest_checkpoint(str(log_dir)).endswith("model-10")
    # The last checkpoint before step 8, where the first run was stopped, is that of step 6.
    assert (config.starting_epoch, config.starting_step) == (2, 1)
    assert [call[0] for call in recorder.calls].count("trigger_step") == 4
    assert recorder.weights["global_step"] == 10


def test_a_resumed_run_ends_with_the_weights_of_an_uninterrupted_one(log_dir, tmp_path):
    resume(callbacks=[stop_at(6)], max_epoch=3)
    _, resumed = resume(max_epoch=3)
    for path in log_dir.glob("*"):
        path.unlink()
    _, whole = resume(max_epoch=3)
    assert resumed.weights == whole.weights


def test_statistics_go_on_without_gap_or_repetition(log_dir):
    for max_epoch in (2, 4):
        report = CallbackFactory(trigger=lambda cb: cb.trainer.monitors.put_scalar("answer", 42.0))
        resume(max_epoch=max_epoch, callbacks=[report])
    assert [entry["epoch_num"] for entry in json.loads((log_dir / "stats.json").read_text())] == [1, 2, 3, 4]


def test_a_finished_training_has_nothing_left_to_do(log_dir):
    resume(max_epoch=2)
    config, recorder = resume(max_epoch=2)
    assert config.starting_epoch == 3
    assert recorder.weights["global_step"] == 10


def test_a_checkpoint_without_a_state_counts_by_its_global_step(log_dir):
    resume(callbacks=[stop_at(8)])
    for path in log_dir.glob("*.train_state.json"):
        path.unlink()
    config, _ = resume()
    assert (config.starting_epoch, config.starting_step) == (2, 1)
    assert train_state_path("x") == "x.train_state.json"


def test_a_state_of_another_step_than_its_checkpoints_is_refused(log_dir):
    resume(callbacks=[stop_at(8)])
    write_train_state(str(log_dir / "model-6"), TrainState(2, 0, 5))
    with pytest.raises(CheckpointError, match="is the state of step 5, and its checkpoint is that of step 6"):
        resume()


def test_a_checkpoint_without_state_and_step_cannot_be_gone_on_from(log_dir, graph):
    saver = tf.train.Saver([tf.get_variable("w", initializer=1.0)])
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        saver.save(session, str(log_dir / "model"))
    with pytest.raises(CheckpointError, match="has no variable 'global_step'"):
        AutoResumeTrainConfig(model=Line(), data=line_input())


def test_what_is_given_counts_where_always_resume_is_off(log_dir):
    resume(max_epoch=1)
    config, recorder = resume(max_epoch=1, always_resume=False, session_init=DictRestore({"w": 5.0, "b": 0.0}))
    assert config.starting_epoch == 1
    assert recorder.weights["global_step"] == 5
    config, _ = resume(max_epoch=2, always_resume=False)
    assert config.starting_epoch == 2


def test_resuming_without_a_log_directory_is_an_error():
    with pytest.raises(ConfigError, match="call logger.set_logger_dir"):
        AutoResumeTrainConfig(model=Line(), data=line_input())


def damage_all(log_dir):
    """Damage every checkpoint; return what the files were."""
    paths = [*log_dir.glob("*.data-0*"), *log_dir.glob("*.index")]
    for path in paths:
        path.write_bytes(path.read_bytes()[:9])
    return {path: path.read_bytes() for path in paths}


def test_checkpoints_of_which_none_loads_are_listed_and_not_written_over(log_dir):
    resume(callbacks=[stop_at(8)])
    damaged = damage_all(log_dir)
    with pytest.raises(CheckpointError, match=r"none of them loads: model-.*or use restart_if_unreadable=True"):
        resume()
    assert {path: path.read_bytes() for path in damaged} == damaged


def test_training_starts_from_the_beginning_over_unreadable_checkpoints_if_it_is_told_to(log_dir):
    resume(callbacks=[stop_at(8)])
    damage_all(log_dir)
    config, recorder = resume(restart_if_unreadable=True)
    assert config.starting_epoch == 1
    assert recorder.weights["global_step"] == 10
    assert resume(max_epoch=3, restart_if_unreadable=True)[0].starting_epoch == 3


def test_a_directory_that_another_process_trains_in_is_not_resumed_from(log_dir):
    resume(max_epoch=1)
    with claimed_elsewhere(log_dir) as pid, pytest.raises(ConfigError, match=f"in use: process {pid} on "):
        resume()


def test_the_directory_is_claimed_from_reading_it_to_the_end_of_training(log_dir):
    config = AutoResumeTrainConfig(
        model=Line(), data=line_input(), steps_per_epoch=5, max_epoch=1, callbacks=[ModelSaver()]
    )
    assert (log_dir / LOCK_FILE).exists()
    launch_train_with_config(config, SimpleTrainer())
    assert not (log_dir / LOCK_FILE).exists()
