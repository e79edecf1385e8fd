"""Names used twice are explained, and each training tower regularises the variables it uses once."""

from typing import Any

import pytest
import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError
from tpack.models.registry import layer_scope
from tpack.tower.context import TowerContext
from tpack.tower.getters import custom_getter_scope

LOSSES = tf.GraphKeys.REGULARIZATION_LOSSES


def scale(name: str | None, *, regularizer: Any = None, dtype: Any = tf.float32) -> Any:
    with layer_scope("Scale", name):
        return tf.get_variable("f", [2], dtype, initializer=tf.ones_initializer(), regularizer=regularizer)


def test_named_layer_opens_a_scope_and_one_without_a_name_none(graph: Any) -> None:
    with tf.variable_scope("a"):
        assert scale("s").op.name == "a/s/f"
        assert scale(None).op.name == "a/f"
        with layer_scope("Scale", None):
            assert tf.constant(1, name="x").op.name == "a/x"


def test_name_used_twice_names_the_layer(graph: Any) -> None:
    with tf.variable_scope("a"):
        scale("s")
        with pytest.raises(ConfigError, match=r"Scale 'a/s' got the name of another layer.*'a/s/f' exists"):
            scale("s")


def test_layer_without_a_name_called_twice_is_told_to_have_one(graph: Any) -> None:
    scale(None)
    with pytest.raises(ConfigError, match=r"Scale got a second call without a name.*Scale\('name', x\)"):
        scale(None)


def test_of_nested_layers_the_one_used_twice_is_named(graph: Any) -> None:
    with layer_scope("Block", "b"):
        scale("s")
        with pytest.raises(ConfigError, match="Scale 'b/s'"):
            scale("s")
    with pytest.raises(ConfigError, match="Block 'b'"), layer_scope("Block", "b"):
        scale("s")


def test_name_without_variables_may_be_used_twice(graph: Any) -> None:
    for _ in range(2):
        with layer_scope("Pool", "p"):
            tf.constant(1)
    assert tf.global_variables() == []


def test_reuse_shares_the_variables(graph: Any) -> None:
    first = scale("s")
    with tf.variable_scope("", reuse=tf.AUTO_REUSE):
        assert scale("s") is first
    with tf.variable_scope("", reuse=True), pytest.raises(ValueError, match="does not exist"):
        scale("t")


def test_layer_without_a_name_leaves_default_names_and_custom_getters_as_they_are(graph: Any) -> None:
    def suffixed(getter: Any, name: str, *args: Any, **kwargs: Any) -> Any:
        return getter(f"{name}_suffix", *args, **kwargs)

    def make() -> str:
        with layer_scope("Cell", None), tf.variable_scope(None, default_name="cell"):
            return str(tf.get_variable("f", []).op.name)

    with custom_getter_scope(suffixed):
        assert [make(), make()] == ["cell/f_suffix", "cell_1/f_suffix"]
        assert tf.get_variable_scope().custom_getter is suffixed
        with pytest.raises(KeyError), layer_scope("Cell", None):
            raise KeyError
        assert tf.get_variable_scope().custom_getter is suffixed


def test_other_errors_of_tensorflow_pass(graph: Any) -> None:
    scale("s")
    with pytest.raises(ValueError, match="initializer passed is not valid"), layer_scope("Scale", "s"):
        tf.get_variable("g", [None])


def l2(variable: Any) -> Any:
    return tf.reduce_sum(variable**2)


def test_regularizer_counts_once_however_often_the_variable_is_shared(graph: Any) -> None:
    with layer_scope("Block", "b"):
        scale("s", regularizer=l2)
    with tf.variable_scope("", reuse=tf.AUTO_REUSE), layer_scope("Block", "b"):
        scale("s", regularizer=l2)
    assert [loss.op.name for loss in tf.get_collection(LOSSES)] == ["b/s/f/Regularizer/Sum"]


def test_regularizer_of_the_scope_counts_and_one_that_returns_nothing_does_not(graph: Any) -> None:
    with tf.variable_scope("r", regularizer=l2):
        scale("s")
    scale("n", regularizer=lambda variable: None)
    assert [loss.op.name for loss in tf.get_collection(LOSSES)] == ["r/s/f/Regularizer/Sum"]


@pytest.mark.parametrize("own_variables", [False, True])
def test_each_training_tower_has_the_loss(graph: Any, own_variables: bool) -> None:
    found = []
    for index in range(3):
        vs_name = f"tower{index}" if own_variables and index else ""
        reuse = not own_variables and index > 0
        with TowerContext(f"tower{index}", True, vs_name, index=index, total=3, reuse=reuse):
            scale("s", regularizer=l2)
            found.append(tf.get_collection(LOSSES))
    assert [len(losses) for losses in found] == [1, 1, 1]
    with tf.Session() as session:
        session.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
        assert session.run([losses[0] for losses in found]) == [2, 2, 2]


def test_prediction_tower_has_no_loss(graph: Any) -> None:
    with TowerContext("", is_training=False):
        scale("s", regularizer=l2)
        assert tf.get_collection(LOSSES) == []


def test_the_variable_is_regularised_and_not_what_a_getter_made_of_it(graph: Any) -> None:
    def halves(getter: Any, name: str, *args: Any, **kwargs: Any) -> Any:
        return tf.cast(getter(name, *args, **{**kwargs, "dtype": tf.float32}), kwargs["dtype"])

    for index in range(2):
        with TowerContext(f"t{index}", True, index=index, total=2, reuse=index > 0), custom_getter_scope(halves):
            assert scale("s", regularizer=l2, dtype=tf.bfloat16).dtype == tf.bfloat16
            assert [loss.dtype for loss in tf.get_collection(LOSSES)] == [tf.float32]


def test_variable_in_no_collection_is_regularised_where_it_is_made(graph: Any) -> None:
    def frozen(getter: Any, name: str, *args: Any, **kwargs: Any) -> Any:
        return getter(name, *args, **{**kwargs, "collections": ["FROZEN"], "trainable": False})

    counts = []
    for index in range(2):
        with TowerContext(f"t{index}", True, index=index, total=2, reuse=index > 0), custom_getter_scope(frozen):
            scale("s", regularizer=l2)
            counts.append(len(tf.get_collection(LOSSES)))
    assert counts == [1, 0]


def test_the_loss_of_a_layer_in_a_condition_is_collected_once(session8: Any) -> None:
    def branch() -> Any:
        return scale("s", regularizer=lambda w: 3 * tf.reduce_sum(w))

    with TowerContext("", is_training=True):
        with tf.variable_scope("", reuse=tf.AUTO_REUSE):
            result = tf.cond(tf.constant(True), branch, lambda: 2 * branch())
        (loss,) = tf.get_collection(LOSSES)
    session8.run(tf.global_variables_initializer())
    assert session8.run([loss, result[0]]) == [6, 1]
