"""Sessions of a script that exchange with other workers, and the errors of those that wait in vain."""

from typing import Any

import numpy as np
import pytest

from tests.helpers.worker_job import run_workers, values_of

RUN = "tests.helpers.horovod_workers.run"


def outcomes(directory: Any, what: str, **arguments: Any) -> Any:
    return run_workers(RUN, 2, directory, arguments={"what": what, **arguments})


@pytest.fixture(scope="module")
def sessions(tmp_path_factory: Any) -> list[Any]:
    return values_of(outcomes(tmp_path_factory.mktemp("sessions"), "sessions"))


def test_a_plain_session_runs_what_is_built_before_and_after_it(sessions: list[Any]) -> None:
    for found in sessions:
        assert found["broadcast"] == 2
        assert found["built later"] == 6
        # What the trainer's step loop makes works too, as a function or by its handle.
        assert found["callable"] == found["handle"] == 2


def test_a_new_session_of_a_graph_begins_without_values(sessions: list[Any]) -> None:
    assert [found["another session"] for found in sessions] == ["no value"] * 2


@pytest.mark.parametrize("name", ["monitored", "of tf1"])
def test_monitored_sessions_begin_with_the_values_of_the_root(sessions: list[Any], name: str) -> None:
    for found in sessions:
        np.testing.assert_array_equal(found[name], [-0.5, -2.0])


def test_loops_of_others_train_together(sessions: list[Any]) -> None:
    for rank, found in enumerate(sessions):
        assert found["supervisor"] == 1 - 2 * 1.5
        # The loss before the third step.
        assert found["slim"] == (1 - 2 * 1.5) * (rank + 1)
        assert found["estimator"] == (3, 1 - 3 * 1.5)


def test_workers_that_wait_for_each_other_are_told_so(tmp_path: Any) -> None:
    for rank, found in enumerate(values_of(outcomes(tmp_path, "crossed"))):
        assert "the workers wait for each other in different runs" in found
        assert f"worker {rank} waits in a run of allreduce {'ab'[rank]}" in found


def test_a_worker_that_does_not_come_is_named(tmp_path: Any) -> None:
    first, second = values_of(outcomes(tmp_path, "missing"))
    assert "a run of allreduce lonely got nothing from worker 1 for" in first
    assert second == "waited"


@pytest.mark.parametrize(("how", "text"), [("raised", "its data are wrong"), ("killed", "worker 1 was lost")])
def test_a_worker_that_ends_is_named_by_the_others(tmp_path: Any, how: str, text: str) -> None:
    first, second = outcomes(tmp_path, "failing", how=how)
    assert (first.code, second.code) == (1, -9 if how == "killed" else 1)
    assert text in first.text
    assert "PeerLostError" in first.text
