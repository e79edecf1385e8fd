"""Where a config puts its run, and what its random numbers begin with."""

import os
import random

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.toy_training import Line, line_input, points
from tpack.callbacks.base import Callback
from tpack.callbacks.saver import ModelSaver
from tpack.dataflow.mapping import MapData
from tpack.dataflow.parallel.process_runner import MultiProcessRunner
from tpack.dataflow.sources import DataFromList
from tpack.errors import ConfigError
from tpack.train.config import TrainConfig, seed_everything
from tpack.train.interface import launch_train_with_config
from tpack.train.resume import AutoResumeTrainConfig
from tpack.train.trainers import SimpleTrainer
from tpack.utils import logger
from tpack.utils.rng import fix_rng_seed


@pytest.fixture(autouse=True)
def nothing_stays():
    states = random.getstate(), np.random.get_state()
    yield
    logger.close_logger_dir()
    fix_rng_seed(None)
    random.setstate(states[0])
    np.random.set_state(states[1])


class Noisy(Line):
    """Draws in Python, in numpy and in the graph, while it is built and in each step."""

    def build_graph(self, x, y):
        noise = tf.random_uniform([]) + random.random() + np.random.rand()
        return super().build_graph(x + noise, y)


class Weights(Callback):
    def _after_train(self):
        self.found = self.trainer.sess.run(tf.trainable_variables())


def weights(seed, flow):
    callback = Weights()
    config = TrainConfig(
        model=Noisy(), dataflow=flow, callbacks=[callback], monitors=[], steps_per_epoch=6, max_epoch=1, seed=seed
    )
    with tf.Graph().as_default():
        launch_train_with_config(config, SimpleTrainer())
    return callback.found


def jittered():
    return MapData(DataFromList(points(), shuffle=True), lambda point: [point[0] + np.float32(0), point[1]])


@pytest.mark.parametrize("make", [jittered, lambda: MultiProcessRunner(jittered(), 4, 1)])
def test_runs_of_one_seed_are_equal_and_of_others_not(make):
    assert weights(7, make()) == weights(7, make())
    assert weights(7, make()) != weights(8, make())


def test_other_process_draws_other_numbers_in_python_and_the_same_in_graphs():
    drawn = []
    for rank in (0, 1, 1):
        graph = tf.Graph()
        seed_everything(5, graph, rank=rank)
        drawn.append((random.random(), float(np.random.rand()), graph.seed))
    assert drawn[1] == drawn[2]
    assert drawn[0][:2] != drawn[1][:2]
    assert {entry[2] for entry in drawn} == {5}


@pytest.mark.parametrize("seed", [-1, 2**32, 1.5, True, "x"])
def test_wrong_seed_is_an_error(seed):
    with pytest.raises(ConfigError, match="seed"):
        TrainConfig(model=Line(), data=line_input(), seed=seed)


def test_log_directory_is_set_and_what_was_there_moved_aside(tmp_path):
    path = tmp_path / "run"
    for _ in range(2):
        config = TrainConfig(model=Line(), data=line_input(), callbacks=[ModelSaver()], max_epoch=1, log_dir=path)
        assert logger.get_logger_dir() == str(path)
        with tf.Graph().as_default():
            launch_train_with_config(config, SimpleTrainer())
        logger.close_logger_dir()
    assert (path / "model-8.index").exists()
    assert len(os.listdir(tmp_path)) == 2


def test_run_that_resumes_keeps_its_log_directory(tmp_path):
    for last, first in ((1, 1), (2, 2)):
        config = AutoResumeTrainConfig(
            model=Line(), data=line_input(), callbacks=[ModelSaver()], max_epoch=last, log_dir=tmp_path / "run"
        )
        assert config.starting_epoch == first
        with tf.Graph().as_default():
            launch_train_with_config(config, SimpleTrainer())
        logger.close_logger_dir()
    assert (tmp_path / "run" / "model-16.index").exists()


def test_log_directory_is_not_touched_where_another_argument_is_wrong(tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "old").touch()
    with pytest.raises(ConfigError, match="steps_per_epoch"):
        TrainConfig(model=Line(), data=line_input(), steps_per_epoch=0, log_dir=tmp_path / "run")
    assert os.listdir(tmp_path) == ["run"]
    assert logger.get_logger_dir() is None
