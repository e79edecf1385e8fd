"""The functions of tensorpack scripts: arguments, shapes and results."""

from typing import Any

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.partition_graphs import run_with_devices
from tests.helpers.tower_grads import cpu_devices, dense_towers, random_towers, run
from tpack.errors import ConfigError, ReductionError
from tpack.reduction.functions import (
    aggregate_grads_colocate,
    allreduce_grads,
    allreduce_grads_hierarchical,
    allreduce_grads_naive,
    merge_grad_list,
    split_grad_list,
)

SHAPES = [(3, 4), (5,), ()]


def _expected(values: Any, average: bool) -> list[Any]:
    return [sum(tower[n] for tower in values) / (len(values) if average else 1) for n in range(len(values[0]))]


def _assert_close(got: Any, wanted: Any) -> None:
    assert len(got) == len(wanted)
    for pair in zip(got, wanted, strict=True):
        np.testing.assert_allclose(*pair, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("mode", ["collective", "cpu", "gpu", "one_device", "round_robin", "hierarchical"])
@pytest.mark.parametrize("average", [True, False])
def test_allreduce_grads_gives_every_device_the_result(mode: str, average: bool, rng: Any, session8: Any) -> None:
    values = random_towers(rng, 4, SHAPES)
    reduced = allreduce_grads(dense_towers(values), average, mode=mode)
    session8.run(tf.global_variables_initializer())
    got, placed = run_with_devices(session8, reduced)
    assert len(got) == 4
    for k, tower in enumerate(got):
        _assert_close(tower, _expected(values, average))
        assert {placed[grad.op.name] for grad in reduced[k]} == {f"/device:CPU:{k}"}


def test_allreduce_grads_means_nccl_by_default(graph: Any) -> None:
    with pytest.raises(ReductionError, match="NCCL needs each tower's gradient on a GPU"):
        allreduce_grads(dense_towers([[np.float32(1)]] * 2), True)
    with pytest.raises(ConfigError, match="got 'mpi'"):
        allreduce_grads(dense_towers([[np.float32(1)]] * 2), True, "mpi")


def test_functions_return_one_towers_gradients_as_they_are(graph: Any) -> None:
    grads = [[tf.constant(1.0), None]]
    assert allreduce_grads(grads, True) is grads
    assert allreduce_grads_naive(grads) is grads[0]
    pairs = [[(tf.constant(1.0), object())]]
    assert aggregate_grads_colocate(pairs) is pairs[0]


@pytest.mark.parametrize("average", [True, False])
def test_allreduce_grads_hierarchical_takes_eight_devices(average: bool, rng: Any, session8: Any) -> None:
    values = random_towers(rng, 8, SHAPES)
    reduced = allreduce_grads_hierarchical(dense_towers(values), cpu_devices(8), average=average)
    for tower in run(session8, reduced):
        _assert_close(tower, _expected(values, average))


def test_allreduce_grads_hierarchical_sums_by_default_and_checks_its_devices(graph: Any) -> None:
    grads = dense_towers([[np.float32(1)]] * 4)
    assert allreduce_grads_hierarchical(grads, cpu_devices(4))[0][0].op.inputs[0].op.type in ("AddN", "Identity")
    with pytest.raises(ReductionError, match="even number from 4 up, got 3"):
        allreduce_grads_hierarchical(grads, cpu_devices(3))


@pytest.mark.parametrize("devices", [None, ["/cpu:2", "/gpu:5"]])
@pytest.mark.parametrize("average", [True, False])
def test_allreduce_grads_naive_returns_one_list(devices: Any, average: bool, rng: Any, session8: Any) -> None:
    values = random_towers(rng, 3, SHAPES)
    with tf.device("/device:CPU:7"):
        reduced = allreduce_grads_naive(dense_towers(values), devices, average)
    session8.run(tf.global_variables_initializer())
    got, placed = run_with_devices(session8, reduced)
    _assert_close(got, _expected(values, average))
    wanted = [7, 7, 7] if devices is None else [2, 5, 2]
    assert [placed[grad.op.name] for grad in reduced] == [f"/device:CPU:{k}" for k in wanted]


@pytest.mark.parametrize("devices", [[], "/cpu:0"])
def test_allreduce_grads_naive_wants_a_list_of_devices(devices: Any, graph: Any) -> None:
    with pytest.raises(ReductionError, match="wanted a list of devices"):
        allreduce_grads_naive(dense_towers([[np.float32(1)]] * 2), devices)


@pytest.mark.parametrize(("average", "factor"), [(True, 1.0), (False, 3.0)])
def test_aggregate_grads_colocate_sums_where_the_variable_is(average: bool, factor: float, session8: Any) -> None:
    with tf.device("/device:CPU:6"):
        variable = tf.get_variable("v", [], use_resource=True)
    grads = dense_towers([[np.float32(k)] for k in range(3)])
    ((grad, got),) = aggregate_grads_colocate([[(tower[0], variable)] for tower in grads], average)
    assert got is variable
    assert grad.device == "/device:CPU:6"
    assert run(session8, grad) == factor


def test_split_and_merge_are_inverse() -> None:
    pairs = [[("g00", "v00"), ("g01", "v01")], [("g10", "v10"), ("g11", "v11")]]
    grads, variables = split_grad_list(pairs)
    assert grads == [["g00", "g01"], ["g10", "g11"]]
    assert variables == [["v00", "v01"], ["v10", "v11"]]
    assert merge_grad_list(grads, variables) == pairs


def test_split_and_merge_refuse_other_shapes() -> None:
    with pytest.raises(ReductionError, match=r"entry 1 of tower 0 is \('a',\): wanted a \(gradient, variable\) pair"):
        split_grad_list([[("a", "b"), ("a",)]])  # type: ignore[list-item]
    with pytest.raises(ReductionError, match=r"got \[2\] gradients and \[1\] variables"):
        merge_grad_list([["a", "b"]], [["c"]])
