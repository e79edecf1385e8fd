"""What run.json says while a run trains and after it, and that writing it is bounded."""

import json

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.fake_trainer import FakeTrainer
from tests.helpers.log_lines import captured_log
from tpack.callbacks.base import Callback, CallbackFactory
from tpack.callbacks.monitors import run_file
from tpack.callbacks.monitors.run_file import RunFile
from tpack.callbacks.monitors.run_status import FILENAME, read_run
from tpack.graph_builder.model_desc import ModelDesc
from tpack.train.config import TrainConfig
from tpack.train.interface import launch_train_with_config
from tpack.train.trainers import SyncMultiGPUTrainerReplicated
from tpack.utils import logger
from tpack.version import __version__


class Clock:
    """A clock on which a step takes a second, and writing what ``secs_to_write`` says."""

    def __init__(self, secs_to_write=0.0):
        self.now, self.secs_to_write, self.written = 100.0, secs_to_write, []

    def perf_counter(self):
        return self.now

    def write(self, directory, told):
        self.now += self.secs_to_write
        self.written.append(told["progress"] | {"state": told["state"]})


class Second(Callback):
    """Lets a second pass with each step."""

    def __init__(self, clock):
        self.clock = clock

    def _trigger_step(self):
        self.clock.now += 1.0


def told_by(monkeypatch, clock, **numbers):
    monkeypatch.setattr(run_file, "time", clock)
    monkeypatch.setattr(run_file, "write_run", clock.write)

    FakeTrainer().train([Second(clock), RunFile("nowhere", {})], **numbers)
    return clock.written


def test_progress_in_an_epoch_is_told_every_two_seconds(graph, monkeypatch):
    written = told_by(monkeypatch, Clock(), steps_per_epoch=10, epochs=(1, 2))
    assert [told["global_step"] for told in written] == [0, 1, 3, 5, 7, 9, 10, 12, 14, 16, 18, 20, 20, 20]
    assert "secs_left" not in written[1]
    assert (written[3]["steps_per_sec"], written[3]["secs_left"], written[3]["epoch"]) == (1.0, 15.0, 1)
    assert (written[8]["secs_left"], written[8]["step"], written[8]["epoch"]) == (6.0, 4, 2)
    assert (written[-1]["secs_left"], written[-1]["state"]) == (0.0, "finished")


def test_what_takes_long_to_write_is_written_less_often(graph, monkeypatch):
    written = told_by(monkeypatch, Clock(secs_to_write=0.125), steps_per_epoch=30, epochs=(1, 1))
    assert [told["global_step"] for told in written] == [0, 1, 14, 27, 30, 30]


def test_the_time_to_an_end_that_nobody_set_is_not_told(graph, monkeypatch):
    monkeypatch.setattr(run_file, "NO_END", 2)
    assert not any("secs_left" in told for told in told_by(monkeypatch, Clock(), steps_per_epoch=9, epochs=(1, 2)))


def test_a_file_that_cannot_be_written_is_one_warning(graph, tmp_path):
    with captured_log() as lines:
        FakeTrainer().train([RunFile(str(tmp_path / "gone"), {})], steps_per_epoch=2, epochs=(1, 3))
    assert [line.partition(" does not show the progress of this run: ")[2] for line in lines] == [
        f"the directory {tmp_path / 'gone'} is gone"
    ]


class Model(ModelDesc):
    def inputs(self):
        return [tf.TensorSpec([None], tf.float32, "x")]

    def build_graph(self, x):
        return tf.reduce_mean((x - tf.get_variable("w", [])) ** 2, name="cost")

    def optimizer(self):
        return tf.train.GradientDescentOptimizer(0.1)


def launch(log_dir, callbacks=(), model=None, **options):
    config = TrainConfig(
        model=model or Model(),
        dataflow=(np.ones(12, np.float32),),
        batch_size=4,
        max_epoch=2,
        callbacks=callbacks,
        log_dir=log_dir,
        seed=7,
    )
    with tf.Graph().as_default():
        launch_train_with_config(config, SyncMultiGPUTrainerReplicated(2), **options)


def test_a_run_tells_what_it_is(tmp_path):
    seen = []
    launch(tmp_path / "log", [CallbackFactory(trigger=lambda callback: seen.append(read_run(tmp_path / "log")))])
    told = json.loads((tmp_path / "log" / FILENAME).read_text(encoding="utf-8"))
    assert [one["state"] for one in seen] == ["running", "running"]
    assert (told["state"], told["progress"]["epoch"], told["progress"]["global_step"]) == ("finished", 2, 6)
    assert (told["versions"]["tpack"], told["versions"]["tensorflow"]) == (__version__, tf.__version__)
    config = told["config"]
    assert config["trainer"] == "SyncMultiGPUTrainerReplicated"
    assert (config["towers"], config["tower_batch"], config["global_batch"], config["points"]) == (2, 2, 4, 12)
    assert (config["steps_per_epoch"], config["max_epoch"], config["precision"], config["seed"]) == (3, 2, "float32", 7)
    assert config["data"].startswith("arrays through QueueInput")
    assert config["reduction"]
    assert told["progress"]["epoch_secs"] > 0
    assert "reason" not in told


def test_an_end_with_an_error_is_told_and_a_try_is_not(tmp_path):
    def fail(callback):
        raise ValueError("on purpose")

    with pytest.raises(ValueError, match="on purpose"):
        launch(tmp_path / "failed", [CallbackFactory(trigger=fail)])
    assert read_run(str(tmp_path / "failed"))["state"] == "failed"
    launch(tmp_path / "tried", fast_dev_run=True)
    assert read_run(str(tmp_path / "tried")) == {}


class Broken(Model):
    def build_graph(self, *inputs):
        raise ValueError("the model is wrong")


def test_a_run_that_fails_while_it_is_built_is_told_too(tmp_path):
    for attempt in range(2):
        with pytest.raises(ValueError, match="the model is wrong"):
            launch(tmp_path / "log", model=Broken())
        told = read_run(str(tmp_path / "log"))
        assert told["state"] == "failed"
        assert told["reason"] == "It failed before the first step: ValueError: the model is wrong"
        assert told["config"]["towers"] == 2
        # Nothing is moved aside of what never began.
        logger.close_logger_dir()
        assert [path.name for path in tmp_path.iterdir()] == ["log"], attempt
    launch(tmp_path / "log")
    assert read_run(str(tmp_path / "log"))["state"] == "finished"
    assert [path.name for path in tmp_path.iterdir()] == ["log"]
    log = (tmp_path / "log" / "log.log").read_text()
    assert log.count("Log directory") == 3


def test_a_run_that_never_began_leaves_nothing_else_alone(tmp_path):
    with pytest.raises(ValueError, match="the model is wrong"):
        launch(tmp_path / "log", model=Broken())
    logger.close_logger_dir()
    (tmp_path / "log" / "notes.txt").write_text("mine")
    launch(tmp_path / "log")
    assert len(list(tmp_path.iterdir())) == 2
    assert [path.read_text() for path in tmp_path.glob("log-*/notes.txt")] == ["mine"]
