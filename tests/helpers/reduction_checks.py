"""Checks that tests of several reducers share."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.sessions import cpu_session
from tests.helpers.tower_grads import cpu_devices, random_towers, run, slices, source
from tpack.errors import ReductionError
from tpack.reduction.base import ReduceOp, Reducer


def assert_sums_match_numpy(
    reducers: Sequence[Reducer], num_towers: int, shapes: Sequence[Any], *, seed: int, is_known: bool = True
) -> None:
    """Reduce random gradients with each reducer and check every output of every tower on its own."""
    values = random_towers(np.random.default_rng(seed), num_towers, shapes)
    with tf.Graph().as_default() as graph, cpu_session(graph) as session:
        grads = [
            [source(v, device, static_shape=v.shape if is_known else [None] * v.ndim) for v in tower]
            for tower, device in zip(values, cpu_devices(num_towers), strict=True)
        ]
        results = run(session, [reducer.reduce(grads, ReduceOp.SUM) for reducer in reducers])
    for reducer, reduced in zip(reducers, results, strict=True):
        for n in range(len(shapes)):
            wanted = np.sum([tower[n] for tower in values], axis=0)
            for k in range(num_towers):
                where = f"{reducer.name}, gradient {n} of tower {k}"
                assert reduced[k][n].shape == wanted.shape, where
                np.testing.assert_allclose(reduced[k][n], wanted, rtol=1e-5, atol=1e-5, err_msg=where)
                assert reduced[k][n].tobytes() == reduced[0][n].tobytes(), where


def added_operations(graph: Any, reduce: Callable[[], Any]) -> list[Any]:
    """Call `reduce` and return the operations that it added to `graph`."""
    before = len(graph.get_operations())
    reduce()
    return list(graph.get_operations()[before:])


def assert_refused(graph: Any, reducer: Reducer, grads: Sequence[Sequence[Any]], message: str) -> None:
    """Check that a reducer refuses gradients before it adds to the graph."""
    num_ops = len(graph.get_operations())
    with pytest.raises(ReductionError, match=message):
        reducer.reduce(grads)
    assert len(graph.get_operations()) == num_ops


def assert_served_without_devices(session: Any, reducer: Reducer, num_towers: int) -> None:
    """Check the sum of towers whose gradients have no device."""
    reduced = reducer.reduce([[source(np.full(5, float(k)), "")] for k in range(num_towers)], ReduceOp.SUM)
    assert run(session, reduced)[1][0].tolist() == [float(sum(range(num_towers)))] * 5


def assert_slices_are_served(session: Any, reducer: Reducer) -> None:
    """Check that the slices of three towers are concatenated, and averaged."""
    reduced = reducer.reduce([[slices([[3.0]], [k], "")] for k in range(3)])
    assert run(session, reduced)[2][0].values.tolist() == [[1.0]] * 3
