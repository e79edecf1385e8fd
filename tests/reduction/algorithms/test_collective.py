from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.reduction_checks import assert_refused
from tests.helpers.sessions import cpu_session
from tests.helpers.tower_grads import cpu_devices, dense_towers, random_towers, run, source
from tpack.errors import ConfigError, ReductionError
from tpack.reduction.algorithms.collective import CollectiveKeys, CollectiveReducer
from tpack.reduction.base import ReduceOp


def _collectives(graph: Any) -> list[Any]:
    return [op for op in graph.get_operations() if op.type == "CollectiveReduce"]


def test_keys_are_one_group_and_one_instance_for_each_gradient(graph: Any) -> None:
    for _ in range(2):
        CollectiveReducer().reduce(dense_towers([[np.float32(1), np.float32(2)]] * 3))
    CollectiveReducer().reduce(dense_towers([[np.float32(1)]] * 2))
    ops = _collectives(graph)
    assert len(ops) == 14
    assert len({op.get_attr("group_key") for op in ops[:12]}) == 1
    assert ops[12].get_attr("group_key") != ops[0].get_attr("group_key")
    instances = [op.get_attr("instance_key") for op in ops]
    assert [instances.count(key) for key in dict.fromkeys(instances)] == [3, 3, 3, 3, 2]


def test_keys_of_ones_own_are_used(graph: Any) -> None:
    keys = CollectiveKeys()
    for reducer in (CollectiveReducer(keys=keys), CollectiveReducer(keys=keys), CollectiveReducer()):
        reducer.reduce(dense_towers([[np.float32(1)]] * 2))
    instances = [op.get_attr("instance_key") for op in _collectives(graph)]
    assert instances[0] == instances[1] == instances[2] - 1 == instances[3] - 1
    assert keys.next_instance_key() == instances[2] + 1


def test_settings_reach_the_operations(graph: Any) -> None:
    CollectiveReducer("ring", timeout_secs=7).reduce(dense_towers([[np.float32(1)]] * 2))
    op = _collectives(graph)[0]
    assert op.get_attr("communication_hint") == b"ring"
    assert op.get_attr("timeout_seconds") == 7.0


def _shuffled_towers(rng: np.random.Generator, num_towers: int, num_grads: int) -> tuple[list[list[Any]], Any]:
    """Return gradients that become ready in another order in each tower, and their values."""
    values = random_towers(rng, num_towers, [(17, 3)] * num_grads)
    grads = []
    for device, tower in zip(cpu_devices(num_towers), values, strict=True):
        sources = [source(value, device) for value in tower]
        ready: dict[int, Any] = {}
        previous: list[Any] = []
        for n in rng.permutation(num_grads):
            with tf.control_dependencies(previous), tf.device(device):
                ready[n] = sources[n] + 0.0 * tf.reduce_sum(tf.random.uniform([40, 40]))
            previous = [ready[n]]
        grads.append([ready[n] for n in range(num_grads)])
    return grads, np.asarray(values)


@pytest.mark.parametrize("num_towers", range(2, 9))
def test_reduction_ends_on_one_thread_with_gradients_in_any_order(num_towers: int, rng: Any) -> None:
    with tf.Graph().as_default():
        grads, values = _shuffled_towers(rng, num_towers, 6)
        first = CollectiveReducer().reduce(grads, ReduceOp.SUM)
        second = CollectiveReducer().reduce([tower[::-1] for tower in grads], ReduceOp.SUM)
        config = tf.ConfigProto(
            device_count={"CPU": num_towers},
            inter_op_parallelism_threads=1,
            intra_op_parallelism_threads=1,
            use_per_session_threads=True,
        )
        with tf.Session(config=config) as session:
            session.run(tf.global_variables_initializer())
            for _ in range(10):
                got, reversed_got = session.run((first, second))
                for k in range(num_towers):
                    np.testing.assert_allclose(got[k], values.sum(axis=0), rtol=1e-5, atol=1e-5)
                    assert np.array_equal(reversed_got[k][::-1], got[k])


def test_fetching_one_gradient_of_one_tower_ends(session8: Any) -> None:
    reduced = CollectiveReducer().reduce(dense_towers([[np.float32(k), np.float32(2 * k)] for k in range(4)]))
    assert run(session8, reduced[2][0]) == 1.5
    assert session8.run(reduced[0][1]) == 3.0


def test_a_tower_that_fails_ends_the_run_and_a_new_session_works(session8: Any) -> None:
    fail = tf.placeholder(tf.float32, [])
    grads = dense_towers([[np.ones(5, np.float32)]] * 3)
    with tf.device("/device:CPU:2"):
        grads[2][0] = tf.check_numerics(grads[2][0] / fail, "not finite here")
    reduced = CollectiveReducer().reduce(grads)
    session8.run(tf.global_variables_initializer())
    with pytest.raises(tf.errors.InvalidArgumentError, match="not finite here"):
        session8.run(reduced, {fail: 0.0})
    with cpu_session() as session:
        session.run(tf.global_variables_initializer())
        assert np.array_equal(session.run(reduced, {fail: 1.0}), np.ones((3, 1, 5)))


def test_several_graphs_in_one_process(rng: Any) -> None:
    for size in (3, 4):
        with tf.Graph().as_default() as graph, cpu_session(graph) as session:
            values = random_towers(rng, 2, [(size,)])
            got = run(session, CollectiveReducer().reduce(dense_towers(values)))
            np.testing.assert_allclose(got[1][0], (values[0][0] + values[1][0]) / 2, rtol=1e-6)


@pytest.mark.parametrize(
    ("devices", "where"),
    [
        (["/device:CPU:0", "/cpu:0"], "/device:CPU:0, /device:CPU:0"),
        (["/device:CPU:0", ""], r"/device:CPU:0, \(not placed\)"),
    ],
)
def test_towers_must_be_on_different_devices(devices: list[str], where: str, graph: Any) -> None:
    grads = dense_towers([[np.float32(1)]] * 2, devices)
    message = f"CollectiveReducer got .* on {where}: expected a device of its own"
    assert_refused(graph, CollectiveReducer(), grads, message)


def test_other_dtypes_are_refused(graph: Any) -> None:
    with pytest.raises(ReductionError, match="of complex64: expected one of bfloat16, "):
        CollectiveReducer().reduce(dense_towers([[np.complex64(1)]] * 2))


def test_settings_are_checked() -> None:
    with pytest.raises(ConfigError, match="CollectiveReducer got hint='mpi': expected one of 'auto', 'ring', 'nccl'"):
        CollectiveReducer("mpi")
    with pytest.raises(ConfigError, match="CollectiveReducer got timeout_secs=-1: expected a number of at least 0"):
        CollectiveReducer(timeout_secs=-1)


def test_a_set_of_devices_has_one_key() -> None:
    keys = CollectiveKeys()
    key = keys.group_key(["/device:CPU:0", "/device:CPU:1"])
    assert keys.group_key(["/device:CPU:1", "/device:CPU:0"]) == key
    assert keys.group_key(["/device:CPU:0", "/device:CPU:2"]) != key
    assert keys.group_key(iter(["/device:CPU:0"])) not in (key, None)


def test_instance_keys_are_never_given_twice() -> None:
    keys = CollectiveKeys()
    with ThreadPoolExecutor(4) as pool:
        given = list(pool.map(lambda _: keys.next_instance_key(), range(400)))
    assert len(set(given)) == 400
    assert 0 < min(given) <= max(given) < 2**31
