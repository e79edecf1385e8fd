import os
import sys

import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.measuring_workers import answering, python
from tests.helpers.tower_grads import cpu_devices
from tpack.errors import ConfigError
from tpack.reduction.autotune.measure import MeasuringOptions, make_workload, measure_candidate

WORKLOAD = make_workload(cpu_devices(2), [[300], []])


def error_of(worker, **options):
    return measure_candidate("xring", WORKLOAD, MeasuringOptions(worker=worker, **options)).error


def test_a_candidate_is_measured_in_a_process_of_its_own():
    row = measure_candidate("round_robin", WORKLOAD, MeasuringOptions(steps=2, rounds=2))
    assert (row.name, row.error, len(row.secs)) == ("round_robin", "", 2)
    assert row.graph_ops > 0


def test_the_process_is_told_everything():
    config = tf.ConfigProto(inter_op_parallelism_threads=3)
    told = python("print(json.dumps(dict(name=json.dumps(request), secs=[])))")
    options = MeasuringOptions(steps=7, rounds=9, session_config=config, worker=told)
    text = measure_candidate("xring", WORKLOAD, options).name
    assert '"candidate": "xring"' in text
    assert '"steps": 7, "rounds": 9' in text
    assert f'"session_config": "{config.SerializeToString().hex()}"' in text
    assert '"devices": ["/device:CPU:0", "/device:CPU:1"]' in text


def test_the_process_finds_modules_where_this_one_does(monkeypatch):
    monkeypatch.setattr(sys, "path", ["", "/somewhere/else"])
    told = python("import os; print(json.dumps(dict(name=os.environ['PYTHONPATH'], secs=[])))")
    name = measure_candidate("xring", WORKLOAD, MeasuringOptions(worker=told)).name
    assert name == os.pathsep.join([os.getcwd(), "/somewhere/else"])


def test_only_the_last_line_is_the_answer():
    noisy = python("print('hello'); print(json.dumps(dict(name=name, secs=[2])))")
    assert measure_candidate("xring", WORKLOAD, MeasuringOptions(worker=noisy)).secs == (2.0,)
    assert measure_candidate("xring", WORKLOAD, MeasuringOptions(worker=answering({"xring": 3}))).median_secs == 3


@pytest.mark.parametrize(
    ("code", "error"),
    [
        ("import os; os.abort()", "exit code -6: "),
        ("raise SystemExit('no luck')", "exit code 1: no luck"),
        ("pass", "it ended without an answer"),
        ("print('3')", "it ended without an answer"),
        ("print(json.dumps({}))", "an answer that cannot be read: 'secs'"),
        (
            "print(json.dumps(dict(secs=[], name=1)))",
            "an answer that cannot be read: Measurement got name=1: expected text",
        ),
    ],
)
def test_what_goes_wrong_there_is_the_rows_error(code, error):
    assert error_of(python(code)).startswith(error)


def test_a_process_that_hangs_is_killed():
    hanging = python("import threading; threading.Event().wait()")
    assert error_of(hanging, timeout_secs=0.5) == "killed after 0.5 s"


def test_a_process_that_cannot_be_started_is_an_error():
    assert error_of(("/no/such/program",)).startswith("it could not be started: ")


@pytest.mark.parametrize("name", ["steps", "rounds", "timeout_secs"])
def test_numbers_must_be_positive(name):
    with pytest.raises(ConfigError, match=f"MeasuringOptions got {name}=0: expected a number greater than 0"):
        MeasuringOptions(**{name: 0})
