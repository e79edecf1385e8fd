from typing import Any

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.device_values import dense_of, per_device, start
from tests.helpers.tower_grads import slices, source
from tpack.distribute.cross_tower_ops import copy_to_device, gather_contributions
from tpack.distribute.values import MapOutput, PerDevice
from tpack.errors import ConfigError


def test_tensors_on_their_devices_are_taken_as_they_are(graph: Any) -> None:
    value = per_device([np.float32(1), np.float32(2)])
    before = len(graph.get_operations())
    contributions = gather_contributions(value)
    assert contributions.by_device == {device: value.get(device) for device in value.devices}
    assert contributions.num_values == 2
    assert contributions.is_plain
    assert len(graph.get_operations()) == before


def test_what_is_elsewhere_is_brought_to_the_device(session8: Any) -> None:
    with tf.device("/cpu:3"):
        variable = tf.Variable([5.0], use_resource=True)
    elsewhere = source(np.float32([1]), "/device:CPU:7")
    value = PerDevice({"/device:CPU:0": elsewhere, "/device:CPU:1": variable, "/device:CPU:2": [2.5]})
    contributions = gather_contributions(value)
    assert {key: tensor.device for key, tensor in contributions.by_device.items()} == {k: k for k in value.devices}
    assert start(session8).run(list(contributions.by_device.values())) == [[1.0], [5.0], [2.5]]


def test_parts_of_one_device_are_summed_there(session8: Any) -> None:
    on_0 = MapOutput([source(np.float32(k), "/device:CPU:0") for k in (1, 2, 4)])
    value = PerDevice({"/device:CPU:0": on_0, "/device:CPU:1": MapOutput([]), "/device:CPU:2": tf.constant(8.0)})
    contributions = gather_contributions(value)
    assert contributions.num_values == 4
    assert not contributions.is_plain
    assert list(contributions.by_device) == ["/device:CPU:0", "/device:CPU:2"]
    assert contributions.by_device["/device:CPU:0"].device == "/device:CPU:0"
    assert start(session8).run(list(contributions.by_device.values())) == [7.0, 8.0]


def test_nothing_on_any_device_is_refused(graph: Any) -> None:
    with pytest.raises(ConfigError, match="expected a value that is not empty on every device"):
        gather_contributions(PerDevice({"/device:CPU:0": MapOutput([])}))


def test_slices_may_have_lists_of_indices(session8: Any) -> None:
    value = PerDevice({f"/cpu:{k}": tf.IndexedSlices(tf.ones([1, 1]), [k], [3, 1]) for k in range(2)})
    parts = gather_contributions(value).by_device
    assert [part.shape.as_list() for part in parts.values()] == [[3, 1]] * 2
    assert [session8.run(part).indices.tolist() for part in parts.values()] == [[0], [1]]


@pytest.mark.parametrize("part", [None, object(), tf.no_op], ids=["None", "object", "function"])
def test_what_is_no_tensor_is_refused(part: Any, graph: Any) -> None:
    with pytest.raises(ConfigError, match="got .*: expected a tensor, IndexedSlices, a variable or a number"):
        gather_contributions(PerDevice({"/device:CPU:0": tf.zeros([]), "/device:CPU:1": part}))


@pytest.mark.parametrize("rows", [None, 4])
def test_slices_are_copied_as_slices(rows: int | None, session8: Any) -> None:
    original = slices([[1.0], [2.0]], [3, 3], "/device:CPU:1", rows=rows)
    assert copy_to_device(original, "/device:CPU:1") is original
    copied = copy_to_device(original, "/device:CPU:2")
    assert copied.device == copied.indices.device == "/device:CPU:2"
    assert (copied.dense_shape is None) == (rows is None)
    assert dense_of(start(session8).run(copied), 4).tolist() == [[0], [0], [0], [3]]
