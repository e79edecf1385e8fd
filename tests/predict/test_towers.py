"""Towers for prediction: one set of variables, and no towers left on the config."""

import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.predict_models import SIGNATURE, make_config
from tpack.errors import TowerMismatchError
from tpack.predict.towers import build_predict_towers
from tpack.tower.context import current_tower_context


def placeholders(index):
    return [tf.placeholder(spec.dtype, spec.shape, spec.name) for spec in SIGNATURE]


def test_towers_are_named_by_number_and_share_variables(graph):
    config = make_config()
    towers = build_predict_towers(config, ["/device:CPU:0", "/device:CPU:3"], placeholders)
    assert [tower.name for tower in towers] == ["tower0", "tower1"]
    assert [tower.context.total for tower in towers] == [1, 1]
    assert [tower.get_tensor("scores").device for tower in towers] == ["/device:CPU:0", "/device:CPU:3"]
    assert [tower.get_tensor("image").op.name for tower in towers] == ["tower0/image", "tower1/image"]
    assert len(tf.global_variables()) == 2
    assert len(config.tower_func.towers) == 0


def test_a_variable_that_the_first_tower_does_not_have_is_an_error(graph):
    def model(image, factor):
        if current_tower_context().name == "tower1":
            tf.get_variable("late", [2])

    with pytest.raises(TowerMismatchError, match="asks for the variable 'late'"):
        build_predict_towers(make_config(tower_func=model), ["/device:CPU:0", "/device:CPU:1"], placeholders)
