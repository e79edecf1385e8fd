"""The options of an Estimator's runs."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tpack.distribute.current import DEFAULT_STRATEGY
from tpack.errors import ConfigError
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
        ({"save_checkpoints_steps": 1, "save_checkpoints_secs": 2}, "by steps or by seconds, got"),
        ({"save_summary_steps": -1}, "save_summary_steps of a RunConfig must not be below zero, got -1"),
        ({"keep_checkpoint_max": -2}, "keep_checkpoint_max"),
        ({"session_config": {}}, "must be a tf.ConfigProto, got {}"),
        ({"train_distribute": 2}, "train_distribute must be a tpack DistributionStrategy with devices, got 2"),
        ({"eval_distribute": DEFAULT_STRATEGY}, "eval_distribute must be a tpack DistributionStrategy with devices"),
    ],
)
def test_what_cannot_be_is_refused(options, message):
    with pytest.raises(ConfigError, match=message):
        RunConfig(**options)
    with pytest.raises(ConfigError, match=message):
        RunConfig(session_config=tf.ConfigProto()).replace(**options)


def test_unknown_fields_are_refused():
    with pytest.raises(ConfigError, match="has no colour"):
        RunConfig().replace(colour=1)


@pytest.mark.parametrize("value", [3, 3.0, np.int64(3), np.float32(3)])
def test_whole_numbers_become_integers(value):
    number = number_of_steps("steps", value)
    assert (number, type(number)) == (3, int)


def test_none_is_no_number():
    assert number_of_steps("steps", None) is None


@pytest.mark.parametrize("value", [0, -1, 62.5, float("nan"), float("inf"), "3", [3], True])
def test_anything_else_is_refused(value):
    with pytest.raises(ConfigError, match="max_steps must be positive, and a whole number, got"):
        number_of_steps("max_steps", value)
