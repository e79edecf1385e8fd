"""What a call builds is what was there not before, and what cannot be told from tower to tower is refused."""

import pytest
import tensorflow.compat.v1 as tf

from tpack.graph_copy.capture import NotReplicable, RegionRecorder, check_copyable, device_here, tensor_leaves
from tpack.graph_copy.nodes import external_inputs
from tpack.tower.context import TrainTowerContext


def test_a_region_holds_what_was_built_since(graph):
    before = tf.constant(1.0, name="before")
    with TrainTowerContext("tower0", device="/device:CPU:0") as tower:
        recorder = RegionRecorder(tower)
        variable = tf.get_variable("w", [])
        total = tf.add(before, variable, name="total")
        tf.add_to_collection("mine", total)
        region = recorder.finish((before,), total)
    assert total in region
    assert before not in region
    assert external_inputs([*region.nodes.values()]) == ["before"]
    assert region.variables == [("w", variable)]
    assert region.stored == {"w": variable}
    assert region.collections["mine"] == [total]
    assert region.names["tower0/total"] == 1
    assert region.device == "/device:CPU:0"


def test_a_collection_that_was_changed_is_refused(graph):
    tf.add_to_collection("mine", 1)
    with TrainTowerContext("tower0") as tower:
        recorder = RegionRecorder(tower)
        tf.get_collection_ref("mine").clear()
        with pytest.raises(NotReplicable, match="'mine'"):
            recorder.finish((), None)


def test_devices_that_a_function_chooses_are_refused_unless_it_tells(graph):
    with pytest.raises(NotReplicable, match="function"):
        device_here(TrainTowerContext("tower0", device=lambda op: "/device:CPU:0"))
    assert device_here(TrainTowerContext("tower0")) == ""
    with tf.device("/job:worker/task:1"), TrainTowerContext("tower0", device="/device:CPU:3") as tower:
        assert device_here(tower) == tf.ones([]).device == "/job:worker/task:1/device:CPU:3"


def test_tensors_of_slices_are_found_and_other_objects_refused(graph):
    slices = tf.IndexedSlices(tf.zeros([1]), tf.constant([0]))
    assert tensor_leaves({"a": slices, "b": 3}) == [slices.values, slices.indices]
    check_copyable([slices, None, 3, "text"], "it returns")
    with pytest.raises(NotReplicable, match="it returns a object"):
        check_copyable([object()], "it returns")
