"""The place of a process, against what TensorFlow 1.15.5 made of the same TF_CONFIG.

Each row was recorded there: cluster_spec is that of TF_CONFIG unless it says otherwise.
"""

import json

import pytest

from tpack.errors import ConfigError, WrongTypeError
from tpack.estimator.run_config import RunConfig
from tpack.multi_worker.cluster.cluster_spec import ClusterMember

FULL = {"chief": ["h0:1"], "ps": ["h1:1", "h2:1"], "worker": ["h3:1", "h4:1"]}
MASTER = {"master": ["h0:1"], "ps": ["h1:1"], "worker": ["h3:1"]}
WITH_EVALUATOR = {**FULL, "evaluator": ["h9:1"]}
ALONE = ("", 0, 1, True, 0, ())
OUTSIDE = ("", 0, 0, False, None, ())
OF_PS = ("/job:ps", "/job:worker", "/job:chief", "/job:master")


def told(cluster, job, index):
    return {"cluster": cluster, "task": {"type": job, "index": index}}


# master, number of ps, of workers, whether it is the chief, its number in the cluster, device filters.
RECORDED = [
    (None, ALONE),
    ({}, ALONE),
    ({"task": {"type": "worker", "index": 0}}, ALONE),
    (told(FULL, "chief", 0), ("grpc://h0:1", 2, 3, True, 0, ("/job:ps", "/job:chief"))),
    (told(FULL, "worker", 0), ("grpc://h3:1", 2, 3, False, 1, ("/job:ps", "/job:worker/task:0"))),
    (told(FULL, "worker", 1), ("grpc://h4:1", 2, 3, False, 2, ("/job:ps", "/job:worker/task:1"))),
    (told(FULL, "ps", 1), ("grpc://h2:1", 2, 3, False, 4, OF_PS)),
    (told(MASTER, "master", 0), ("grpc://h0:1", 1, 2, True, 0, ("/job:ps", "/job:master"))),
    (told(MASTER, "worker", 0), ("grpc://h3:1", 1, 2, False, 1, ("/job:ps", "/job:worker/task:0"))),
    (told(MASTER, "ps", 0), ("grpc://h1:1", 1, 2, False, 2, OF_PS)),
    (told({"chief": ["h0:1"]}, "chief", 0), ("", 0, 1, True, 0, ("/job:ps", "/job:chief"))),
    (told({"master": ["h0:1"]}, "master", 0), ("", 0, 1, True, 0, ("/job:ps", "/job:master"))),
    (
        told({"chief": ["a:1"], "worker": ["b:1"]}, "worker", 0),
        ("grpc://b:1", 0, 2, False, 1, ("/job:ps", "/job:worker/task:0")),
    ),
    (told(WITH_EVALUATOR, "chief", 0), ("grpc://h0:1", 2, 3, True, 0, ("/job:ps", "/job:chief"))),
    (told(FULL, "evaluator", 0), OUTSIDE),
    (told(WITH_EVALUATOR, "evaluator", 0), OUTSIDE),
    ({**told(FULL, "chief", 0), "session_master": "x:1"}, ("x:1", 2, 3, True, 0, ("/job:ps", "/job:chief"))),
    ({"session_master": "grpc://x:1", "eval_session_master": "y:1"}, ("grpc://x:1", *ALONE[1:])),
]


@pytest.mark.parametrize(("tf_config", "recorded"), RECORDED)
def test_properties_are_those_of_tensorflow(tf_config, recorded, monkeypatch):
    if tf_config is None:
        monkeypatch.delenv("TF_CONFIG", raising=False)
    else:
        monkeypatch.setenv("TF_CONFIG", json.dumps(tf_config))
    config = RunConfig()
    number = config.global_id_in_cluster
    found = (config.master, config.num_ps_replicas, config.num_worker_replicas, config.is_chief, number)
    assert (*found, config.device_filters) == recorded
    task = (tf_config or {}).get("task", {"type": "worker", "index": 0})
    assert (config.task_type, config.task_id) == (task["type"], task["index"])
    is_evaluator = config.task_type == "evaluator"
    assert config.cluster_spec.as_dict() == ({} if is_evaluator else (tf_config or {}).get("cluster", {}))
    assert config.evaluation_master == (tf_config or {}).get("eval_session_master", "")


def test_a_member_may_be_given_in_place_of_tf_config(monkeypatch):
    monkeypatch.setenv("TF_CONFIG", json.dumps(told(FULL, "chief", 0)))
    member = ClusterMember({"worker": ("a:1", "b:1")}, "worker", 1)
    config = RunConfig(cluster=member)
    assert (config.task_type, config.task_id, config.is_chief) == ("worker", 1, False)
    assert (config.master, config.member()) == ("grpc://b:1", member)
    assert RunConfig().replace(cluster=member).task_type == "worker"
    assert RunConfig(cluster=ClusterMember({"worker": ("a:1",)}, "evaluator")).num_worker_replicas == 0
    assert RunConfig(cluster=ClusterMember()).is_chief
    with pytest.raises(WrongTypeError, match="got cluster="):
        RunConfig(cluster="a:1")


def test_replace_keeps_the_place(monkeypatch):
    monkeypatch.setenv("TF_CONFIG", json.dumps({**told(FULL, "worker", 1), "service": {"a": 1}, "model_dir": "/m"}))
    config = RunConfig()
    assert (config.service, config.model_dir) == ({"a": 1}, "/m")
    monkeypatch.delenv("TF_CONFIG")
    changed = config.replace(save_summary_steps=5)
    assert (changed.task_id, changed.num_ps_replicas, changed.model_dir) == (1, 2, "/m")
    member = changed.member()
    assert (member.rank, member.num_workers) == (2, 3)
    with pytest.raises(ConfigError, match="RunConfig got model_dir='/n': expected '/m', as in TF_CONFIG"):
        changed.replace(model_dir="/n")
