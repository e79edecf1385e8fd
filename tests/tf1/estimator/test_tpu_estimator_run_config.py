"""The options of runs under all their names of TensorFlow 1.15."""

import inspect

import pytest

from tpack.errors import ConfigError
from tpack.estimator import run_config
from tpack.tf1.estimator.tpu_estimator import RunConfig


def test_arguments_are_those_of_tensorflow_1_and_mean_what_tpack_has():
    names = list(inspect.signature(RunConfig).parameters)
    assert names[10:14] == ["device_fn", "protocol", "eval_distribute", "experimental_distribute"]
    config = RunConfig("run", 3, save_checkpoints_steps=7, protocol="grpc", session_creation_timeout_secs=1)
    assert isinstance(config, run_config.RunConfig)
    changed = config.replace(keep_checkpoint_max=2)
    assert (changed.model_dir, changed.tf_random_seed, changed.keep_checkpoint_max) == ("run", 3, 2)
    assert (changed.save_checkpoints_steps, changed.save_checkpoints_secs) == (7, None)
    assert RunConfig().save_checkpoints_secs == 600
    assert not config.cluster_spec.jobs
    assert (config.evaluation_master, config.global_id_in_cluster, config.service) == ("", 0, None)


def test_what_makes_no_sense_is_refused():
    with pytest.raises(ConfigError, match="RunConfig got protocol='mpi'"):
        RunConfig(protocol="mpi")
    with pytest.raises(ConfigError, match="session_creation_timeout_secs=-1"):
        RunConfig(session_creation_timeout_secs=-1)
