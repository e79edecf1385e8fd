"""Keras counts its layers anew in each tower, and outside of towers as if there were none."""

import sys
import threading

import keras
import pytest
import tensorflow.compat.v1 as tf
import tf_keras

from tpack.graph_builder.towers import build_towers
from tpack.tower.context import PredictTowerContext, TrainTowerContext, current_tower_context
from tpack.tower.keras_names import KerasNames, keep_keras_policy

MODULES = [keras, tf_keras]


def number(module):
    """Return which of its kind a new layer is."""
    digits = module.layers.Dense(1).name.removeprefix("dense").lstrip("_")
    return int(digits or 0)


@pytest.mark.parametrize("module", MODULES)
def test_towers_count_from_zero_and_the_rest_goes_on(graph, module):
    before = number(module)
    with TrainTowerContext("tower0"):
        assert [number(module), number(module)] == [0, 1]
    with PredictTowerContext("predict"):
        assert number(module) == 0
    assert number(module) == before + 1


@pytest.mark.parametrize("module", MODULES)
def test_towers_that_meet_count_each_for_itself(graph, module):
    def func():
        counts = []
        for _ in range(3):
            counts += [number(module), number(module)]
            current_tower_context().merge_call(lambda: None)
        return counts

    before = number(module)
    assert build_towers(func, ["/cpu:0"] * 3, [True] * 3).outputs == [[0, 1, 2, 3, 4, 5]] * 3
    assert number(module) == before + 1


def test_counts_are_swapped_in_pairs(graph):
    names = KerasNames(graph)
    before = number(tf_keras)
    names.swap()
    assert number(tf_keras) == 0
    names.swap_of_graph()
    assert number(tf_keras) == before + 1
    names.swap_of_graph()
    assert number(tf_keras) == 1
    names.swap()
    assert number(tf_keras) == before + 2


def test_the_dtype_policy_of_keras_3_reaches_other_threads():
    keras.config.set_dtype_policy("mixed_bfloat16")
    try:
        install = keep_keras_policy()
    finally:
        keras.config.set_dtype_policy("float32")
    seen = []

    def look():
        install()
        seen.append(keras.config.dtype_policy().name)

    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
    assert seen == ["mixed_bfloat16"]


def test_without_keras_nothing_is_counted(graph, monkeypatch):
    for name in ("keras.src.backend.common.global_state", "tf_keras.src.backend"):
        monkeypatch.delitem(sys.modules, name)
    names = KerasNames(graph)
    names.swap()
    names.swap()
    keep_keras_policy()()
    with tf.Graph().as_default(), TrainTowerContext("tower0") as tower:
        assert tower.collections.is_open
