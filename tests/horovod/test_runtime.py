"""``init`` and ``shutdown``, ranks and sizes, and process sets."""

from typing import Any

import pytest

import tpack.horovod as hvd
from tests.helpers.worker_job import run_workers, values_of
from tpack.errors import ConfigError
from tpack.horovod import runtime

RUN = "tests.helpers.horovod_workers.run"


def of_workers(directory: Any, what: str, num_workers: int) -> list[Any]:
    return values_of(run_workers(RUN, num_workers, directory, arguments={"what": what}))


def test_ranks_and_sizes_are_those_of_the_launcher(tmp_path: Any) -> None:
    for rank, found in enumerate(of_workers(tmp_path, "places", 2)):
        assert (found["rank"], found["size"], found["local"], found["cross"]) == (rank, 2, (rank, 2), (0, 1))
        assert found["operations"] == [rank, 2, rank, 2]
        assert found["homogeneous"] is True


def test_process_sets_exchange_among_themselves(tmp_path: Any) -> None:
    found = of_workers(tmp_path, "sets", 3)
    assert [each.get("first sum") for each in found] == [4, None, 4]
    assert [each.get("second sum") for each in found] == [None, 5, 5]
    assert [each.get("second objects") for each in found] == [None, [1, 2], [1, 2]]
    for each in found:
        assert each["all"] == {0: [0, 1, 2], 1: [0, 2], 2: [1, 2]}
        assert each["removed"] == (True, False, None)
        assert each["all after"] == 3
        assert "expected a set that is not registered already" in each["again"]
        assert "expected ranks below 3" in each["too large"]
    assert "got worker 0: expected one of the set" in found[0]["second refused"]


def test_a_trainer_of_tpack_trains_after_shutdown(tmp_path: Any) -> None:
    for found in of_workers(tmp_path, "slope_alone", 2):
        assert found.startswith("False {'w':")


def test_alone_nothing_is_started() -> None:
    assert not hvd.is_initialized()
    with pytest.raises(ConfigError, match=r"not initialized: call hvd.init\(\) first"):
        hvd.rank()
    hvd.init()
    try:
        assert hvd.is_initialized()
        assert (hvd.rank(), hvd.size(), hvd.local_rank(), hvd.local_size()) == (0, 1, 0, 1)
        assert (hvd.cross_rank(), hvd.cross_size()) == (0, 1)
        with pytest.raises(ConfigError, match="expected ranks below 1"):
            hvd.add_process_set([1])
    finally:
        hvd.shutdown()
    assert not hvd.is_initialized()
    hvd.shutdown()


def test_a_part_of_the_workers_is_a_process_set(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(
        ConfigError, match=r"comm=\[0, 1\]: expected None or the ranks of all 1 workers; use process_sets"
    ):
        hvd.init(comm=[0, 1])
    monkeypatch.setenv("HOROVOD_STALL_CHECK_TIME_SECONDS", "soon")
    with pytest.raises(ConfigError, match="HOROVOD_STALL_CHECK_TIME_SECONDS got 'soon': expected a number of seconds"):
        runtime._secs_of("HOROVOD_STALL_CHECK_TIME_SECONDS")
