import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.adasum_oracle import adasum
from tests.helpers.partition_graphs import placed_devices
from tests.helpers.reduction_checks import assert_refused
from tests.helpers.tower_grads import cpu_devices, dense_towers, run, slices, source
from tpack.errors import ReductionError
from tpack.reduction.algorithms.adasum import AdasumReducer, adasum_pair, check_has_angle
from tpack.reduction.base import ReduceOp
from tpack.reduction.wrappers.splitting import SplitBySizeReducer


def reduced(session, towers, op=ReduceOp.MEAN):
    """Return what all towers get of float64 gradients, after a check that they get the same."""
    first, *others = run(session, AdasumReducer().reduce(dense_towers(towers), op))
    for other in others:
        assert all(np.array_equal(*pair, equal_nan=True) for pair in zip(first, other, strict=True))
    return first


@pytest.mark.parametrize("op", list(ReduceOp))
def test_parallel_gradients_give_their_mean_and_orthogonal_ones_their_sum(session8, op):
    base = np.array([1.0, -2.0, 0.5, 4.0])
    parallel = [base, 2 * base]
    orthogonal = [np.array([1.0, 2.0, 0.0, 0.0]), np.array([0.0, 0.0, 3.0, -5.0])]
    got = reduced(session8, [list(pair) for pair in zip(parallel, orthogonal, strict=True)], op)
    assert np.array_equal(got[0], 1.5 * base)
    assert np.array_equal(got[1], [1.0, 2.0, 3.0, -5.0])


@pytest.mark.parametrize("num_towers", [2, 3, 4, 8])
def test_gradients_that_are_the_same_stay_as_they_are(session8, rng, num_towers):
    same = [rng.standard_normal((5, 3)), np.float64(0.3), np.zeros((0, 2))]
    got = reduced(session8, [same] * num_towers)
    assert all(np.array_equal(*pair) for pair in zip(got, same, strict=True))


@pytest.mark.parametrize("num_towers", [2, 3, 4, 5, 6, 7, 8])
def test_each_gradient_goes_up_the_tree_of_pairs(session8, rng, num_towers):
    towers = [[rng.standard_normal(shape) for shape in [(7,), (), (64, 9)]] for _ in range(num_towers)]
    for n, got in enumerate(reduced(session8, towers)):
        np.testing.assert_allclose(got, adasum([tower[n] for tower in towers]), rtol=1e-12)


def test_two_towers_may_be_exchanged(session8, rng):
    one, other = ([rng.standard_normal(1000).astype(np.float32)] for _ in range(2))
    (there,), (back,) = (reduced(session8, towers) for towers in ([one, other], [other, one]))
    assert np.array_equal(there, back)


@pytest.mark.parametrize("dtype", [tf.float16, tf.float32, tf.float64])
def test_zeros_change_nothing(session8, dtype):
    values = [[0.0, 0.0], [3.0, -1.0], [0.0, 0.0], [0.0, 0.0]]
    grads = [[source(v, device, dtype=dtype)] for v, device in zip(values, cpu_devices(4), strict=True)]
    for tower in run(session8, AdasumReducer().reduce(grads)):
        assert np.array_equal(tower[0], np.array([3.0, -1.0], dtype.as_numpy_dtype))


@pytest.mark.parametrize("dtype", [tf.float16, tf.bfloat16])
def test_16_bit_gradients_have_products_beyond_their_range(session8, dtype):
    """The square of their length is 16 million, where float16 ends at 65504."""
    values = [np.full(4000, 64.0), np.full(4000, 64.0), np.full(4000, 128.0)]
    grads = [[source(v, device, dtype=dtype)] for v, device in zip(values, cpu_devices(3), strict=True)]
    got = run(session8, AdasumReducer().reduce(grads))[2][0]
    assert got.dtype == dtype.as_numpy_dtype
    assert np.array_equal(got.astype(np.float64), np.full(4000, 96.0))


def test_what_is_not_finite_is_never_hidden(session8):
    towers = [[np.zeros(2), np.ones(2)], [np.array([1.0, np.nan]), np.array([np.inf, 1.0])]]
    assert all(not np.isfinite(got).all() for got in reduced(session8, towers))


def test_sparse_gradients_become_dense(session8):
    rows = [([[1.0, 2.0], [3.0, 0.0]], [1, 1]), ([[2.0, -4.0]], [2])]
    grads = [
        [slices(values, indices, device, rows=4), source(1.0, device)]
        for (values, indices), device in zip(rows, cpu_devices(2), strict=True)
    ]
    got = run(session8, AdasumReducer().reduce(grads))
    for tower in got:
        assert np.array_equal(tower[0], [[0, 0], [4, 2], [2, -4], [0, 0]])
    inside = SplitBySizeReducer([(AdasumReducer(), -1)]).reduce([tower[:1] for tower in grads])
    assert np.array_equal(session8.run(inside)[1][0], got[1][0])


def test_pairs_are_combined_side_by_side_on_turning_devices(rng, session8):
    values = [[rng.standard_normal(3), rng.standard_normal(3)] for _ in range(4)]
    out = AdasumReducer().reduce(dense_towers(values))
    run(session8, out)
    placed = placed_devices(session8, out)
    sums = [placed[op.name] for op in session8.graph.get_operations() if op.type == "AddV2"]
    assert sums == [f"/device:CPU:{k}" for k in (0, 2, 0, 1, 3, 1)]


def test_towers_without_devices_are_served(graph, session8):
    out = AdasumReducer().reduce([[tf.constant([1.0, 1.0])], [tf.constant([3.0, 3.0])]])
    assert np.array_equal(session8.run(out)[1][0], [2.0, 2.0])


def test_what_has_no_angle_is_refused_before_the_graph_is_touched(graph):
    whole = dense_towers([[np.complex64(1)]] * 2)
    assert_refused(graph, AdasumReducer(), whole, "complex64: expected a floating-point type for Adasum")
    open_rows = [[slices([[1.0]], [0], device)] for device in cpu_devices(2)]
    assert_refused(graph, AdasumReducer(), open_rows, "expected a known shape, since Adasum makes them dense")
    with pytest.raises(ReductionError, match="Owner got .* of complex64"):
        check_has_angle("Owner", whole[0][0])


def test_a_pair_is_what_numpy_gives(session8, rng):
    a, b = rng.standard_normal((2, 50))
    np.testing.assert_allclose(session8.run(adasum_pair(tf.constant(a), tf.constant(b))), adasum([a, b]), rtol=1e-12)
