from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.tower_grads import dense_towers, random_towers, run, slices, source
from tpack.errors import ConfigError, ReductionError
from tpack.reduction.algorithms.collective import CollectiveReducer
from tpack.reduction.algorithms.halving_doubling import HalvingDoublingReducer
from tpack.reduction.algorithms.one_device import OneDeviceReducer, RoundRobinReducer
from tpack.reduction.base import Column, ReduceOp
from tpack.reduction.wrappers.splitting import SplitBySizeReducer


class _Recorder(OneDeviceReducer):
    """Notes the sizes of what it is given."""

    def __init__(self) -> None:
        super().__init__()
        self.sizes: list[int] = []
        self.num_sparse = 0

    def reduce_dense(self, columns: Sequence[Column], op: ReduceOp) -> list[Column]:
        self.sizes += [column[0].shape.num_elements() for column in columns]
        return super().reduce_dense(columns, op)

    def reduce_sparse(self, columns: Sequence[Column], op: ReduceOp) -> list[Column]:
        self.num_sparse += len(columns)
        return super().reduce_sparse(columns, op)


def test_each_tensor_goes_to_its_entry_and_the_order_stays(rng: Any, session8: Any) -> None:
    small, middle, large = _Recorder(), _Recorder(), _Recorder()
    reducer = SplitBySizeReducer([(small, 16), (middle, 40), (large, -1)])
    # The limits are 4 and 10 elements of float32.
    shapes = [(11,), (4,), (2, 5), (), (3, 9), (5,), (0,)]
    values = random_towers(rng, 3, shapes)
    got = run(session8, reducer.reduce(dense_towers(values)))
    assert (small.sizes, middle.sizes, large.sizes) == ([4, 1, 0], [10, 5], [11, 27])
    for k in range(3):
        for n in range(len(shapes)):
            np.testing.assert_allclose(got[k][n], np.mean([tower[n] for tower in values], axis=0), rtol=1e-5, atol=1e-6)


def test_sizes_are_bytes_and_not_elements(graph: Any) -> None:
    small, large = _Recorder(), _Recorder()
    grads = [[source(np.zeros(8), "", dtype=dtype) for dtype in (tf.float64, tf.float16)] for _ in range(2)]
    SplitBySizeReducer([(small, 16), (large, -1)]).reduce(grads)
    assert (len(small.sizes), len(large.sizes)) == (1, 1)


def test_sparse_gradients_go_to_the_last_entry(session8: Any) -> None:
    small, large = _Recorder(), _Recorder()
    grads = [[slices([[1.0]], [k], ""), source(1.0, ""), slices([[2.0]], [k], "")] for k in range(2)]
    reduced = SplitBySizeReducer([(small, 10**6), (large, -1)]).reduce(grads, ReduceOp.SUM)
    assert (small.num_sparse, large.num_sparse) == (0, 2)
    got = run(session8, reduced)
    assert got[1][0].values.tolist() == [[1.0], [1.0]]
    assert got[1][1] == 2.0
    assert got[1][2].indices.tolist() == [0, 1]


def test_a_shape_that_is_known_in_one_tower_is_enough(session8: Any) -> None:
    small, large = _Recorder(), _Recorder()
    grads = [[source(np.ones(3), f"/device:CPU:{k}", static_shape=shape)] for k, shape in enumerate([None, [3]])]
    reduced = SplitBySizeReducer([(small, 24), (large, -1)]).reduce(grads)
    assert (len(small.sizes), len(large.sizes)) == (1, 0)
    assert run(session8, reduced)[0][0].tolist() == [1.0] * 3


def test_an_unknown_shape_is_refused_where_sizes_matter(session8: Any) -> None:
    grads = [[source(np.ones((3, 2)), "", static_shape=[None, 2])] for _ in range(2)]
    num_ops = len(session8.graph.get_operations())
    with pytest.raises(ReductionError, match=r"SplitBySizeReducer got .* of shape \(None, 2\): expected a known shape"):
        SplitBySizeReducer([(OneDeviceReducer(), 16), (OneDeviceReducer(), -1)]).reduce(grads)
    assert len(session8.graph.get_operations()) == num_ops
    assert run(session8, SplitBySizeReducer([(OneDeviceReducer(), -1)]).reduce(grads))[1][0].shape == (3, 2)


def test_limits_of_an_algorithm_hold_for_its_tensors_only(graph: Any) -> None:
    reducer = SplitBySizeReducer([(OneDeviceReducer(), 16), (HalvingDoublingReducer(), -1)])
    reducer.reduce(dense_towers([[np.ones(4, np.float32)]] * 3))
    with pytest.raises(ReductionError, match="power of two"):
        reducer.reduce(dense_towers([[np.ones(4, np.float32), np.ones(5, np.float32)]] * 3))


def test_algorithms_that_wait_for_each_other_run_in_one_order(rng: Any, session8: Any) -> None:
    values = random_towers(rng, 4, [(2,), (20,), (3,), (30,)])
    reducer = SplitBySizeReducer([(CollectiveReducer(), 16), (CollectiveReducer(), -1)])
    reduced = reducer.reduce(dense_towers(values), ReduceOp.SUM)
    collectives = [op for op in session8.graph.get_operations() if op.type.startswith("CollectiveReduce")]
    assert len(collectives) == 4 * 4
    # All but the first four start after a barrier.
    assert [bool(op.control_inputs) for op in collectives] == [False] * 4 + [True] * 12
    got = run(session8, reduced)
    np.testing.assert_allclose(got[3][1], sum(tower[1] for tower in values), rtol=1e-5, atol=1e-5)


def test_entries_without_a_tensor_add_nothing(graph: Any) -> None:
    grads = dense_towers([[np.float32(1)]] * 2)
    SplitBySizeReducer([(CollectiveReducer(), 2), (RoundRobinReducer(), -1)]).reduce(grads)
    assert not [op for op in graph.get_operations() if "collective" in op.name]


def test_limits_that_do_not_rise_to_none_are_refused() -> None:
    with pytest.raises(ConfigError, match="entry 0, the last, has the limit 1024 bytes: expected -1"):
        SplitBySizeReducer([(OneDeviceReducer(), 1024)])
