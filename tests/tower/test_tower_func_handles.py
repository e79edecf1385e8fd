"""Looking up what a tower built."""

import pytest
import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError, TowerError
from tpack.tower.context import PredictTowerContext, TrainTowerContext
from tpack.tower.tower_func import TowerFunc, TowerHandles


def model(image):
    weight = tf.get_variable("w", [2], initializer=tf.ones_initializer())
    hidden = tf.multiply(image, weight, name="hidden")
    tf.split(hidden, 2, name="halves")
    cost = tf.reduce_sum(hidden, name="cost")
    tf.add_to_collection("things", cost)
    return cost


@pytest.fixture
def towers(graph):
    """Two training towers with variables of their own and a prediction tower on those of the second."""
    func = TowerFunc(model, [tf.TensorSpec([2], tf.float32, "image")])
    tf.constant(0, name="apart/constant")
    contexts = [
        TrainTowerContext("tower0", index=0, total=2, has_own_variables=True),
        TrainTowerContext("tower1", "tower1", index=1, total=2),
        PredictTowerContext("predict", "tower1", reuse=True),
    ]
    for context in contexts:
        with context:
            func(tf.placeholder(tf.float32, [2], name="fed"))
    return func.towers


def test_get_tensor_finds_the_tower_s_own_by_the_short_name(towers):
    for handle in towers:
        assert handle.get_tensor("hidden").name == f"{handle.name}/hidden:0"
        assert handle.get_tensor("hidden:0") is handle.get_tensor("hidden")
        assert handle.get_tensor("halves:1").name == f"{handle.name}/halves:1"
        assert handle.get_tensor("cost") is handle.output


def test_get_tensor_finds_any_tensor_by_its_full_name(towers, graph):
    assert towers[1].get_tensor("tower0/hidden") is towers[0].get_tensor("hidden")
    assert towers[1].get_tensor("apart/constant") is graph.get_tensor_by_name("apart/constant:0")


def test_get_tensor_knows_inputs_by_their_name_in_the_signature(towers):
    for handle in towers:
        assert handle.get_tensor("image") is handle.inputs[0]
        assert handle.get_tensor("image:0") is handle.inputs[0]
        assert handle.get_tensor("fed") is handle.inputs[0]


def test_get_tensors_takes_several(towers):
    assert towers[0].get_tensors(iter(["cost", "image"])) == [towers[0].output, towers[0].inputs[0]]


@pytest.mark.parametrize("name", ["hiden", "hidden:1", "halves:2", "image:1", "missing/entirely"])
def test_get_tensor_that_is_missing_is_an_error(towers, name):
    with pytest.raises(TowerError, match=f"no tensor '{name}' in training tower 'tower1'"):
        towers[1].get_tensor(name)


def test_get_tensor_lists_near_names_without_the_tower(towers):
    with pytest.raises(TowerError, match=r"; near names: hidden; its inputs: image$"):
        towers[1].get_tensor("hiden")


def test_get_tensor_refuses_a_malformed_name(towers):
    with pytest.raises(ConfigError, match="expected 'op_name'"):
        towers[0].get_tensor("hidden:")


def test_get_variable_is_the_one_that_the_tower_uses(towers):
    names = [handle.get_variable("w").op.name for handle in towers]
    assert names == ["w", "tower1/w", "tower1/w"]
    assert towers[2].get_variable("w:0") is towers[1].get_variable("w")
    assert towers[1].get_variable("w") in tf.local_variables()
    assert towers[0].get_variables(["w", "w:0"]) == [towers[0].get_variable("w")] * 2


def test_get_variable_that_is_missing_lists_near_names(towers):
    with pytest.raises(TowerError, match="no variable 'tower1/ww' in training tower 'tower1' .*near names: tower1/w$"):
        towers[1].get_variable("ww")
    with pytest.raises(TowerError, match=r"no variable 'xyzxyz' in training tower 'tower0' \(1 of 2\)$"):
        towers[0].get_variable("xyzxyz")


def test_get_variable_finds_what_is_in_no_collection(graph):
    func = TowerFunc(lambda: tf.get_variable("hidden", [], collections=["mine"]), [])
    with TrainTowerContext(""):
        variable = func()
    assert func.towers[0].get_variable("hidden") is variable


def test_get_collection_is_the_tower_s_own(towers):
    for handle in towers:
        assert handle.get_collection("things") == [handle.output]
        assert handle.get_collection(name="things") == [handle.output]
        assert handle.get_collection("nothing") == []


@pytest.mark.parametrize("arguments", [{}, {"key": "a", "name": "a"}])
def test_get_collection_wants_one_key(towers, arguments):
    with pytest.raises(TowerError, match="expected the key of one collection"):
        towers[0].get_collection(**arguments)


def test_brackets_find_a_tensor_or_else_a_variable(towers):
    assert towers[1]["cost"] is towers[1].output
    with tf.variable_scope("tower1"):
        tf.get_variable("only_here", [])
    assert towers[1]["only_here"].op.name == "tower1/only_here"
    with pytest.raises(TowerError, match="no tensor 'nowhere'"):
        towers[1]["nowhere"]


def test_handle_tells_about_its_tower(towers):
    handle = towers[2]
    assert (handle.name, handle.ns_name, handle.vs_name) == ("predict", "predict", "tower1")
    assert not handle.is_training
    assert repr(handle) == "TowerHandle of prediction tower 'predict' (1 of 1)"


def test_handles_are_found_by_number_name_and_slice(towers):
    assert [handle.name for handle in towers] == ["tower0", "tower1", "predict"]
    assert towers["tower1"] is towers[1]
    assert towers[-1].name == "predict"
    assert [handle.name for handle in towers[1:]] == ["tower1", "predict"]
    assert isinstance(towers[1:], TowerHandles)
    assert len(towers) == 3
    assert "TowerHandle of training tower 'tower0' (1 of 2)" in repr(towers)


def test_handles_are_told_apart_by_their_use(towers):
    assert [handle.name for handle in towers.training()] == ["tower0", "tower1"]
    assert [handle.name for handle in towers.inference()] == ["predict"]


def test_a_name_that_no_tower_has_is_an_error(towers):
    with pytest.raises(TowerError, match=r"no tower is called 'tower7'; there are \['tower0', 'tower1', 'predict'\]"):
        towers["tower7"]
    with pytest.raises(IndexError):
        towers[7]
