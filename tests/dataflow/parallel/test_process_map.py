"""Mapping in processes: arguments and large arrays. See test_contract.py and test_strict_map.py for the rest."""

import numpy as np
import pytest

from tests.helpers.flows import Counting, same
from tests.helpers.worker_functions import Images
from tpack.dataflow.parallel.process_map import MultiProcessMapData
from tpack.dataflow.parallel.slots import VIEW_BYTES
from tpack.errors import ConfigError
from tpack.utils.env import usable_cores


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        ((), {}, "map_func=None"),
        ((0, same), {}, "num_proc=0"),
        ((1, same), {"buffer_size": 0}, "buffer_size=0"),
        ((1, same), {"timeout": -1}, "timeout=-1"),
    ],
)
def test_arguments_that_make_no_sense_are_refused(arguments, options, message):
    with pytest.raises(ConfigError, match=message):
        MultiProcessMapData(Counting(), *arguments, **options)


def test_there_is_a_process_for_each_core():
    assert MultiProcessMapData(Counting(), map_func=same).num_proc == usable_cores()


@pytest.mark.parametrize("strict", [False, True])
def test_large_arrays_go_there_and_back(strict):
    offset = 3
    ds = MultiProcessMapData(
        Images(40, 2 * VIEW_BYTES), 2, lambda point: [point[0] + offset, point[1]], buffer_size=30, strict=strict
    )
    ds.reset_state()
    kept = [*ds, *ds]
    assert all(set(array.tolist()) == {k + offset} for array, k in kept)
    found = [k for _, k in kept]
    assert len(found) == 80
    assert not strict or found == [*range(40)] * 2


def test_function_that_keeps_its_arrays_does_not_stop_anything():
    kept = []

    def keep(point):
        kept.append(point[0])
        return [int(kept[0][0]), int(kept[-1][-1])]

    ds = MultiProcessMapData(Images(60, 2 * VIEW_BYTES), 1, keep, buffer_size=5, strict=True)
    ds.reset_state()
    assert list(ds) == [[0, k] for k in range(60)]


def test_buffer_of_one_point_is_enough():
    ds = MultiProcessMapData(Counting(20), 2, lambda point: [np.float32(point[0])], buffer_size=1, strict=True)
    ds.reset_state()
    assert [float(k) for (k,) in ds] == list(range(20))
