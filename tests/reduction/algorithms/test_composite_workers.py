import pytest

from tpack.errors import ReductionError
from tpack.reduction.algorithms.composite import check_equal_groups, group_by_worker, worker_of


@pytest.mark.parametrize(
    ("device", "worker"),
    [
        ("/job:worker/task:1/device:GPU:3", ("worker", None, 1)),
        ("/job:worker/replica:0/task:1/device:CPU:0", ("worker", 0, 1)),
        ("/device:CPU:0", (None, None, None)),
        ("", (None, None, None)),
    ],
)
def test_worker_of_is_what_stands_before_the_device(device: str, worker: tuple[object, ...]) -> None:
    assert worker_of(device) == worker


def test_devices_are_grouped_in_the_order_of_the_list() -> None:
    devices = [f"/job:worker/task:{task}/device:CPU:{index}" for index in range(2) for task in (1, 0)]
    assert group_by_worker(devices) == [[0, 2], [1, 3]]
    assert group_by_worker([*devices, "/device:CPU:0"]) == [[0, 2], [1, 3], [4]]
    assert group_by_worker([]) == []


def test_groups_of_different_sizes_are_refused() -> None:
    check_equal_groups([])
    check_equal_groups([[0, 2], [1, 3]])
    with pytest.raises(ReductionError, match=r"equal numbers of towers on all workers, got 2, 1: .*\[0, 2\], \[1\]"):
        check_equal_groups([[0, 2], [1]])
