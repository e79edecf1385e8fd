"""Summaries of tensors and parameters, against numpy."""

from typing import Any

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.checkpoints import make_variables
from tests.helpers.summaries import read_summaries
from tpack.errors import ConfigError, GraphBuildError
from tpack.tfutils.summary import add_activation_summary, add_param_summary, add_tensor_summary
from tpack.tower.context import PredictTowerContext, TrainTowerContext
from tpack.utils import logger

X = np.array([[0, 3, 0], [-4, 0, 5]], "float32")


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
def test_reductions_are_those_of_numpy(session8: Any, dtype: str) -> None:
    add_tensor_summary(tf.constant(X.astype(dtype), name="x"), ["sparsity", "mean", "rms", "histogram"])
    written = read_summaries(session8)
    assert written["x-sparsity"] == 0.5
    assert written["x-mean"] == pytest.approx(X.mean())
    assert written["x-rms"] == pytest.approx(np.sqrt((X**2).mean()))
    assert written["x"].sum == X.sum()


def test_scalar_is_written_under_the_name_asked_for(session8: Any) -> None:
    add_tensor_summary(tf.constant(2.0), ["scalar"], name="rate", collections=["mine"])
    assert read_summaries(session8, "mine") == {"rate": 2}


def test_scalar_of_another_shape_is_an_error(graph: Any) -> None:
    with pytest.raises(GraphBuildError, match="expected a numeric scalar"):
        add_tensor_summary(tf.constant(X), ["scalar"])


@pytest.mark.parametrize(
    ("types", "message"),
    [
        ("mean", "add_tensor_summary got types='mean': expected a list of text"),
        (["mean", "median"], "got types=.*: expected a list out of scalar, histogram, sparsity, mean, rms"),
    ],
)
def test_unknown_types_are_rejected(graph: Any, types: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        add_tensor_summary(tf.constant(X), types)


def test_other_towers_write_only_when_asked(graph: Any) -> None:
    with TrainTowerContext("tower1", index=1, total=2):
        x = tf.constant(X)
        before = graph.get_operations()
        add_tensor_summary(x, ["mean"], collections=["mine"])
        add_activation_summary(x, collections=["mine"])
        add_param_summary((".*", ["mean"]), collections=["mine"])
        assert graph.get_operations() == before
        add_tensor_summary(x, ["mean"], collections=["mine"], main_tower_only=False)
    assert len(tf.get_collection("mine")) == 1


def test_activation_summary_has_three_types_by_default(session8: Any) -> None:
    with TrainTowerContext("tower0"):
        add_activation_summary(tf.constant(X, name="conv0/output"))
    tag = "activation-summary/conv0/output"
    assert set(read_summaries(session8)) == {tag, f"{tag}-sparsity", f"{tag}-rms"}


def test_activation_summary_of_a_vector_is_a_warning(graph: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    monkeypatch.setattr(logger, "warning", said.append)
    add_activation_summary(tf.zeros([3], name="x"))
    assert said == ["x of shape (3,) gets no summary: expected two dimensions or more"]
    assert tf.get_collection(tf.GraphKeys.SUMMARIES) == []


def test_activation_summary_takes_a_name_and_an_unknown_rank(session8: Any) -> None:
    x = tf.placeholder_with_default(X, None)
    add_activation_summary(x, ["mean"], name="features")
    assert read_summaries(session8) == {"activation-summary/features-mean": pytest.approx(X.mean())}


def test_param_summary_matches_whole_names_of_trainable_variables(session8: Any) -> None:
    make_variables({"conv0/W": X, "conv0/W_norm": X, "conv0/b": X})
    tf.get_variable("other/W", initializer=X, trainable=False, use_resource=True)
    session8.run(tf.global_variables_initializer())
    add_param_summary((".*/W", ["rms", "histogram"]), (".*/[Wb]", ["mean"]))
    assert set(read_summaries(session8)) == {
        "param-summary/conv0/W",
        "param-summary/conv0/W-rms",
        "param-summary/conv0/W-mean",
        "param-summary/conv0/b-mean",
    }


def test_param_summary_names_lose_the_towers_variable_scope(graph: Any) -> None:
    with TrainTowerContext("tower0", "copy"):
        make_variables({"W": X})
        add_param_summary(("W", ["mean"]))
    (summary,) = tf.get_collection(tf.GraphKeys.SUMMARIES)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        (value,) = tf.Summary.FromString(session.run(summary)).value
    assert value.tag == "param-summary/W-mean"


def test_prediction_tower_writes_no_parameters(graph: Any) -> None:
    make_variables({"W": X})
    with PredictTowerContext("infer"):
        add_param_summary(("W", ["mean"]), collections=["mine"])
    assert tf.get_collection("mine") == []


@pytest.mark.parametrize(
    ("pair", "message"),
    [
        (("(", ["mean"]), "got summary_lists=.*: expected pairs of a regular expression and a list of summary types"),
        ("W", r"got summary_lists\[0\]='W': expected a tuple of 2"),
        ((3, ["mean"]), r"got summary_lists\[0\]\[0\]=3: expected text"),
        (3, r"got summary_lists\[0\]=3: expected a tuple of 2"),
    ],
)
def test_param_summary_rejects_what_is_no_pair(graph: Any, pair: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        add_param_summary(pair)
