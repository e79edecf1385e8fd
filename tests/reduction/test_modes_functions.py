from typing import Any

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.log_lines import captured_log
from tests.helpers.partition_graphs import run_with_devices
from tests.helpers.tower_grads import cpu_devices, dense_towers, random_towers, run, slices
from tpack.errors import ConfigError, ReductionError, WrongTypeError
from tpack.reduction import modes
from tpack.reduction.base import ReduceOp
from tpack.reduction.modes import (
    ColocatedReduction,
    aggregate_grads_colocate,
    allreduce_grads,
    allreduce_grads_hierarchical,
    allreduce_grads_naive,
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


def test_allreduce_grads_means_nccl_by_default(session8: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    with captured_log() as lines:
        reduced = allreduce_grads(dense_towers([[np.float32(1)], [np.float32(3)]]), True)
    assert "needs GPUs for NCCL, and there are none" in "".join(lines)
    session8.run(tf.global_variables_initializer())
    assert session8.run(reduced) == [[2.0], [2.0]]
    monkeypatch.setattr(modes, "list_gpus", lambda: ["/device:GPU:0"])
    with pytest.raises(ReductionError, match="NcclReducer got .*: expected a GPU of its own"):
        allreduce_grads(dense_towers([[np.float32(1)]] * 2), True)
    with pytest.raises(ConfigError, match="got mode='mpi'"):
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
    with pytest.raises(ReductionError, match="got 3 towers: expected an even number"):
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
    with pytest.raises((ReductionError, WrongTypeError), match="allreduce_grads_naive got devices="):
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


def _variables(*devices: str) -> list[Any]:
    variables = []
    for n, device in enumerate(devices):
        with tf.device(device):
            variables.append(tf.get_variable(f"v{n}", [2, 1], use_resource=True))
    return variables


@pytest.mark.parametrize(("op", "factor"), [(ReduceOp.SUM, 3), (ReduceOp.MEAN, 1)])
def test_results_are_on_the_devices_of_the_variables(op: ReduceOp, factor: int, session8: Any) -> None:
    variables = _variables("/device:CPU:6", "/device:CPU:4")
    grads = dense_towers([[np.full((2, 1), k, np.float32)] for k in range(3)])
    towers = [
        list(zip([*tower, slices([[1.0]], [k], f"/device:CPU:{k}", rows=2)], variables, strict=True))
        for k, tower in enumerate(grads)
    ]
    reduced = ColocatedReduction().reduce(towers, op)
    assert [variable for _, variable in reduced] == variables
    (dense, _), (sparse, _) = reduced
    run(session8, [dense, sparse])
    (dense_value, sparse_value), placed = run_with_devices(session8, [dense, sparse])
    assert dense_value.tolist() == [[factor * 1.0]] * 2
    assert sparse_value.indices.tolist() == [0, 1, 2]
    assert sparse_value.values.sum() == pytest.approx(factor)
    assert placed[dense.op.name] == "/device:CPU:6"
    assert placed[sparse.values.op.name] == "/device:CPU:4"


def test_one_tower_keeps_its_gradients(graph: Any) -> None:
    (variable,) = _variables("")
    grad = tf.ones([2, 1])
    assert ColocatedReduction().reduce([[(grad, variable)]]) == [(grad, variable)]
    assert ColocatedReduction().reduce([[], []]) == []


def test_towers_with_different_variables_are_refused(graph: Any) -> None:
    a, b = _variables("", "")
    grad = tf.ones([2, 1])
    with pytest.raises(ReductionError, match="variable 0 of tower 1 is v1:0, and that of tower 0 is v0:0"):
        ColocatedReduction().reduce([[(grad, a)], [(grad, b)]])


def test_bad_gradients_are_refused(graph: Any) -> None:
    (variable,) = _variables("")
    with pytest.raises(ReductionError, match="gradient 0 of tower 0 is None"):
        ColocatedReduction().reduce([[(None, variable)]])
