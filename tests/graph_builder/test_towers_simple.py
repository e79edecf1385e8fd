import tensorflow.compat.v1 as tf

from tests.helpers.builders import build, grad_fn, places_of
from tpack.graph_builder.towers import SimpleBuilder


def test_the_one_tower_has_no_name_scope(graph):
    result = build(SimpleBuilder())
    [tower] = result.towers
    assert tower.name == ""
    assert graph.get_tensor_by_name("cost:0") is not None
    assert result.train_op.name == "train_op"
    assert (result.init_op, result.sync_op) == (None, None)


def test_a_device_is_used_for_everything(graph):
    places = places_of(SimpleBuilder("/gpu:2"))
    assert {"a", "a/Momentum", "gradients/cost_grad/Reshape"} & set(places)
    assert set(places.values()) == {"/device:CPU:2"}


def test_without_a_device_placement_is_left_alone(graph):
    builder = SimpleBuilder()
    builder.build(grad_fn, lambda: tf.train.GradientDescentOptimizer(0.1))
    assert builder.devices == ("",)
    assert graph.get_tensor_by_name("cost:0").device == ""
