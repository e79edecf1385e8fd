"""What ``TF_CONFIG`` may not say, and who is the chief; the rest is in tests/estimator/test_run_config_cluster.py."""

import json

import pytest

from tpack.errors import ConfigError
from tpack.multi_worker.cluster.tf_config import place_from_environment

FULL = {"chief": ["h0:1"], "ps": ["h1:1", "h2:1"], "worker": ["h3:1", "h4:1"]}


def told(cluster, job, index):
    return {"cluster": cluster, "task": {"type": job, "index": index}}


@pytest.mark.parametrize(
    ("tf_config", "message"),
    [
        ({"task": {"type": "chief", "index": 0}}, "has no cluster, and its task's type is 'chief': expected worker"),
        ({"cluster": FULL}, "has a cluster and no type of this process's task"),
        ({"cluster": FULL, "task": {"type": "worker"}}, "has a cluster and no index of this process's task"),
        ({"cluster": FULL, "task": {"index": 0}}, "has a cluster and no type"),
        (told(FULL, "worker", 2), "the task's index is 2: expected 0 to 1"),
        (told(FULL, "worker", -1), "index=-1"),
        (told(FULL, "foo", 0), "the task's type is 'foo'"),
        (told({"chief": ["a:1"], "master": ["b:1"]}, "chief", 0), "a chief and a master, which are the same"),
        (told({"chief": ["a:1", "b:1"]}, "chief", 0), "cluster.chief has 2 addresses"),
        ([], r"cannot be read: it is \[\], expected a JSON object"),
        ({"cluster": [1]}, r"cannot be read: cluster is \[1\], expected a JSON object"),
    ],
)
def test_what_tensorflow_refuses_is_refused(tf_config, message):
    with pytest.raises(ConfigError, match=f"^TF_CONFIG .*{message}"):
        place_from_environment({"TF_CONFIG": json.dumps(tf_config)})


def test_text_that_is_no_json_is_refused():
    with pytest.raises(ConfigError, match="^TF_CONFIG cannot be read, it is no JSON: "):
        place_from_environment({"TF_CONFIG": "{"})


def test_the_first_worker_is_the_chief_where_no_job_is_called_so():
    cluster = {"worker": ["a:1", "b:1"]}
    places = [place_from_environment({"TF_CONFIG": json.dumps(told(cluster, "worker", n))}) for n in range(2)]
    assert [(place.is_chief, place.global_id_in_cluster) for place in places] == [(True, 0), (False, 1)]
    one = {"cluster": {"worker": ["a:1"]}}
    assert place_from_environment({"TF_CONFIG": json.dumps(one)}).is_chief
    as_text = {"cluster": cluster, "task": {"type": "worker", "index": "1"}}
    assert place_from_environment({"TF_CONFIG": json.dumps(as_text)}).task_id == 1
