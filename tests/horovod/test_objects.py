"""Python objects that travel between workers."""

from typing import Any

import tpack.horovod as hvd
from tests.helpers.worker_job import run_workers, values_of


def test_objects_arrive_in_all_workers(tmp_path: Any) -> None:
    for found in values_of(
        run_workers("tests.helpers.horovod_workers.run", 2, tmp_path, arguments={"what": "objects"})
    ):
        assert found["of all"] == [{"rank": 0, "text": ""}, {"rank": 1, "text": "x"}]
        assert found["of 1"] == ["from", 1]
        assert found["by function"] == 0


def test_alone_an_object_is_its_own() -> None:
    hvd.init()
    try:
        assert hvd.broadcast_object({"a": 1}) == {"a": 1}
        assert hvd.allgather_object("b") == ["b"]
        hvd.barrier()
    finally:
        hvd.shutdown()
