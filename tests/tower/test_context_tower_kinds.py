"""Training and prediction towers say what they are."""

import pytest

from tpack.tower.context import PredictTowerContext, TrainTowerContext


@pytest.mark.parametrize("index", [0, 1])
def test_a_training_tower_describes_itself(graph, index):
    context = TrainTowerContext("tower", "scope", index=index, total=2, device="/cpu:3")
    assert (context.name, context.ns_name, context.vs_name) == ("tower", "tower", "scope")
    assert (context.index, context.total, context.device) == (index, 2, "/cpu:3")
    assert context.is_training
    assert context.has_own_variables
    assert context.is_main_tower == context.is_main_training_tower == (index == 0)
    assert repr(context) == f"training tower 'tower' ({index + 1} of 2)"


def test_a_prediction_tower_describes_itself(graph):
    context = PredictTowerContext("", device="/cpu:0")
    assert not context.is_training
    assert not context.has_own_variables
    assert context.is_main_tower
    assert not context.is_main_training_tower
    assert repr(context) == "prediction tower '(without a name)' (1 of 1)"
