"""Workers that exchange the gradients of several steps at once end together, and lose none of them."""

import re
from typing import Any

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.drawn_weights import drawn
from tests.helpers.worker_job import run_workers, values_of

MODULE = "tests.helpers.accumulating_workers"


@pytest.fixture(scope="module")
def features(tmp_path_factory: Any) -> Any:
    """What two workers of two towers return that train in several ways."""
    return values_of(run_workers(f"{MODULE}.features", 2, tmp_path_factory.mktemp("features")))


@pytest.fixture(scope="module")
def ends(tmp_path_factory: Any) -> Any:
    """What two workers return that train until one of them is to stop."""
    return values_of(run_workers(f"{MODULE}.ends", 2, tmp_path_factory.mktemp("ends")))


@pytest.mark.parametrize(
    ("name", "towers", "applied_after"),
    [("plain", 2, [4, 6, 10, 12]), ("schedule", 1, [1, 2, 3, 4, 5, 6, 10, 12]), ("saves", 2, [4, 5, 6])],
)
def test_all_towers_of_all_workers_apply_the_means_of_all_after_the_same_steps(
    features: Any, name: str, towers: int, applied_after: list[int]
) -> None:
    expected = [[each] * towers for each in drawn(2 * towers, applied_after)]
    # The weights of a step are noted before its checkpoint is saved.
    noted = [step for step in range(len(expected)) if (name, step) != ("saves", 4)]
    for found in features:
        assert found[name]["last"]["w"] == expected[-1][0]
        assert [found[name]["seen"][step] for step in noted] == [expected[step] for step in noted]


@pytest.mark.parametrize(
    ("name", "towers", "applied_after"),
    [
        # A flag that is set after a step travels with the next exchange.
        ("stop", 2, [4]),
        ("time is over", 1, [4]),
        ("stop in the step of an exchange", 1, [4, 6]),
        ("stop in the last step", 1, [4, 6]),
    ],
)
def test_workers_end_together_after_an_exchange_when_one_wants_to(
    ends: Any, name: str, towers: int, applied_after: list[int]
) -> None:
    for found in ends:
        assert found[name]["steps"] == max(applied_after)
        assert found[name]["last"]["w"] == drawn(2 * towers, applied_after)[-1]


def test_weights_and_slots_equal_those_of_the_optimizer_that_accumulates(features: Any) -> None:
    ours, other = (features[0][name]["last"] for name in ("momentum", "optimizer"))
    assert {"w", "w/Momentum", "table", "table/Momentum", "global_step"} == set(ours)
    for found in features:
        for name, value in ours.items():
            np.testing.assert_array_equal(value, other[name], err_msg=name)
            np.testing.assert_array_equal(value, found["momentum"]["last"][name], err_msg=name)


def test_a_checkpoint_in_the_middle_has_the_gradients_of_all_workers(features: Any) -> None:
    assert [found["saved"] for found in features] == [["model-5.index"], []]


def test_runs_of_several_steps_end_together(ends: Any) -> None:
    assert [found["stop in several steps"] for found in ends] == [8, 8]
    chief, told = (found["interrupted"] for found in ends)
    assert told == "KeyboardInterrupt"
    assert 0 < chief < 2_000_000
    assert chief % 4 == 0


def test_an_overflow_on_one_worker_leaves_out_the_steps_on_all(features: Any) -> None:
    for found in features:
        assert found["overflow"]["loss_scale/skipped_steps"] == 6
        assert not found["overflow"]["w/Momentum"].any()


def test_other_steps_between_exchanges_are_refused_on_all(features: Any) -> None:
    words = 'steps between two exchanges: "2" in worker 0, "3" in worker 1'
    assert all(words in found["other steps between"] for found in features)


def test_a_divided_optimizer_applies_the_same_means_and_has_the_slots_of_whole_ones(features: Any) -> None:
    whole, (of_chief, of_other) = features[0]["momentum"], (found["divided"] for found in features)
    assert of_chief["seen"] == of_other["seen"] == whole["seen"]
    assert of_chief["last"].keys() >= whole["last"].keys()
    assert {"w/Momentum", "table/Momentum"} - of_other["last"].keys()
    for found in (of_chief, of_other):
        for name in found["last"].keys() & whole["last"].keys():
            np.testing.assert_array_equal(found["last"][name], whole["last"][name], err_msg=name)


def test_nan_is_blamed_on_the_worker_in_whose_sums_it_is(tmp_path: Any) -> None:
    other, origin = values_of(run_workers(f"{MODULE}.not_finite", 2, tmp_path))
    for name in ("cost", "gradients"):
        assert origin[name].startswith("NumericsError: "), name
        assert other[name].startswith("PeerLostError: worker 1 failed: NumericsError: "), name


def test_a_worker_that_others_wait_for_between_steps_is_named_on_all(tmp_path: Any) -> None:
    outcomes = run_workers(f"{MODULE}.straggle", 2, tmp_path)
    assert values_of(outcomes) == [6, 6]
    said = "worker 1 made no step for .* and the others wait for it"
    assert all(re.search(said, each.text) for each in outcomes), outcomes[0].text


def test_a_signal_to_one_worker_ends_all_after_the_next_exchange_and_a_resumed_run_goes_on(tmp_path: Any) -> None:
    chief, told = run_workers(f"{MODULE}.resume", 2, tmp_path, arguments={"at": [1, 2]})
    assert (chief.code, told.code) == (0, 143), chief.text + told.text
    assert all("Training was ended by a signal after step 4." in each.text for each in (chief, told))
    saved = tf.train.load_checkpoint(str(tmp_path / "log" / "model-4"))
    assert saved.get_tensor("w") == drawn(4, [4])[-1]
    for found in values_of(run_workers(f"{MODULE}.resume", 2, tmp_path)):
        assert found["seen"] == [[each] * 2 for each in drawn(4, [4, 6, 10, 12])[4:]]
