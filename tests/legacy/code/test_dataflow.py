"""Flows under older names give what those of today give, and are written to the same files."""

import pytest

from tpack.dataflow.sources import DataFromList
from tpack.dataflow.storage.tfrecord import TFRecordSerializer
from tpack.legacy.code import dataflow as older

POINTS = [[number, number * 2] for number in range(6)]


def flow():
    return DataFromList(POINTS, shuffle=False)


def test_points_are_mapped_in_threads():
    mapped = older.ThreadedMapData(flow(), 2, lambda point: [point[0] + 1], 4, True)
    mapped.reset_state()
    assert list(mapped) == [[number + 1] for number in range(6)]


@pytest.mark.parametrize(
    "make",
    [lambda ds: older.PrefetchData(ds, 2), lambda ds: older.PrefetchDataZMQ(ds, nr_proc=1)],
    ids=["queue", "zmq"],
)
def test_points_come_from_a_process(make):
    fetched = make(flow())
    fetched.reset_state()
    assert [list(point) for point in fetched.get_data()] == POINTS


def test_processes_that_fill_a_queue_start_without_a_reset():
    flows = older.PrefetchData(flow(), 2), older.MultiProcessPrefetchData(flow(), 2, 1)
    for fetched in flows:
        assert [list(next(iter(fetched))), list(next(iter(fetched)))] == [POINTS[0], POINTS[0]]
        fetched.close()


def test_flows_are_written_and_read(tmp_path):
    pytest.importorskip("lmdb")
    older.dump_dataflow_to_lmdb(flow(), tmp_path / "points.lmdb")
    older.dump_dataflow_to_tfrecord(flow(), tmp_path / "points.tfrecord")
    for found in (
        older.LMDBDataPoint(tmp_path / "points.lmdb", shuffle=False),
        TFRecordSerializer.load(tmp_path / "points.tfrecord"),
    ):
        found.reset_state()
        assert [list(point) for point in found] == POINTS


def test_a_queue_of_a_process_ends_with_marks():
    queue, process = older.dump_dataflow_to_process_queue(flow(), 10, 2)
    process.start()
    got = [queue.get() for _ in range(8)]
    process.join()
    queue.close()
    queue.join_thread()
    assert got == [*enumerate(POINTS), (None, None), (None, None)]


def test_arguments_of_tqdm_are_those_that_are_given_and_more():
    assert older.get_tqdm_kwargs(leave=True, ascii=False) == {
        "smoothing": 0.5,
        "dynamic_ncols": True,
        "ascii": False,
        "mininterval": 0.5,
        "leave": True,
    }
