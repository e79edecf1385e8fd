"""What ``TF_CONFIG`` may not say, and who is the chief; the rest is in tests/estimator/test_run_config_cluster.py."""

import json

import pytest

from tpack.errors import ConfigError
from tpack.estimator.run_config import place_from_environment

FULL = {"chief": ["h0:1"], "ps": ["h1:1", "h2:1"], "worker": ["h3:1", "h4:1"]}


def told(cluster, job, index):
    return {"cluster": cluster, "task": {"type": job, "index": index}}


@pytest.mark.parametrize(
    ("tf_config", "message"),
    [
        ({"task": {"type": "chief", "index": 0}}, "task.type='chief' and no cluster: expected worker"),
        ({"cluster": FULL}, "task.type=None: expected the job"),
        ({"cluster": FULL, "task": {"type": "worker"}}, "task.index=None"),
        ({"cluster": FULL, "task": {"index": 0}}, "task.type=None"),
        (told(FULL, "worker", 2), "task.index=2: expected 0 to 1"),
        (told(FULL, "worker", -1), "index=-1"),
        (told(FULL, "foo", 0), "task.type='foo'"),
        (told({"chief": ["a:1"], "master": ["b:1"]}, "chief", 0), "chief and master, which are the same"),
        (told({"chief": ["a:1", "b:1"]}, "chief", 0), "cluster.chief with 2 addresses"),
        ([], r"got \[\]: expected a JSON object"),
        ({"cluster": [1]}, r"cluster=\[1\]: expected a JSON object"),
    ],
)
def test_what_tensorflow_refuses_is_refused(tf_config, message):
    with pytest.raises(ConfigError, match=f"^TF_CONFIG .*{message}"):
        place_from_environment({"TF_CONFIG": json.dumps(tf_config)})


def test_text_that_is_no_json_is_refused():
    with pytest.raises(ConfigError, match="^TF_CONFIG got .*: expected JSON such as"):
        place_from_environment({"TF_CONFIG": "{"})


def test_the_first_worker_is_the_chief_where_no_job_is_called_so():
    cluster = {"worker": ["a:1", "b:1"]}
    places = [place_from_environment({"TF_CONFIG": json.dumps(told(cluster, "worker", n))}) for n in range(2)]
    assert [(place.is_chief, place.global_id_in_cluster) for place in places] == [(True, 0), (False, 1)]
    one = {"cluster": {"worker": ["a:1"]}}
    assert place_from_environment({"TF_CONFIG": json.dumps(one)}).is_chief
    as_text = {"cluster": cluster, "task": {"type": "worker", "index": "1"}}
    assert place_from_environment({"TF_CONFIG": json.dumps(as_text)}).task_id == 1
