from typing import Any

import numpy as np
import pytest

from tests.helpers.partition_graphs import run_with_devices
from tests.helpers.tower_grads import dense_towers, run
from tpack.errors import ConfigError
from tpack.reduction.algorithms.one_device import RoundRobinReducer


def _owners(reducer: RoundRobinReducer, session: Any, num_towers: int, num_grads: int) -> list[str]:
    """Return where the last gradient is summed, the one before it, and so on."""
    values = [[np.full(4, k + n, np.float32) for n in range(num_grads)] for k in range(num_towers)]
    reduced = reducer.reduce(dense_towers(values))
    run(session, reduced)
    got, placed = run_with_devices(session, reduced)
    assert np.array_equal(got[0], np.mean(values, axis=0))
    return [placed["round_robin/AddN" + (f"_{n}" if n else "")] for n in range(num_grads)]


def test_towers_take_turns_from_the_last_gradient_on(session8: Any) -> None:
    assert _owners(RoundRobinReducer(), session8, 3, 5) == [f"/device:CPU:{k}" for k in (0, 1, 2, 0, 1)]


def test_given_devices_take_turns(session8: Any) -> None:
    reducer = RoundRobinReducer(["/cpu:5", "/gpu:6"])
    assert _owners(reducer, session8, 4, 3) == [f"/device:CPU:{k}" for k in (5, 6, 5)]


@pytest.mark.parametrize("devices", [[], "/cpu:0"])
def test_devices_must_be_a_list(devices: Any) -> None:
    with pytest.raises(ConfigError, match="wanted a list of devices"):
        RoundRobinReducer(devices)
