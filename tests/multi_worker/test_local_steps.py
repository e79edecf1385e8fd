"""Workers whose towers train each by itself become the mean of all of them, and end together."""

from typing import Any

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.graph_builder.test_local_steps import local
from tests.helpers.drawn_weights import NUM_STEPS, TARGETS, drawn
from tests.helpers.worker_job import run_workers, values_of
from tpack.errors import ConfigError
from tpack.multi_worker.all_reduce import Exchange
from tpack.multi_worker.local_steps import MultiWorkerLocalStepsBuilder
from tpack.multi_worker.replicated_trainer import MultiWorkerTrainerReplicated

MODULE = "tests.helpers.local_workers"


@pytest.fixture(scope="module")
def features(tmp_path_factory: Any) -> Any:
    """What two workers return that train in several ways."""
    return values_of(run_workers(f"{MODULE}.features", 2, tmp_path_factory.mktemp("features")))


@pytest.mark.parametrize(
    ("name", "synced_after"), [("local", [3, 6, 9, 12]), ("saves", [4, 5, 8, 10, 12]), ("stop", [4])]
)
def test_all_towers_of_all_workers_become_their_mean_after_the_same_steps(
    features: Any, name: str, synced_after: list[int]
) -> None:
    expected = local(4, synced_after)
    # The weights of a step are noted before its checkpoint is saved.
    noted = [step for step in range(synced_after[-1]) if name != "saves" or step + 1 not in (5, 10)]
    for rank, found in enumerate(features):
        own = slice(2 * rank, 2 * rank + 2)
        assert found[name]["steps"] == synced_after[-1]
        assert [found[name]["seen"][step] for step in noted] == [expected[step][own] for step in noted]
        assert found[name]["last"]["w"] == expected[synced_after[-1] - 1][0]


def test_one_step_with_gradient_descent_is_synchronous_training_bit_for_bit(features: Any) -> None:
    for found in features:
        assert found["every step"]["seen"] == found["synchronous"]["seen"]
        assert found["synchronous"]["last"]["w"] == drawn(4, list(range(1, NUM_STEPS + 1)))[-1]
        np.testing.assert_array_equal(found["every step"]["last"]["table"], found["synchronous"]["last"]["table"])


def test_workers_exchange_only_when_they_meet(features: Any, tmp_path: Any) -> None:
    for found in features:
        counts = [found[name]["exchanges"] for name in ("synchronous", "every step", "local", "averaged")]
        # Each bucket is counted by itself.
        assert counts == [NUM_STEPS, NUM_STEPS, NUM_STEPS // 3, NUM_STEPS // 4]
    for found in values_of(run_workers(f"{MODULE}.traffic", 2, tmp_path)):
        assert found["local"] / found["plain"] == pytest.approx(0.25, rel=0.05)


def test_outer_gradient_descent_by_one_is_no_outer_optimizer_bit_for_bit(features: Any) -> None:
    for found in features:
        assert found["outer by one"]["seen"] == found["rounded"]["seen"]
    np.testing.assert_array_equal(features[0]["rounded"]["last"]["w"], features[1]["rounded"]["last"]["w"])


def test_outer_momentum_with_one_inner_step_is_momentum(features: Any) -> None:
    velocity, weight, seen = 0.0, 0.0, []
    for row in TARGETS:
        velocity = 0.5 * velocity + 0.25 * (weight - row.mean())
        weight -= velocity
        seen.append([weight] * 2)
    for found in features:
        np.testing.assert_allclose(found["outer"]["seen"], seen, rtol=1e-12)
        assert found["outer"]["last"]["outer/w/Momentum"] == pytest.approx(velocity, rel=1e-12)


def test_inner_state_is_of_each_worker_or_averaged(features: Any) -> None:
    for name in ("kept", "averaged"):
        weights, velocities, seen = np.zeros(4), np.zeros(4), []
        for step, row in enumerate(TARGETS, 1):
            velocities = 0.5 * velocities + (weights - row)
            weights = weights - 0.25 * velocities
            if step % 4 == 0:
                weights = np.full(4, weights.mean())
                velocities = np.full(4, velocities.mean()) if name == "averaged" else velocities
            seen.append(weights)
        for rank, found in enumerate(features):
            np.testing.assert_allclose(found[name]["seen"], [each[2 * rank : 2 * rank + 2] for each in seen], rtol=1e-9)
    assert features[0]["kept"]["seen"] != features[0]["averaged"]["seen"]


def test_other_settings_of_another_worker_are_refused_on_all(features: Any) -> None:
    for found in features:
        assert 'sync_every_steps: "2" in worker 0, "3" in worker 1' in found["other steps"]
        assert "outer_optimizer: " in found["other outer"]
        assert "ClusterError" in found["other outer"]


def test_nan_is_blamed_on_the_worker_in_whose_towers_it_is(tmp_path: Any) -> None:
    other, origin = values_of(run_workers(f"{MODULE}.not_finite", 2, tmp_path))
    assert origin.startswith("NumericsError: ")
    assert other.startswith("PeerLostError: worker 1 failed: NumericsError: ")


def test_a_signal_ends_all_after_the_next_average_and_a_resumed_run_equals_an_uninterrupted_one(tmp_path: Any) -> None:
    whole = values_of(run_workers(f"{MODULE}.resume", 2, tmp_path / "whole"))
    outcomes = run_workers(f"{MODULE}.resume", 2, tmp_path / "parts", arguments={"at": [1, 2]})
    assert [each.code for each in outcomes] == [0, 143], outcomes[0].text + outcomes[1].text
    assert all("Training was ended by a signal after step 4." in each.text for each in outcomes)
    saved = tf.train.load_checkpoint(str(tmp_path / "parts" / "log" / "model-4"))
    assert saved.get_tensor("w") == whole[0]["seen"][3][0]
    for found, expected in zip(values_of(run_workers(f"{MODULE}.resume", 2, tmp_path / "parts")), whole, strict=True):
        assert found["steps"] == NUM_STEPS
        assert found["seen"] == expected["seen"][4:]
        for name, value in expected["last"].items():
            np.testing.assert_array_equal(found["last"][name], value, err_msg=name)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"accumulate": 2}, "got accumulate=2: expected 1 with sync_every_steps=4; use one of the two"),
        ({"shard_optimizer": True}, "got shard_optimizer=True: expected False with sync_every_steps=4"),
        ({"exchange": "int8"}, "got exchange='int8': expected None with sync_every_steps=4"),
        ({"exchange": "adasum"}, "got exchange='adasum': expected None with sync_every_steps=4"),
        ({"wire_dtype": "bfloat16"}, "got wire_dtype='bfloat16': expected None with sync_every_steps=4"),
        ({"exchange": Exchange("float16")}, "got wire_dtype='float16': expected None with sync_every_steps=4"),
        ({"sync_every_steps": None, "inner_state": "reset"}, "got inner_state='reset': expected it together with"),
    ],
)
def test_what_cannot_be_together_is_refused_by_name(options: Any, words: str) -> None:
    with pytest.raises(ConfigError, match=f"^MultiWorkerTrainerReplicated {words}"):
        MultiWorkerTrainerReplicated(1, **{"sync_every_steps": 4, **options})


def test_a_process_that_is_alone_trains_as_one_machine_does() -> None:
    trainer = MultiWorkerTrainerReplicated(2, sync_every_steps=4)
    assert trainer.is_alone
    assert isinstance(trainer.builder, MultiWorkerLocalStepsBuilder)
