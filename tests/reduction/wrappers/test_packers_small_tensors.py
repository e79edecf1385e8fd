from typing import Any

import pytest
import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError
from tpack.reduction.algorithms.one_device import RoundRobinReducer
from tpack.reduction.wrappers.packers import AggregateSmallTensorPacker, AggregateSmallTensorPackingReducer


def _packed(grads: list[Any], *limits: int) -> list[Any]:
    """Return the shapes of the packs, and the shape and the variable of what is left alone."""
    packs = AggregateSmallTensorPacker(*limits).pack([[(grad, f"v{n}") for n, grad in enumerate(grads)]])
    return [(pack.shape.as_list(), variable) if variable else pack.shape.as_list() for pack, variable in packs[0]]


def test_runs_of_small_tensors_are_joined_in_their_place(graph: Any) -> None:
    grads = [tf.ones([2, 2]), tf.ones([5]), tf.ones([]), tf.ones([3]), tf.ones([9]), tf.ones([4])]
    assert _packed(grads, 16, 9) == [([2, 2], "v0"), ([5], "v1"), [4], ([9], "v4"), ([4], "v5")]


def test_a_run_ends_at_the_largest_group(graph: Any) -> None:
    assert _packed([tf.ones([1])] * 5, 16, 2) == [[2], [2], ([1], "v4")]
    assert _packed([tf.ones([1])] * 2, 16, 1) == [([1], "v0"), ([1], "v1")]


def test_a_run_ends_at_another_dtype_or_an_unknown_shape(graph: Any) -> None:
    hidden = tf.placeholder(tf.float32, [None])
    grads = [tf.ones([1]), tf.ones([2]), tf.ones([3], tf.float16), tf.ones([4], tf.float16), hidden, hidden]
    assert _packed(grads) == [[3], [7], ([None], "v4"), ([None], "v5")]


def test_empty_tensors_and_scalars_are_small(graph: Any) -> None:
    assert _packed([tf.ones([0, 3]), tf.ones([]), tf.ones([0])], 4, 16) == [[1]]
    assert _packed([]) == []


def test_the_defaults_are_the_seeds(graph: Any) -> None:
    limit = 1048576 // 4
    assert _packed([tf.ones([limit]), tf.ones([1]), tf.ones([limit + 1])]) == [[limit + 1], ([limit + 1], "v2")]
    assert _packed([tf.ones([])] * 17) == [[16], ([], "v16")]


@pytest.mark.parametrize(("limits", "got"), [((0, 1), "0 and 1"), ((1, 0), "1 and 0")])
def test_limits_are_checked(limits: tuple[int, int], got: str) -> None:
    with pytest.raises(ConfigError, match=f"agg_small_grads_max_group of 1 or more, got {got}"):
        AggregateSmallTensorPacker(*limits)
    with pytest.raises(ConfigError, match=f"got {got}"):
        AggregateSmallTensorPackingReducer(RoundRobinReducer(), *limits)
