"""Estimators that train in several processes on loopback: what comes out, and what becomes of all when one is lost."""

import numpy as np
import pytest

from tests.helpers.optimizers import OPTIMIZERS
from tests.helpers.replicated_models import regression
from tests.helpers.role_job import run_roles, values_of
from tests.helpers.role_scenarios import DATA, ROWS, STEPS, rows_of
from tpack.distribute.strategies import MirroredStrategy
from tpack.errors import ConfigError
from tpack.estimator.estimator import Estimator
from tpack.estimator.run_config import RunConfig
from tpack.multi_worker.cluster.cluster_spec import ClusterMember
from tpack.multi_worker.cluster.peer_failure import EXIT_PEER_LOST


def alone(directory, name, steps):
    """Train in this process on all rows of each batch."""
    estimator = Estimator(regression, str(directory), RunConfig(tf_random_seed=1), {"optimizer": OPTIMIZERS[name]})
    return estimator.train(rows_of(0, 1, 1), max_steps=steps)


def assert_close(got, estimator):
    for name in estimator.get_variable_names():
        np.testing.assert_allclose(got[name], estimator.get_variable_value(name), rtol=1e-4, atol=1e-6, err_msg=name)


@pytest.mark.parametrize("towers", [2, 1])
def test_workers_and_towers_equal_one_tower_with_the_whole_batch(tmp_path, towers):
    names = ["sgd", "momentum", "adam"]
    # With Adam, the workers go on from this checkpoint of one process, and their first run has nothing to do.
    alone(tmp_path / "model" / "adam", "adam", STEPS)
    arguments = {"towers": towers, "directory": str(tmp_path / "model"), "optimizers": names}
    found = values_of(run_roles("train_collective", {"chief": 1, "worker": 1}, tmp_path, arguments))
    for name in names:
        (values, has_files), (others, others_have_files) = found["chief0"][name], found["worker0"][name]
        assert (has_files, others_have_files) == (True, False)
        oracle = alone(tmp_path / "oracle" / name, name, STEPS)
        if name == "adam":
            oracle.train(rows_of(0, 1, 1), steps=STEPS)
        assert_close(values, oracle)
        assert values.keys() == others.keys()
        for variable, value in values.items():
            assert value.tobytes() == others[variable].tobytes(), variable
            replica = f"{variable}/replica_1"
            assert replica not in values or values[replica].tobytes() == value.tobytes()
        assert ("weights/replica_1" in values) == (towers == 2)
    # One process goes on from the workers' checkpoint.
    one = alone(tmp_path / "model" / "adam", "adam", 3 * STEPS)
    oracle.train(rows_of(0, 1, 1), steps=STEPS)
    assert_close({each: one.get_variable_value(each) for each in one.get_variable_names()}, oracle)


@pytest.mark.parametrize("with_strategy", [False, True])
def test_every_role_does_its_part_of_train_and_evaluate(tmp_path, with_strategy):
    chief = "master" if with_strategy else "chief"
    jobs = {chief: 1, "worker": 1, "ps": 2, **({} if with_strategy else {"evaluator": 1})}
    arguments = {"directory": str(tmp_path / "model"), "with_strategy": with_strategy, "max_steps": 60}
    outcomes = run_roles("train_on_servers", jobs, tmp_path, arguments)
    found = values_of(outcomes)
    evaluates = f"{chief}0" if with_strategy else "evaluator0"
    for name, value in found.items():
        assert bool(value["results"]) == (name == evaluates), name
    # Workers do not wait for each other: both may be in a step when the other makes the last one.
    step = found[evaluates]["results"]["global_step"]
    assert 60 <= step <= 61
    assert found[evaluates]["results"]["loss"] < 1.5
    trained = Estimator(regression, str(tmp_path / "model"))
    for worker in (f"{chief}0", "worker0"):
        assert {device.partition("/device")[0] for device in found[worker]["devices"].values()} == {
            "/job:ps/task:0",
            "/job:ps/task:1",
        }
        assert found[worker]["values"]["global_step"] == trained.get_variable_value("global_step") == step
        np.testing.assert_array_equal(found[worker]["values"]["weights"], trained.get_variable_value("weights"))
    assert "Evaluated the model at global step 0" not in outcomes["worker0"].text
    assert "this parameter server" in outcomes["ps0"].text


def test_gradients_may_be_averaged_on_the_servers(tmp_path):
    jobs = {"chief": 1, "worker": 1, "ps": 1}
    arguments = {"directory": str(tmp_path / "model")}
    found = values_of(run_roles("train_synchronously_on_servers", jobs, tmp_path, arguments))
    assert found["chief0"]["values"]["global_step"] == STEPS
    features, labels = DATA
    weights = np.zeros(3)
    for step in range(STEPS):
        rows = slice(step * ROWS, (step + 1) * ROWS)
        x, y = features["x"][rows], labels[rows]
        weights -= 0.05 * 2 / ROWS * x.T @ (x @ weights - y)
    for name in ("chief0", "worker0"):
        np.testing.assert_allclose(found[name]["values"]["weights"], weights, rtol=1e-4)


LOST = [
    ("killed", "worker0", {"chief": 1, "worker": 1}, {"chief0": "worker 1 was lost: "}),
    (
        "servers",
        "chief0",
        {"chief": 1, "worker": 1, "ps": 1, "evaluator": 1},
        {
            "worker0": "worker 0 was lost: ",
            "ps0": "worker 0 was lost: ",
            "evaluator0": "ClusterError: the evaluator has seen no new checkpoint for 5 s, and training has not ended",
        },
    ),
    (
        "other model",
        "worker0",
        {"chief": 1, "worker": 1},
        dict.fromkeys(
            ["chief0", "worker0"],
            'variables: more: nothing in worker 0, "(2,) float32" in worker 1 ... '
            'the optimizer: ApplyGradientDescent.alpha: "computed from 0.0500',
        ),
    ),
    (
        "changed",
        "worker0",
        {"chief": 1, "worker": 1},
        dict.fromkeys(["chief0", "worker0"], "checksums of what is saved of step 4: "),
    ),
    (
        "short data",
        "worker0",
        {"chief": 1, "worker": 1},
        dict.fromkeys(
            ["chief0", "worker0"],
            "worker 0 did not come to 'the end of training after step 10' within 4 s, where worker 1 waited",
        ),
    ),
    (
        "other order",
        "worker0",
        {"chief": 1, "worker": 1},
        dict.fromkeys(["chief0", "worker0"], 'the order of variables, number 2: "u" in worker 0, "v" in worker 1'),
    ),
]


@pytest.mark.parametrize(("kind", "who", "jobs", "told"), LOST, ids=[case[0] for case in LOST])
def test_all_end_when_one_is_lost_and_say_who(tmp_path, kind, who, jobs, told):
    arguments = {"directory": str(tmp_path / "model"), "who": who, "kind": kind}
    outcomes = run_roles("lose_one", jobs, tmp_path, arguments)
    for name, outcome in outcomes.items():
        if name in told:
            # Where a step does not return in time, the process is ended by the code of one that has lost another.
            assert outcome.code in (1, EXIT_PEER_LOST), f"{name}\n{outcome.text}"
            for words in told[name].split(" ... "):
                assert words in (outcome.value or outcome.text), f"{name}\n{outcome.value}\n{outcome.text}"
        else:
            assert (name, outcome.code) == (who, -9), f"{outcome.value}\n{outcome.text}"


@pytest.mark.parametrize(
    ("member", "strategy", "message"),
    [
        (ClusterMember({"worker": ("a:1", "b:1")}, "worker"), None, "several workers without a strategy"),
        (
            ClusterMember({"worker": ("a:1", "b:1")}, "worker"),
            MirroredStrategy,
            "got train_distribute=.*expected a Coll",
        ),
        (
            ClusterMember({"worker": ("a:1",)}, "evaluator"),
            None,
            "expected a process that trains; use train_and_evaluate",
        ),
        (ClusterMember({"worker": ("a:1",), "ps": ("b:1",)}, "ps"), None, "expected a process that trains"),
    ],
)
def test_what_cannot_train_together_is_refused(tmp_path, member, strategy, message):
    config = RunConfig(cluster=member, train_distribute=strategy and strategy())
    with pytest.raises(ConfigError, match=message):
        Estimator(regression, str(tmp_path), config).train(rows_of(0, 1, 1), steps=1)
