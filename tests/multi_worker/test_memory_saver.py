"""Checkpoints in memory, from which a job goes on after the loss of a worker, or of a machine."""

import os
import shutil

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.fake_trainer import FakeTrainer
from tests.helpers.log_lines import captured_log
from tests.helpers.worker_job import run_workers, values_of
from tests.helpers.worker_scenarios import Slope, Values
from tpack.callbacks.saver import ModelSaver
from tpack.callbacks.trigger import PeriodicTrigger
from tpack.errors import CallbackError
from tpack.multi_worker.memory_saver import MemorySaver
from tpack.train.interface import launch_train_with_config
from tpack.train.resume import AutoResumeTrainConfig
from tpack.train.trainers import SimpleTrainer
from tpack.utils import logger
from tpack.utils.launch_env import MEMORY_VARIABLE, memory_directory


def run(directory, machines, **arguments):
    names = [str(directory / machine) for machine in machines]
    return run_workers("resume_from_memory", len(machines), directory, arguments={"machines": names, **arguments})


def checkpoints(machine):
    return sorted(
        name.removesuffix(".index") for _, _, names in os.walk(machine) for name in names if name.endswith(".index")
    )


@pytest.mark.parametrize("lost", ["worker", "machine of the chief"])
def test_a_job_goes_on_from_memory(tmp_path, lost):
    """Worker 1 is killed after step 5: the steps 5 and 6 are made again, and no file on disk has them."""
    wanted = values_of(run(tmp_path / "whole", ["a", "b"]))
    directory = tmp_path / "job"
    ended = run(directory, ["a", "b"], at=[1, 5], how="kill")
    assert "PeerLostError: worker 1 was lost" in ended[0].value
    assert checkpoints(directory / "a") == checkpoints(directory / "b") == ["model-2", "model-4"]
    assert not checkpoints(directory / "log")
    machines = ["a", "b"]
    if lost != "worker":
        shutil.rmtree(directory / "a")
        # Worker 0 is on the other machine now.
        machines = ["b", "c"]
    again = run(directory, machines)
    assert "global step 4: training goes on in epoch 2, after 1 of its steps" in again[0].text
    for found, one in zip(values_of(again), wanted, strict=True):
        assert found["start"]["global_step"] == 4
        for name in ("global_step", "w", "w/Momentum", "bias", "bias/Momentum"):
            np.testing.assert_array_equal(found["values"][name], one["values"][name], err_msg=name)


def test_one_worker_of_a_machine_writes(tmp_path):
    values_of(run(tmp_path, ["a", "a"]))
    assert checkpoints(tmp_path / "a") == ["model-4", "model-6"]


def test_states_that_are_spread_are_on_the_machine_of_the_chief_alone(tmp_path):
    wanted = values_of(run(tmp_path / "whole", ["a", "b"], shard_optimizer=True))
    ended = run(tmp_path, ["a", "b"], at=[1, 5], how="kill", shard_optimizer=True)
    assert "Checkpoints in memory are lost with the machine of worker 0: worker 1 has other variables" in ended[0].text
    assert checkpoints(tmp_path / "a") == ["model-2", "model-4"]
    assert not checkpoints(tmp_path / "b")
    found = values_of(run(tmp_path, ["a", "b"], shard_optimizer=True))
    np.testing.assert_array_equal(found[0]["values"]["w"], wanted[0]["values"]["w"])


def one_process(max_epoch, saver):
    """Train alone, and save after every second step."""
    values = Values()
    callbacks = [PeriodicTrigger(saver, every_k_steps=2), values]
    with tf.Graph().as_default():
        config = AutoResumeTrainConfig(
            model=Slope(),
            dataflow=[[np.ones(2, "float32"), np.ones(2, "float32")]] * 3,
            callbacks=callbacks,
            extra_callbacks=[],
            monitors=[],
            steps_per_epoch=3,
            max_epoch=max_epoch,
        )
        launch_train_with_config(config, SimpleTrainer())
    return values


def test_the_later_one_of_memory_and_disk_counts(tmp_path, log_dir, monkeypatch):
    monkeypatch.setenv(MEMORY_VARIABLE, str(tmp_path / "memory"))
    one_process(1, MemorySaver())
    assert one_process(2, ModelSaver()).start["global_step"] == 2
    # Steps 4 and 6 are on disk.
    assert one_process(3, ModelSaver()).start["global_step"] == 6


def test_memory_that_is_damaged_is_left_aside(tmp_path, log_dir, monkeypatch):
    monkeypatch.setenv(MEMORY_VARIABLE, str(tmp_path / "memory"))
    one_process(1, ModelSaver())
    one_process(2, MemorySaver(asynchronous=True))
    directory = memory_directory(str(log_dir))
    for name in os.listdir(directory):
        if name.endswith(".index"):
            (tmp_path / "memory" / os.path.basename(directory) / name).write_bytes(b"no index")
    with captured_log() as lines:
        assert one_process(2, ModelSaver()).start["global_step"] == 2
    assert any(line.startswith("The checkpoints in memory are left aside: ") for line in lines)


def test_without_a_launcher_nothing_is_saved(log_dir, monkeypatch):
    monkeypatch.delenv(MEMORY_VARIABLE, raising=False)
    with captured_log() as lines, tf.Graph().as_default():
        FakeTrainer().train([MemorySaver()], steps_per_epoch=2)
    assert "MemorySaver saves nothing: there is no TPACK_MEMORY_DIR, which tpack launch sets." in lines
    assert not checkpoints(log_dir)


def test_without_a_log_directory_it_is_refused(monkeypatch):
    assert logger.get_logger_dir() is None
    with pytest.raises(CallbackError, match="MemorySaver found no log directory"), tf.Graph().as_default():
        FakeTrainer().train([MemorySaver()], steps_per_epoch=2)
