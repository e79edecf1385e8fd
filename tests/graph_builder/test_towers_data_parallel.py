import pytest
import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError
from tpack.graph_builder.towers import DataParallelBuilder
from tpack.tower.devices import LeastLoadedDeviceSetter


def output():
    return tf.get_variable("w", []) + 1


def test_gpus_are_cpu_devices_where_there_is_no_gpu(graph):
    outputs = DataParallelBuilder.call_for_each_tower([0, 3], output)
    assert [out.device for out in outputs] == ["/device:CPU:0", "/device:CPU:3"]


def test_devices_may_be_names_or_functions(graph):
    devices = ["/gpu:1", LeastLoadedDeviceSetter("/gpu:2", ["/gpu:0"])]
    outputs = DataParallelBuilder.build_on_towers([0, 1], output, devices)
    assert [out.device for out in outputs] == ["/device:CPU:1", "/device:CPU:2"]


def test_use_vs_gives_towers_their_own_variables(graph):
    DataParallelBuilder.call_for_each_tower([0, 1], output, use_vs=[False, True])
    assert [variable.op.name for variable in tf.trainable_variables() + tf.local_variables()] == ["w", "tower1/w"]


def test_lists_of_different_lengths_are_an_error(graph):
    with pytest.raises(ConfigError, match="got 2 towers, 1 devices and 2 use_vs flags"):
        DataParallelBuilder.call_for_each_tower([0, 1], output, ["/gpu:0"])
