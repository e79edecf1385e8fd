import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.equivalence import STEPS, one_tower
from tests.helpers.server_scenarios import whole_batch
from tests.helpers.worker_job import run_workers, values_of
from tests.helpers.worker_scenarios import Equivalence, Values
from tpack.callbacks.saver import ModelSaver
from tpack.errors import ClusterError, ConfigError
from tpack.multi_worker.cluster.cluster_spec import ClusterMember
from tpack.multi_worker.cluster.peer_failure import EXIT_PEER_LOST
from tpack.multi_worker.cluster.ports import PortReservation
from tpack.multi_worker.ps_trainer import (
    DistributedTrainerParameterServer,
    DistributedTrainerReplicated,
    wait_for_parameter_servers,
)
from tpack.train.interface import launch_train_with_config
from tpack.train.resume import AutoResumeTrainConfig
from tpack.train.trainers import SimpleTrainer
from tpack.utils import logger
from tpack.utils.tf_config import ClusterTask

KINDS = ("synchronous", "replicated", "asynchronous")


def run(name, workers, servers, directory, **arguments):
    name = f"tests.helpers.server_scenarios.{name}"
    return run_workers(name, workers, directory, by="TF_CONFIG", num_ps=servers, arguments=arguments)


@pytest.mark.parametrize(
    ("workers", "servers", "towers", "optimizers", "given"),
    [(2, 2, 2, ["sgd", "momentum", "adam"], False), (3, 1, 1, ["adam"], True)],
    ids=["started server", "given server"],
)
def test_workers_and_towers_equal_one_tower_with_the_whole_batch(tmp_path, workers, servers, towers, optimizers, given):
    kinds = ["synchronous", "replicated", *(["synchronous-compiled"] if given else [])]
    arguments = {"kinds": kinds, "optimizers": optimizers, "size": workers, "towers": towers, "given": given}
    found = values_of(run("equivalence", workers, servers, tmp_path, **arguments))
    for name in found[0]:
        oracle = one_tower(name.split()[1], workers * towers).weights[0]
        chief = found[0][name]["values"]
        for weight, wanted in oracle.items():
            np.testing.assert_allclose(chief[weight], wanted, rtol=1e-9, atol=1e-12, err_msg=f"{name} {weight}")
            assert all(np.array_equal(other[name]["values"][weight], chief[weight]) for other in found[1:workers])
        shared = {place for place in found[0][name]["places"].values() if place != "here"}
        assert len(shared) == (servers if name.startswith("synchronous") else 0)
        assert [each[name]["step"] for each in found] == [STEPS] * workers + [0] * servers


@pytest.fixture(scope="module")
def features(tmp_path_factory):
    return values_of(run("features", 2, 2, tmp_path_factory.mktemp("features")))


def test_each_gradient_of_asynchronous_workers_is_applied_once(features):
    np.testing.assert_array_equal(features[0]["asynchronous"]["values"]["w"], [-10, -5005])
    np.testing.assert_array_equal(features[0]["two towers"]["values"]["w"], [-5, -2502.5])


def test_no_worker_is_further_ahead_than_it_may_be(features):
    assert max(features[1]["no bound"]["ahead"]) > 2
    assert max(features[1]["a bound"]["ahead"]) == 2
    assert [each["a bound"]["step"] for each in features[:2]] == [20, 20]


def test_variables_are_balanced_and_gradients_of_tables_sent_as_rows(features):
    places = features[0]["tables"]["places"]
    assert {places["large/part_0"], places["large/part_1"]} == {"ps 0", "ps 1"}
    assert places["large/part_0/Adam"] == places["large/part_0"]
    sent = features[1]["tables"]["sent"]
    assert {name: count for name, count in sent.items() if name.startswith("gradient")} == {
        "gradient/large/part_0/worker1": 2,
        "gradient/large/part_1/worker1": 2,
        "gradient/small/worker1": 2,
        "gradient/scale/worker1": 1,
    }


@pytest.mark.parametrize("kind", KINDS)
def test_what_the_chief_changes_all_workers_have(features, kind):
    wanted = -20.0 * (2 if kind == "asynchronous" else 1)
    assert [each[f"{kind}, another rate"]["values"]["w"][0] for each in features[:2]] == [wanted, wanted]


@pytest.mark.parametrize("kind", KINDS)
def test_workers_stop_together(features, kind):
    in_step, stopped = (
        [each[f"{kind}, {how}"]["step"] for each in features[:2]] for how in ("stopped in a step", "stopped")
    )
    assert stopped == [STEPS, STEPS]
    # An asynchronous worker hears of it after a step of its own, whichever that is.
    assert in_step[1] == 3
    assert in_step[0] == 3 or (kind == "asynchronous" and 1 <= in_step[0] < 3)


@pytest.mark.parametrize("kind", [*KINDS, "uncached"])
def test_statistics_are_updated_by_the_chief_alone(features, kind):
    np.testing.assert_allclose(features[0][f"{kind}, updates"]["values"]["seen"], 10 * 0.25, rtol=1e-6)


def test_the_step_of_the_chief_waits_for_the_updates_of_what_synchronous_workers_read(features):
    waits = {
        kind: [each[f"{kind}, updates"]["waits"] for each in features[:2]] for kind in ("synchronous", "asynchronous")
    }
    assert waits == {"synchronous": [True, False], "asynchronous": [False, False]}


def test_workers_that_differ_are_told_before_the_first_step(features):
    for each in features[:2]:
        assert 'own: nothing in worker 0, "float32 (2,), trained" in worker 1' in each["other variables"]
        assert "synchronous: true in worker 0, false in worker 1" in each["other settings"]
    assert all("PeerLostError" in each["other settings"] for each in features[2:])


def test_nan_is_blamed_on_the_worker_in_whose_gradients_it_arose(tmp_path):
    chief, other, *_ = values_of(run("not_finite", 2, 1, tmp_path))
    for kind in ("synchronous", "replicated"):
        assert other[kind].startswith("NumericsError: "), kind
        assert chief[kind].startswith("PeerLostError: worker 1 failed: NumericsError: "), kind


@pytest.mark.parametrize("kind", KINDS)
def test_another_order_of_variables_is_an_error_before_the_first_step(features, kind):
    for each in features[:2]:
        said = each[f"{kind}, other order"]
        assert 'the order of variables, number 1: "u" in worker 0, "v" in worker 1' in said
        assert ("the order of placement, number " in said) == (kind != "replicated")


def test_workers_ask_a_server_that_is_gone_in_vain_and_not_for_ever(features):
    assert [each["calls to lost servers fail"] for each in features] == ["true", "true", None, None]


def train_alone(directory, max_epoch):
    """Train with the whole batch of two workers in one tower, going on from what is there; return all values."""
    values = Values()
    logger.set_logger_dir(str(directory), action="k")
    with tf.Graph().as_default():
        config = AutoResumeTrainConfig(
            model=Equivalence("adam"),
            data=whole_batch(2),
            callbacks=[values, ModelSaver()],
            extra_callbacks=[],
            monitors=[],
            steps_per_epoch=2,
            max_epoch=max_epoch,
        )
        launch_train_with_config(config, SimpleTrainer())
    return values.values


def test_checkpoints_are_those_of_one_machine(tmp_path, log_dir):
    alone = train_alone(tmp_path / "alone", 2)
    train_alone(tmp_path / "both" / "log", 1)
    logger.set_logger_dir(str(log_dir))
    # From one machine to several, which a signal ends, back to one, and from several to several.
    first, *_ = run("resume", 2, 1, tmp_path / "both", kind="replicated", max_epoch=2, size=2, at=[1, 3], how="signal")
    assert "global step 2: training goes on in epoch 2" in first.text
    assert "model-4" in first.text, first.text
    started, *_ = values_of(run("resume", 2, 1, tmp_path / "both", kind="synchronous", max_epoch=2, size=2))
    for name, wanted in alone.items():
        np.testing.assert_allclose(started["values"][name], wanted, rtol=1e-9, atol=1e-12, err_msg=name)


@pytest.mark.parametrize(
    ("kind", "how", "at", "lost", "survivors"),
    [
        ("synchronous", "kill", [1, 1], "worker 1 was lost", [0, 2]),
        ("asynchronous", "kill a server", [0, 1], "ps 0 was lost", [0, 1]),
    ],
)
def test_a_process_that_is_lost_ends_the_others_by_name(tmp_path, kind, how, at, lost, survivors):
    ended = run("resume", 2, 1, tmp_path, kind=kind, max_epoch=2, size=2, at=at, how=how)
    assert all(each.code for each in ended)
    for each in (ended[number] for number in survivors):
        assert lost in each.text
        # The process is ended where TensorFlow does not let go of a step; else training raises.
        assert each.code == EXIT_PEER_LOST or f"PeerLostError: {lost}" in each.value
        assert each.code != EXIT_PEER_LOST or "ends with code 75, since it has lost rank" in each.text


def test_servers_that_do_not_start_are_named():
    with PortReservation() as taken:
        member = ClusterMember({"worker": ("127.0.0.1:1",), "ps": (f"127.0.0.1:{taken.port}",)})
        with pytest.raises(ClusterError, match=f"of 1 parameter servers ps 0 at 127.0.0.1:{taken.port} did not start"):
            wait_for_parameter_servers(member, 0.01)


def test_arguments_that_cannot_be():
    alone, together = ClusterTask({"worker": ["a:1"]}, "worker", 0), {"cluster": ClusterMember()}
    with pytest.raises(ConfigError, match="got a cluster without parameter servers"):
        DistributedTrainerReplicated(1, cluster=alone)
    with pytest.raises(ConfigError, match="max_staleness=3: expected None with synchronous=True"):
        DistributedTrainerParameterServer(1, synchronous=True, max_staleness=3, **together)
    with pytest.raises(ConfigError, match="caching_device"):
        DistributedTrainerParameterServer(1, None, "disk", **together)
    with pytest.raises(ConfigError, match="expected a policy that does not scale the cost"):
        DistributedTrainerReplicated(1, precision="float16", **together)


def test_a_server_serves_and_does_nothing_else():
    server = DistributedTrainerReplicated(1, cluster=ClusterTask({"worker": ["a:1"], "ps": ["b:1"]}, "ps", 0))
    assert server.serves
    with pytest.raises(ConfigError, match="got a parameter server: expected a worker; use join"):
        server.setup_graph([], whole_batch(1), lambda: None, lambda: None)
