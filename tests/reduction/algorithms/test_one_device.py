from typing import Any

import numpy as np
import pytest

from tests.helpers.partition_graphs import run_with_devices
from tests.helpers.tower_grads import dense_towers, run
from tpack.errors import ConfigError
from tpack.reduction.algorithms.one_device import OneDeviceReducer


@pytest.mark.parametrize(("device", "owner"), [(None, 1), ("/cpu:3", 3), ("/device:CPU:0", 0)])
def test_sums_run_on_one_device(device: str | None, owner: int, session8: Any) -> None:
    grads = dense_towers([[np.full(3, k, np.float32)] * 2 for k in range(3)], [f"/device:CPU:{k}" for k in (1, 2, 5)])
    reduced = OneDeviceReducer(device).reduce(grads)
    run(session8, reduced)
    values, placed = run_with_devices(session8, reduced)
    assert np.array_equal(values, np.full((3, 2, 3), 1.0))
    assert {placed[name] for name in ("one_device/AddN", "one_device/AddN_1")} == {f"/device:CPU:{owner}"}
    assert [placed[tower[1].op.name] for tower in reduced] == [f"/device:CPU:{k}" for k in (1, 2, 5)]


def test_a_device_that_cannot_be_read_is_refused() -> None:
    with pytest.raises(ConfigError, match="no device name"):
        OneDeviceReducer("/nonsense:x:y")
