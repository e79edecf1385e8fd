from typing import Any

import numpy as np

from tests.helpers.tower_grads import dense_towers, slices
from tpack.reduction.algorithms.one_device import IdentityReducer
from tpack.reduction.base import ReduceOp


def test_identity_returns_each_towers_own_gradients(graph: Any) -> None:
    grads = dense_towers([[np.float32(k), np.ones(3, np.float32)] for k in range(3)])
    for k, tower in enumerate(grads):
        tower.append(slices([[1.0]], [k], ""))
    for op in ReduceOp:
        reduced = IdentityReducer().reduce(grads, op)
        for got, wanted in zip(reduced, grads, strict=True):
            assert all(a is b for a, b in zip(got, wanted, strict=True))
