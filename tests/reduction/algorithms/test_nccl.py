"""NCCL needs GPUs to run. Here its operations are built and looked at, and run with a stand-in for the one call."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.tower_grads import dense_towers, slices
from tpack.errors import ReductionError
from tpack.reduction.algorithms import nccl
from tpack.reduction.algorithms.nccl import NcclReducer


def _gpu_towers(num_towers: int, num_grads: int = 2, dtype: Any = tf.float32) -> list[list[Any]]:
    towers = []
    for k in range(num_towers):
        with tf.device(f"/device:GPU:{k}"):
            towers.append([tf.fill([3], tf.cast(k + n, dtype)) for n in range(num_grads)])
    return towers


def _sum_copies(tensors: Sequence[Any], *, error: float = 0.0) -> list[Any]:
    """Do what NCCL does, with an error in the second tower's sum."""
    sums = []
    for k, tensor in enumerate(tensors):
        with tf.device(tensor.device):
            sums.append(tf.add_n(list(tensors)) + (error if k == 1 else 0.0))
    return sums


def _softly_placed_session() -> Any:
    return tf.Session(config=tf.ConfigProto(allow_soft_placement=True))


def test_each_gpu_runs_one_operation_for_each_gradient_in_one_order(graph: Any) -> None:
    reduced = NcclReducer().reduce(_gpu_towers(4))
    assert [[grad.device for grad in tower] for tower in reduced] == [[f"/device:GPU:{k}"] * 2 for k in range(4)]
    ops = [op for op in graph.get_operations() if op.type == "NcclAllReduce" and "self_check" not in op.name]
    assert [op.device for op in ops] == [f"/device:GPU:{k}" for k in range(4)] * 2
    assert len({op.get_attr("shared_name") for op in ops}) == 2
    barriers = {before for op in ops[4:] for before in op.control_inputs}
    assert len(barriers) == 1
    assert set(barriers.pop().control_inputs) == set(ops[:4])


def test_sums_and_means(graph: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nccl, "nccl_all_sum", _sum_copies)
    reducer = NcclReducer()
    means = reducer.reduce(_gpu_towers(3))
    assert reducer.reduce([[], []]) == [[], []]
    with _softly_placed_session() as session:
        assert np.array_equal(session.run(means), [[[1.0] * 3, [2.0] * 3]] * 3)
        reducer.self_check(session)


def test_self_check_finds_a_wrong_sum(graph: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nccl, "nccl_all_sum", lambda tensors: _sum_copies(tensors, error=1.0))
    reducer = NcclReducer()
    reducer.reduce(_gpu_towers(3))
    with (
        _softly_placed_session() as session,
        pytest.raises(ReductionError, match=r"wrong sum in the towers \[1\] of 3; use RoundRobinReducer"),
    ):
        reducer.self_check(session)


def test_self_check_wants_a_reduction(session8: Any) -> None:
    with pytest.raises(ReductionError, match="nothing to check"):
        NcclReducer().self_check(session8)


def test_cpu_devices_are_refused(graph: Any) -> None:
    grads = dense_towers([[np.float32(1)]] * 2)
    num_ops = len(graph.get_operations())
    with pytest.raises(ReductionError, match="on /device:CPU:0, /device:CPU:1: expected a GPU of its own"):
        NcclReducer().reduce(grads)
    assert len(graph.get_operations()) == num_ops


def test_two_towers_on_one_gpu_or_unplaced_are_refused(graph: Any) -> None:
    towers = _gpu_towers(2)
    with pytest.raises(ReductionError, match="on /device:GPU:0, /device:GPU:0: expected"):
        NcclReducer().reduce([towers[0], towers[0]])
    with pytest.raises(ReductionError, match=r"on /device:GPU:0, \(not placed\): expected"):
        NcclReducer().reduce([towers[0], [tf.ones([3]), tf.ones([3])]])


def test_other_dtypes_are_refused(graph: Any) -> None:
    with pytest.raises(ReductionError, match="NcclReducer got .* of bfloat16: expected one of float16, "):
        NcclReducer().reduce(_gpu_towers(2, dtype=tf.bfloat16))


def test_sparse_gradients_need_no_nccl(graph: Any) -> None:
    NcclReducer().reduce([[slices([[1.0]], [0], f"/device:GPU:{k}")] for k in range(2)])
    assert not [op for op in graph.get_operations() if op.type == "NcclAllReduce"]
