"""The options of an Estimator's runs."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.strategies import mirrored
from tpack.distribute.default_strategy import DEFAULT_STRATEGY
from tpack.distribute.strategy import DistributeConfig
from tpack.errors import ConfigError, WrongTypeError
from tpack.estimator.run_config import RunConfig, number_of_steps


def when(config):
    return config.save_checkpoints_steps, config.save_checkpoints_secs


def test_checkpoints_come_by_seconds_unless_by_steps():
    assert when(RunConfig()) == (None, 600)
    assert when(RunConfig(save_checkpoints_steps=5)) == (5, None)
    assert when(RunConfig(save_checkpoints_secs=5)) == (None, 5)
    assert when(RunConfig(save_checkpoints_steps=5, save_checkpoints_secs=None)) == (5, None)
    assert when(RunConfig(save_checkpoints_steps=None, save_checkpoints_secs=None)) == (None, None)


def test_replace_changes_fields_and_keeps_the_rest():
    config = RunConfig(tf_random_seed=3, save_checkpoints_steps=7)
    changed = config.replace(model_dir="d", keep_checkpoint_max=2)
    assert (changed.model_dir, changed.keep_checkpoint_max, changed.tf_random_seed) == ("d", 2, 3)
    assert when(changed) == (7, None)
    assert when(config.replace(save_checkpoints_secs=9)) == (None, 9)
    assert when(RunConfig().replace(save_checkpoints_steps=9)) == (9, None)
    assert when(RunConfig().replace(model_dir="d")) == (None, 600)
    assert config.model_dir is None


def test_one_process_that_does_everything():
    config = RunConfig()
    assert config.is_chief
    assert (config.num_worker_replicas, config.num_ps_replicas) == (1, 0)
    assert (config.task_type, config.task_id, config.master) == ("worker", 0, "")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"save_checkpoints_steps": 1, "save_checkpoints_secs": 2},
            "steps=1 and save_checkpoints_secs=2: expected one",
        ),
        ({"save_summary_steps": -1}, "RunConfig got save_summary_steps=-1: expected an integer of at least 0"),
        ({"keep_checkpoint_max": -2}, "keep_checkpoint_max"),
        ({"session_config": {}}, "got session_config=a dict of 0: expected a ConfigProto"),
        ({"train_distribute": 2}, "^RunConfig got train_distribute="),
        ({"eval_distribute": DEFAULT_STRATEGY}, "got the default strategy as eval_distribute"),
        ({"model_dir": 5}, "^RunConfig got model_dir="),
        ({"save_checkpoints_secs": float("nan")}, "got save_checkpoints_secs=nan"),
        ({"device_fn": "/cpu:0"}, "got device_fn='/cpu:0': expected a function"),
        ({"experimental_distribute": 5}, "got experimental_distribute=5: expected a DistributeConfig"),
        ({"experimental_distribute": DistributeConfig(remote_cluster={"worker": ["a:1"]})}, "got remote_cluster="),
        ({"experimental_distribute": DistributeConfig(), "train_distribute": mirrored()}, "got strategies twice"),
    ],
)
def test_what_cannot_be_is_refused(options, message):
    with pytest.raises(ConfigError, match=message):
        RunConfig(**options)
    with pytest.raises(ConfigError, match=message):
        RunConfig(session_config=tf.ConfigProto()).replace(**options)


def test_unknown_fields_are_refused():
    with pytest.raises(ConfigError, match="got colour: expected fields of a RunConfig"):
        RunConfig().replace(colour=1)


@pytest.mark.parametrize("value", [3, 3.0, np.int64(3), np.float32(3)])
def test_whole_numbers_become_integers(value):
    number = number_of_steps("train", "steps", value)
    assert (number, type(number)) == (3, int)


def test_none_is_no_number():
    assert number_of_steps("train", "steps", None) is None


@pytest.mark.parametrize("value", [0, -1, 62.5, float("nan"), float("inf"), "3", [3], True])
def test_anything_else_is_refused(value):
    with pytest.raises(ConfigError, match="train got max_steps=.*: expected a positive whole number"):
        number_of_steps("train", "max_steps", value)


def test_strategies_may_come_together():
    both = DistributeConfig(mirrored(), mirrored(1))
    config = RunConfig(experimental_distribute=both)
    assert (config.train_distribute, config.eval_distribute) == both[:2]
    assert config.replace(model_dir="d").train_distribute is both.train_distribute


def test_strategies_that_come_together_are_strategies():
    with pytest.raises(
        WrongTypeError, match="^DistributeConfig got train_distribute=5: expected a DistributionStrategy"
    ):
        DistributeConfig(5)


def test_a_subclass_with_a_constructor_of_its_own_keeps_its_values():
    class Named(RunConfig):
        def __init__(self, name):
            super().__init__(keep_checkpoint_max=3)
            self.name = name

    changed = Named("n").replace(model_dir="d")
    assert (changed.name, changed.model_dir, changed.keep_checkpoint_max) == ("n", "d", 3)
    with pytest.raises(ConfigError):
        changed.replace(keep_checkpoint_max=-1)
