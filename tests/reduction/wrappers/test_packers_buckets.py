from typing import Any

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.tower_grads import cpu_devices, dense_towers, run, slices, source
from tpack.errors import ConfigError, ReductionError
from tpack.reduction.algorithms.collective import CollectiveReducer
from tpack.reduction.algorithms.composite import HierarchicalReducer
from tpack.reduction.algorithms.one_device import OneDeviceReducer, RoundRobinReducer
from tpack.reduction.base import ReduceOp, Reducer
from tpack.reduction.wrappers.packers import BucketPacker, BucketReducer, last_created_first


def _packed(grads: list[Any], bucket_bytes: int, **settings: Any) -> list[Any]:
    packs = BucketPacker(bucket_bytes, **settings).pack([[(grad, f"v{n}") for n, grad in enumerate(grads)]])
    return [(pack.shape.as_list(), variable) if variable else pack.shape.as_list() for pack, variable in packs[0]]


def test_buckets_are_filled_from_the_last_gradient_on(graph: Any) -> None:
    grads = [tf.ones([n]) for n in (1, 2, 3, 4, 5)]
    assert _packed(grads, 36) == [[6], [9]]
    assert _packed(grads, 20) == [([1], "v0"), [5], ([4], "v3"), ([5], "v4")]
    assert _packed(grads, 1000) == [[15]]
    assert _packed([], 1000) == []


def test_a_gradient_is_never_cut(graph: Any) -> None:
    assert _packed([tf.ones([1]), tf.ones([100]), tf.ones([1]), tf.ones([])], 16) == [([1], "v0"), ([100], "v1"), [2]]


def test_a_gradient_of_unknown_size_is_alone(graph: Any) -> None:
    grads = [tf.ones([1]), tf.ones([1]), tf.placeholder(tf.float32, [None]), tf.ones([1])]
    assert _packed(grads, 16) == [[2], ([None], "v2"), ([1], "v3")]


def test_other_dtypes_in_between_do_not_end_a_bucket(graph: Any) -> None:
    grads = [tf.ones([n], tf.float16 if n % 2 else tf.float32) for n in (1, 2, 3, 4, 5)]
    # That of float32 (4 and 2) is ready before that of float16 (5, 3 and 1).
    assert _packed(grads, 1000) == [[9], [6]]


def test_members_are_in_the_given_order(session8: Any) -> None:
    grads = [source(float(n), "") for n in range(4)]
    packer = BucketPacker(32, lambda grads: [2, 0, 3, 1])
    ((pack, _),) = packer.pack([[(grad, None) for grad in grads]])[0]
    assert run(session8, pack).tolist() == [2.0, 0.0, 3.0, 1.0]
    assert session8.run([grad for grad, _ in packer.unpack([[(pack, None)]])[0]]) == [0.0, 1.0, 2.0, 3.0]


def test_settings_are_checked(graph: Any) -> None:
    with pytest.raises(ConfigError, match="^BucketPacker got bucket_bytes="):
        BucketReducer(RoundRobinReducer(), 0)
    reducer = BucketReducer(RoundRobinReducer(), 9, ready_order=lambda grads: [0, 0])
    with pytest.raises(ReductionError, match=r"ready_order returned \[0, 0\]: expected 2 gradients, each once"):
        reducer.reduce(dense_towers([[np.float32(1), np.float32(2)]] * 2))


def _backward_pass(num_towers: int, num_layers: int, used: list[int]) -> list[list[Any]]:
    """Return the gradients of a chain of layers in each tower, in the order of their creation."""
    grads = []
    for device in cpu_devices(num_towers):
        weights = [source(np.eye(4) + n, device, dtype=tf.float32) for n in range(num_layers)]
        with tf.device(device):
            hidden = tf.ones([2, 4])
            for n in used:
                hidden = tf.tanh(hidden @ weights[n])
            grads.append(tf.gradients(hidden, weights))
    return grads


def _needed(tensor: Any) -> set[str]:
    """Return the names of all operations that must run before ``tensor`` is there."""
    needed: set[str] = set()
    stack = [tensor.op]
    while stack:
        op = stack.pop()
        if op.name not in needed:
            needed.add(op.name)
            stack += [*(value.op for value in op.inputs), *op.control_inputs]
    return needed


INNER = [OneDeviceReducer(), RoundRobinReducer(), HierarchicalReducer()]


@pytest.mark.parametrize("inner", INNER, ids=lambda inner: inner.name)
@pytest.mark.parametrize(
    ("used", "ready_order"), [([0, 1, 2, 3, 4, 5], None), ([4, 2, 0, 5, 1, 3], lambda grads: [3, 1, 5, 0, 2, 4])]
)
def test_a_bucket_waits_for_its_own_gradients_only(
    inner: Reducer, used: list[int], ready_order: Any, graph: Any
) -> None:
    grads = _backward_pass(4, 6, used)
    settings = {} if ready_order is None else {"ready_order": ready_order}
    # Two gradients of 64 bytes each fill a bucket.
    reduced = BucketReducer(inner, 128, **settings).reduce(grads, ReduceOp.SUM)
    ready = used[::-1]
    for b in range(3):
        members = ready[2 * b : 2 * b + 2]
        for n in members:
            needed = _needed(reduced[3][n])
            assert all(grads[k][m].op.name in needed for k in range(4) for m in members)
            later = [grads[k][m].op.name for k in range(4) for m in ready[2 * b + 2 :]]
            assert needed.isdisjoint(later)


def test_collective_operations_begin_with_the_bucket_that_is_ready_first(graph: Any) -> None:
    grads = _backward_pass(2, 6, list(range(6)))
    reduced = BucketReducer(CollectiveReducer(), 128).reduce(grads)
    for b, n in enumerate((5, 3, 1)):
        launches = [name for name in _needed(reduced[0][n]) if "CollectiveReduce" in name]
        assert len(launches) == 2 * (b + 1)
        assert _needed(reduced[0][n]).isdisjoint(grads[0][m].op.name for m in range(n - 1))


def test_the_results_are_the_sums(rng: Any, session8: Any) -> None:
    values = [[rng.standard_normal(n).astype(np.float32) for n in (3, 4, 1, 9)] for _ in range(3)]
    grads = dense_towers(values)
    for k, tower in enumerate(grads):
        tower.insert(2, slices([[1.0]], [k], f"/device:CPU:{k}"))
    reduced = run(session8, BucketReducer(RoundRobinReducer(), 24).reduce(grads))
    for tower in reduced:
        assert tower.pop(2).indices.tolist() == [0, 1, 2]
        for n, got in enumerate(tower):
            np.testing.assert_allclose(got, np.mean([own[n] for own in values], axis=0), rtol=1e-5, atol=1e-6)


def test_last_created_first_reverses() -> None:
    assert last_created_first("abc") == [2, 1, 0]
    assert last_created_first([]) == []
