"""Tasks of a cluster, and what TF_CONFIG may leave out; ``test_launch_env`` has the rest."""

import json

import pytest

from tpack.errors import ConfigError
from tpack.utils.tf_config import ClusterTask, read_tf_config


@pytest.mark.parametrize(
    ("cluster", "job", "index", "message"),
    [
        ({"worker": ["a:1"]}, "worker", 1, "index=1: expected 0, since the cluster has 1 worker"),
        ({"worker": ["a:1"]}, "worker", -1, "index=-1"),
        ({"worker": "a:1"}, "worker", 0, "cluster"),
        ({}, "worker", 0, "a cluster of nothing: expected a worker"),
        ({"worker": ["a:1"]}, "evaluator", 1, "index=1: expected 0"),
    ],
)
def test_a_task_that_cannot_be_is_refused(cluster, job, index, message):
    with pytest.raises(ConfigError, match=message):
        ClusterTask(cluster, job, index)


def test_a_task_keeps_what_was_checked():
    cluster = {"worker": ["a:1", "b:1"]}
    task = ClusterTask(cluster, "worker", 1)
    cluster["worker"].append("b:1")
    assert task.cluster == {"worker": ("a:1", "b:1")}


def test_a_master_is_a_chief_whichever_of_the_two_names_the_cluster_has():
    for job, other in (("chief", "master"), ("master", "chief")):
        config = {"cluster": {job: ["a:1"], "worker": ["b:1"]}, "task": {"type": other}}
        found = read_tf_config({"TF_CONFIG": json.dumps(config)})
        assert (found.job, found.index, found.task.job) == (job, 0, "chief")


def test_an_index_may_be_left_out_where_its_job_has_one_task():
    config = {"cluster": {"worker": ["a:1", "b:1"], "ps": ["c:1"]}, "task": {"type": "ps"}}
    assert read_tf_config({"TF_CONFIG": json.dumps(config)}).task.index == 0
    config["task"] = {"type": "worker"}
    with pytest.raises(ConfigError, match=r"^TF_CONFIG got task\.index=None"):
        read_tf_config({"TF_CONFIG": json.dumps(config)})
