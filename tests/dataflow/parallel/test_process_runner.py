"""Flows in processes: arguments, data, and what one reads in the documentation. See test_contract.py for the rest."""

import numpy as np
import pytest

from tests.helpers.flows import Counting
from tests.helpers.worker_functions import Images
from tpack.dataflow.batch import BatchData
from tpack.dataflow.parallel.process_runner import MultiProcessRunner, MultiProcessRunnerZMQ
from tpack.dataflow.parallel.slots import VIEW_BYTES
from tpack.dataflow.sources import DataFromList
from tpack.errors import ConfigError


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda: MultiProcessRunner(Counting(), 0, 1), "num_prefetch=0"),
        (lambda: MultiProcessRunner(Counting(), 1, 0), "num_proc=0"),
        (lambda: MultiProcessRunner(Counting(), 1, 1, timeout=0), "timeout=0"),
        (lambda: MultiProcessRunnerZMQ(Counting(), 0), "num_proc=0"),
        (lambda: MultiProcessRunnerZMQ(Counting(), hwm=0), "hwm=0"),
        (lambda: MultiProcessRunnerZMQ(Counting(), timeout="1"), "timeout='1'"),
    ],
)
def test_arguments_that_make_no_sense_are_refused(make, name):
    with pytest.raises(ConfigError, match=name):
        make()


def test_prefetch_is_shared_by_the_processes():
    assert MultiProcessRunner(Counting(), 5, 2)._prefetch == 3
    assert MultiProcessRunnerZMQ(Counting(), 2, hwm=5)._prefetch == 5


def test_large_arrays_arrive_unharmed_and_stay_so_however_long_they_are_kept():
    ds = MultiProcessRunner(BatchData(Images(40, VIEW_BYTES // 2), 4), 3, 1)
    ds.reset_state()
    kept = [*ds, *ds]
    for images, numbers in kept:
        np.testing.assert_array_equal(images, np.repeat(numbers[:, None], VIEW_BYTES // 2, 1))
    assert [batch[1][0] for batch in kept] == list(range(0, 40, 4)) * 2


def test_arrays_of_a_list_are_shared_and_not_harmed_by_who_changes_them():
    data = [[np.full(VIEW_BYTES, k, np.uint8)] for k in range(3)]
    ds = MultiProcessRunnerZMQ(DataFromList(data, shuffle=False), 1, hwm=2)
    ds.reset_state()
    for _ in range(2):
        for k, (array,) in enumerate(ds):
            assert set(array.tolist()) == {k}
            array[:] = 99
    assert [set(array.tolist()) for (array,) in data] == [{0}, {1}, {2}]
