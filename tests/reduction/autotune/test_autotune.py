import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.log_lines import captured_log
from tests.helpers.measuring_workers import answering, python
from tests.helpers.tower_grads import cpu_devices
from tpack.errors import ConfigError, ReductionError
from tpack.reduction.algorithms.one_device import RoundRobinReducer
from tpack.reduction.algorithms.ring import RingReducer
from tpack.reduction.autotune.autotune import ChoiceCache, choose_by_measurement
from tpack.reduction.autotune.measure import LIKELY_CANDIDATES, MeasuringOptions

MEASURED = answering({"one_device": 0.2, "xring": 0.1, "hierarchical": 0.3})
NAMES = ("one_device", "rechd", "xring")
ALL_FAIL = python("raise SystemExit('out of luck')")


@pytest.fixture
def choose(tmp_path):
    def call(num_towers=4, shapes=((3,), ()), worker=MEASURED, names=NAMES, **kwargs):
        options = MeasuringOptions(names, worker=worker)
        cache = ChoiceCache(str(tmp_path))
        return choose_by_measurement(cpu_devices(num_towers), shapes, options=options, cache=cache, **kwargs)

    return call


def test_the_fastest_is_chosen_and_the_table_says_why(choose):
    with captured_log() as lines:
        choice = choose()
    assert type(choice.reducer) is RingReducer
    assert choice.reason == (
        "xring is the fastest of 3 in a measurement, 100.0 ms a step, before one_device with 200.0 ms"
    )
    assert [row.name for row in choice.rows] == ["xring", "one_device", "rechd"]
    assert choice.rows[2].error.startswith("exit code 1")
    assert not choice.is_cached
    assert lines[-1] == "Measuring the reduction xring in a separate process (3 of 3)."


def test_the_second_time_nothing_is_measured(choose):
    first = choose()
    second = choose(worker=ALL_FAIL)
    assert second.is_cached
    assert second.rows == first.rows
    assert type(second.reducer) is RingReducer
    assert "an earlier measurement" in second.reason
    assert not choose(shapes=[[4], []]).is_cached
    assert not choose(dtypes="float16").is_cached
    assert not choose(session_config=tf.ConfigProto(inter_op_parallelism_threads=1)).is_cached


@pytest.mark.parametrize("is_cached", [False, True])
def test_candidates_that_cannot_serve_are_not_tried_and_their_rows_say_why(choose, is_cached):
    for _ in range(1 + is_cached):
        choice = choose(num_towers=3, names=("hierarchical", "rechd", "xring", "nccl"))
    assert choice.is_cached == is_cached
    assert [row.name for row in choice.rows] == ["xring", "hierarchical", "rechd", "nccl"]
    reasons = {row.name: row.error for row in choice.rows}
    assert reasons["xring"] == ""
    assert "got 3 towers: expected an even number" in reasons["hierarchical"]
    assert reasons["nccl"].endswith("expected a GPU of its own for each tower")


def test_default_candidates_that_cannot_serve_have_no_rows(choose):
    names = LIKELY_CANDIDATES
    rows = choose(num_towers=3, names=names, worker=answering(dict.fromkeys(names, 0.1))).rows
    assert {row.name for row in rows} == {n for n in names if not n.startswith(("nccl", "hierarchical"))}


def test_when_all_fail_the_devices_decide_and_nothing_is_remembered(choose):
    choice = choose(worker=ALL_FAIL)
    assert type(choice.reducer) is RoundRobinReducer
    assert choice.reason.startswith("none of 3 candidates could be measured; copies between CPU devices")
    assert {row.error for row in choice.rows} == {"exit code 1: out of luck"}
    assert not choose().is_cached


def test_without_a_fitting_candidate_the_devices_decide(choose):
    choice = choose(names=("nccl",))
    assert type(choice.reducer) is RoundRobinReducer
    assert choice.reason.startswith("none of 1 candidates")
    assert [row.name for row in choice.rows] == ["nccl"]


@pytest.mark.parametrize(("num_towers", "shapes"), [(1, [[3]]), (4, []), (4, [[0], [2, 0]])])
def test_nothing_to_reduce_is_not_measured(choose, num_towers, shapes):
    choice = choose(num_towers, shapes, worker=ALL_FAIL)
    assert choice.rows == ()
    assert choice.reason.startswith("there is nothing to reduce")


def test_devices_of_other_processes_are_not_measured():
    devices = [f"/job:worker/task:{k}/device:CPU:0" for k in range(2)]
    choice = choose_by_measurement(devices, [[3]])
    assert choice.reason.startswith("devices of other processes cannot be measured")


def test_a_session_config_goes_to_the_process(choose, tmp_path):
    config = tf.ConfigProto(inter_op_parallelism_threads=5)
    told = python("print(json.dumps(dict(name=name, secs=[1], error=request['session_config'])))")
    assert choose(worker=told, session_config=config).rows[0].error == config.SerializeToString().hex()


def test_what_cannot_be_measured_is_refused(choose):
    with pytest.raises(ReductionError, match="expected a fully defined shape"):
        choose(shapes=[[None]])
    with pytest.raises(ConfigError, match="got algorithm='sring'"):
        choose(names=("sring",))
