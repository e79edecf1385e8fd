"""Training ends in order when its time is over, and another run goes on where it ended."""

import datetime
import time

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.toy_training import Line, points
from tpack.callbacks.base import Callback
from tpack.callbacks.saver import ModelSaver
from tpack.callbacks.stopping import MaxTime
from tpack.dataflow.sources import DataFromList
from tpack.errors import ConfigError, StopTraining
from tpack.tfutils.varmanip import load_checkpoint_vars
from tpack.train.interface import launch_train_with_config
from tpack.train.resume import AutoResumeTrainConfig
from tpack.train.trainers import SimpleTrainer
from tpack.utils import logger


class AfterStep(Callback):
    """Calls a function after a step."""

    def __init__(self, step, function):
        self.step, self.function = step, function

    def _trigger_step(self):
        if self.global_step == self.step:
            self.function()


def train(callbacks=(), **options):
    with tf.Graph().as_default():
        trainer = SimpleTrainer()
        config = AutoResumeTrainConfig(
            model=Line(),
            dataflow=DataFromList(points(), shuffle=False),
            callbacks=[ModelSaver(), *callbacks],
            steps_per_epoch=4,
            max_epoch=3,
            monitors=[],
            **options,
        )
        launch_train_with_config(config, trainer)
    return trainer


@pytest.mark.parametrize("steps_per_call", [1, 3])
def test_a_run_goes_on_where_its_time_was_over(tmp_path, monkeypatch, steps_per_call):
    logger.set_logger_dir(str(tmp_path / "whole"), action="d")
    train()
    whole = load_checkpoint_vars(str(tmp_path / "whole"))

    logger.set_logger_dir(str(tmp_path / "parts"), action="d")
    limit = MaxTime("00:10:00")
    late = AfterStep(6, lambda: monkeypatch.setattr(limit, "_deadline", 0.0))
    first = train([late, limit])
    assert (first.global_step, first.interrupted) == (6, True)
    second = train([MaxTime(600)], steps_per_call=steps_per_call)
    assert (second.starting_epoch, second.starting_step, second.global_step) == (2, 2, 12)
    parts = load_checkpoint_vars(str(tmp_path / "parts"))
    assert parts.keys() == whole.keys()
    for name, value in whole.items():
        np.testing.assert_array_equal(parts[name], value)


def test_a_stop_that_is_final_saves_nothing_more(tmp_path):
    def stop():
        raise StopTraining("enough")

    logger.set_logger_dir(str(tmp_path), action="d")
    trainer = train([AfterStep(6, stop)])
    assert not trainer.interrupted
    assert load_checkpoint_vars(str(tmp_path))["global_step"] == 4


@pytest.mark.parametrize(
    ("limit", "secs"),
    [("11:30:00", 41400), ("1-00:00:01", 86401), ("0:00:5", 5), (90, 90), (datetime.timedelta(minutes=2), 120)],
)
def test_times(limit, secs):
    before = time.monotonic()
    callback = MaxTime(limit)
    assert callback.limit_secs == secs
    assert before + secs <= callback._deadline <= time.monotonic() + secs


@pytest.mark.parametrize("limit", ["12", "1:60:00", "soon", "", 0, -1, "0:00:00", float("nan")])
def test_what_is_no_time_is_refused(limit):
    with pytest.raises(ConfigError, match="MaxTime got limit="):
        MaxTime(limit)
