from typing import Any

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.tower_grads import dense_towers, slices, source
from tpack.errors import ReductionError
from tpack.reduction.algorithms.halving_doubling import HalvingDoublingReducer
from tpack.reduction.algorithms.one_device import IdentityReducer, OneDeviceReducer
from tpack.reduction.algorithms.ring import RingReducer
from tpack.reduction.autotune.measure import Traffic, count_traffic


def test_one_device_receives_from_all_and_sends_to_all(graph: Any) -> None:
    grads = dense_towers([[np.ones((5, 2), np.float32)]] * 4)
    report = count_traffic(grads, OneDeviceReducer().reduce(grads))
    others = {f"/device:CPU:{k}": Traffic(received=40, sent=40) for k in (1, 2, 3)}
    assert report.devices == {"/device:CPU:0": Traffic(received=120, sent=120), **others}
    assert (report.num_transfers, report.chain_length, report.bytes_moved) == (6, 2, 120)


def test_a_tensor_that_several_operations_read_travels_once(graph: Any) -> None:
    grad = source(np.ones(3, np.float32), "/device:CPU:0")
    with tf.device("/device:CPU:1"):
        reduced = [tf.identity(grad), tf.negative(grad)]
    report = count_traffic([[grad]], [reduced])
    assert report.devices["/device:CPU:1"] == Traffic(received=12)


def test_nothing_moves_where_nothing_is_reduced(graph: Any) -> None:
    grads = dense_towers([[np.ones(3, np.float32)]] * 2)
    report = count_traffic(grads, IdentityReducer().reduce(grads))
    assert (report.devices, report.num_transfers, report.chain_length, report.bytes_moved) == ({}, 0, 0, 0)


def test_sparse_gradients_count_with_values_and_indices(graph: Any) -> None:
    grads = [[slices([[1.0, 2.0]], [0], f"/device:CPU:{k}")] for k in range(2)]
    report = count_traffic(grads, OneDeviceReducer().reduce(grads))
    assert report.devices["/device:CPU:0"] == Traffic(received=8 + 8, sent=2 * (8 + 8))


@pytest.mark.parametrize("reducer", [RingReducer(), HalvingDoublingReducer()], ids=lambda reducer: reducer.name)
def test_as_many_tensors_move_as_in_a_run(reducer: Any, session8: Any) -> None:
    grads = dense_towers([[np.ones(16, np.float32)]] * 4)
    reduced = reducer.reduce(grads)
    session8.run(tf.global_variables_initializer())
    metadata = tf.RunMetadata()
    # The operations and not their values, which would travel to the caller.
    targets = [grad.op for tower in reduced for grad in tower]
    session8.run(targets, options=tf.RunOptions(output_partition_graphs=True), run_metadata=metadata)
    received = [node for graph in metadata.partition_graphs for node in graph.node if node.op == "_Recv"]
    assert len(received) == count_traffic(grads, reduced).num_transfers


def test_an_unknown_shape_is_refused(graph: Any) -> None:
    grads = [[source(np.ones(3), f"/device:CPU:{k}", static_shape=[None])] for k in range(2)]
    reduced = OneDeviceReducer().reduce(grads)
    with pytest.raises(ReductionError, match=r"count_traffic got .* of shape \(None,\): expected known shapes"):
        count_traffic(grads, reduced)
