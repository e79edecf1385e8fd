"""How the second tower may differ from the first one, and how not."""

import pytest
import tensorflow.compat.v1 as tf

from tpack.graph_copy.capture import NotReplicable, RegionRecorder
from tpack.graph_copy.diff import compare
from tpack.tower.context import TrainTowerContext


def regions(func):
    """Return what a function of a tower's number builds in two towers."""
    made = []
    for index in range(2):
        options = {"index": index, "total": 3, "device": f"/device:CPU:{index}"}
        with TrainTowerContext(f"tower{index}", f"tower{index}" if index else "", **options) as tower:
            recorder = RegionRecorder(tower)
            made.append(recorder.finish((), func(index)))
    return made


def test_devices_seeds_and_texts_that_follow_the_tower_are_known(graph):
    tf.set_random_seed(1)

    def func(_):
        with tf.device("/device:CPU:5"):
            tf.constant(1.0, name="elsewhere")
        tf.summary.scalar("name", tf.random.uniform([], name="drawn"))

    likeness = compare(*regions(func))
    assert likeness.seeds == {"tower1/drawn/RandomUniform"}
    assert likeness.texts == {("tower1/name/tags", "value")}
    assert "tower1/elsewhere" not in likeness.own_device
    assert "tower1/drawn/RandomUniform" in likeness.own_device
    assert likeness.images["tower1/name"] == "tower0/name"


def test_the_first_tower_may_have_more(graph):
    def func(index):
        if index == 0:
            tf.constant(7.0, name="once")
        return tf.constant(1.0)

    assert len(compare(*regions(func)).images) == 1


def _on(device):
    with tf.device(device):
        return tf.constant(1.0)


@pytest.mark.parametrize(
    ("func", "message"),
    [
        (lambda k: tf.constant(1.0 + k), "value differs"),
        (lambda k: tf.constant(1.0, name=f"c{k}") if k else None, "there is none of its name"),
        (lambda k: tf.random.uniform([], seed=3 + k), "has a seed of its own, not from the graph"),
        (lambda k: tf.get_variable("v", [], initializer=tf.ones_initializer()) if k else None, "no counterpart"),
        (lambda k: _on(f"/device:CPU:{2 + k}"), "is on '/device:CPU:3'"),
        (lambda k: tf.stack([tf.constant(1.0), tf.constant(2.0)][:: 1 - 2 * k]), "as inputs"),
        (lambda k: tf.cond(tf.constant(True), lambda: 1.0 + k, lambda: 2.0), "then_branch differs"),
    ],
)
def test_what_differs_is_named(graph, func, message):
    with pytest.raises(NotReplicable, match=message):
        compare(*regions(func))
