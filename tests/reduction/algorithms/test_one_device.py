from typing import Any

import numpy as np
import pytest

from tests.helpers.partition_graphs import run_with_devices
from tests.helpers.tower_grads import dense_towers, run, slices
from tpack.errors import ConfigError
from tpack.reduction.algorithms.one_device import IdentityReducer, OneDeviceReducer, RoundRobinReducer
from tpack.reduction.base import ReduceOp


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
    with pytest.raises(ConfigError, match="canonical_device got .*: expected the name of a device"):
        OneDeviceReducer("/nonsense:x:y")


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
    with pytest.raises(ConfigError, match="RoundRobinReducer got devices"):
        RoundRobinReducer(devices)


def test_identity_returns_each_towers_own_gradients(graph: Any) -> None:
    grads = dense_towers([[np.float32(k), np.ones(3, np.float32)] for k in range(3)])
    for k, tower in enumerate(grads):
        tower.append(slices([[1.0]], [k], ""))
    for op in ReduceOp:
        reduced = IdentityReducer().reduce(grads, op)
        for got, wanted in zip(reduced, grads, strict=True):
            assert all(a is b for a, b in zip(got, wanted, strict=True))
