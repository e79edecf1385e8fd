import io
import json
import sys

import tensorflow.compat.v1 as tf

from tests.helpers.tower_grads import cpu_devices
from tpack.reduction.autotune.measure import make_workload
from tpack.reduction.autotune.worker import answer, main


def request(candidate, num_towers=2, **changes):
    workload = make_workload(cpu_devices(num_towers), [[2000], [3]]).as_json()
    config = tf.ConfigProto(inter_op_parallelism_threads=1).SerializeToString().hex()
    return {"candidate": candidate, "workload": workload, "steps": 1, "rounds": 2, "session_config": config, **changes}


def test_the_answer_is_a_row():
    row = answer(request("one_device+small"))
    assert (row.name, row.error, len(row.secs)) == ("one_device+small", "", 2)


def test_errors_of_tpack_and_of_tensorflow_are_in_the_row():
    assert answer(request("rechd", 3)).error.startswith("ReductionError: ")
    assert "ring-a-ding" in answer(request("ring-a-ding")).error
    remote = request("one_device")
    remote["workload"]["devices"] = ["/job:worker/task:1/device:CPU:0", "/job:worker/task:2/device:CPU:0"]
    assert answer(remote).error.startswith("InvalidArgumentError: ")


def test_main_answers_the_request_on_standard_input(monkeypatch, capsys):
    monkeypatch.setattr(sys, "stdin", io.StringIO(json.dumps(request("round_robin"))))
    main()
    row = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert row["name"] == "round_robin"
    assert row["error"] == ""
