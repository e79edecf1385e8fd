"""Names without the tower's scopes, and what is shared by towers."""

from typing import Any

import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.log_lines import captured_log
from tpack.distribute.strategies import MirroredStrategy
from tpack.tfutils.scope_utils import (
    name_without_tower,
    shared_by_towers,
    variable_name_without_tower,
    whole_variable,
    writes_summaries,
)
from tpack.tfutils.summary import add_moving_summary
from tpack.tower import collections
from tpack.tower.context import PredictTowerContext, TrainTowerContext


def test_names_outside_of_towers_stay(graph: Any) -> None:
    with tf.name_scope("tower0"):
        assert name_without_tower(tf.constant(0, name="cost")) == "tower0/cost"
    assert variable_name_without_tower(tf.get_variable("tower0/W", [])) == "tower0/W"


def test_names_in_a_tower_lose_its_scopes_and_no_more(graph: Any) -> None:
    outside = tf.constant(0, name="outside")
    with TrainTowerContext("gpu", "copy", index=1, total=2):
        with tf.name_scope("gpu"):
            assert name_without_tower(tf.constant(0, name="cost")) == "gpu/cost"
        assert name_without_tower(outside) == "outside"
        assert variable_name_without_tower(tf.get_variable("copy/W", [])) == "copy/W"


def test_the_part_of_a_variable_of_several_devices_has_the_name_of_the_whole(graph: Any) -> None:
    with MirroredStrategy(["/cpu:0", "/cpu:1"]).scope():
        whole = tf.get_variable("scope/W", [])
    plain = tf.get_variable("plain", [])
    assert [whole_variable(part) for part in whole.components] == [whole] * 2
    assert [variable_name_without_tower(part) for part in whole.components] == ["scope/W"] * 2
    assert whole_variable(whole) is whole
    assert whole_variable(plain) is plain


@pytest.mark.parametrize(
    ("context", "expected"),
    [
        (lambda: TrainTowerContext("tower0"), True),
        (lambda: TrainTowerContext("tower1", index=1, total=2), False),
        (lambda: PredictTowerContext("infer"), False),
    ],
)
def test_summaries_are_written_in_the_main_training_tower(graph: Any, context: Any, expected: bool) -> None:
    assert writes_summaries()
    with context():
        assert writes_summaries() == expected


def test_why_summaries_are_dropped_is_said_once(graph: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    # Another test may have been the first.
    monkeypatch.setattr(collections, "_DROPPED", f"{collections._DROPPED}!")
    with captured_log() as lines:
        for index in range(1, 4):
            with TrainTowerContext(f"tower{index}", index=index, total=4, reuse=True):
                assert add_moving_summary(tf.constant(1.0)) == []
                assert not writes_summaries()
    assert [line for line in lines if "Summaries" in line] == [
        "Summaries are written in the main training tower only: those of the other towers are dropped!"
    ]


def test_a_prediction_is_told_nothing_of_training(graph: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collections, "_DROPPED", "dropped in a prediction")
    with captured_log() as lines, PredictTowerContext("infer"):
        assert add_moving_summary(tf.constant(1.0)) == []
        tf.summary.scalar("plain", tf.constant(1.0))
    assert lines == []
    assert tf.get_collection(tf.GraphKeys.SUMMARIES) == []


def test_shared_variables_are_not_the_towers_own(graph: Any) -> None:
    with TrainTowerContext("tower0") as tower:
        with shared_by_towers():
            tf.get_variable("shared", [])
        own = tf.get_variable("own", [])
    assert tower.recorder.variables == [own]
    with shared_by_towers():
        assert tf.get_variable("outside", []).name == "outside:0"
