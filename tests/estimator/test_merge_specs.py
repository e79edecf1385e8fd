"""K specs become one: sums of losses, concatenated predictions, metrics of the whole batch."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError
from tpack.estimator.merge_specs import join_towers
from tpack.estimator.replicated import Replication, build_towers
from tpack.estimator.spec import (
    ClassificationOutput,
    EstimatorSpec,
    ExportOutput,
    ModeKeys,
    PredictOutput,
    RegressionOutput,
)

DEVICE = "/device:CPU:3"


def join(make_spec, mode, num_towers=2):
    plan = Replication(tuple(f"/device:CPU:{k}" for k in range(num_towers)), ("/device:CPU:0",), DEVICE)
    towers = build_towers(make_spec, plan, mode, averages_losses=False)
    return towers, join_towers(towers, mode, DEVICE)


def test_training_is_the_first_towers_with_the_sum_of_losses(session8):
    def make(index):
        hooks = [tf.train.StepCounterHook()]
        scaffold = tf.train.Scaffold()
        train_op = tf.no_op()
        return EstimatorSpec("train", loss=index + 1.0, train_op=train_op, training_hooks=hooks, scaffold=scaffold)

    towers, spec = join(make, ModeKeys.TRAIN, 3)
    assert session8.run(spec.loss) == 6
    assert (spec.loss.op.name, spec.loss.device) == ("loss", DEVICE)
    first = towers[0].spec
    assert (spec.train_op, spec.training_hooks, spec.scaffold) == (first.train_op, first.training_hooks, first.scaffold)


def test_evaluation_is_of_the_whole_batch(session8, rng):
    data = rng.integers(2, size=(3, 5)).astype("float32")

    def make(index):
        values = tf.constant(data[index])
        metrics = {
            "hits": tf.metrics.accuracy(tf.ones(5), values),
            "total": tf.metrics.mean(values),
            "auc": tf.metrics.auc(values > 0, tf.constant(rng.uniform(size=5).astype("float32"))),
        }
        return EstimatorSpec("eval", {"values": values}, tf.reduce_mean(values), eval_metric_ops=metrics)

    _, spec = join(make, ModeKeys.EVAL, 3)
    session8.run(tf.local_variables_initializer())
    for _ in range(2):
        session8.run([update for _, update in spec.eval_metric_ops.values()])
        assert session8.run(spec.eval_metric_ops["hits"][0]) == np.float32(data.mean())
    np.testing.assert_allclose(session8.run(spec.eval_metric_ops["total"][0]), data.mean(), rtol=1e-6)
    np.testing.assert_allclose(session8.run(spec.loss), data.mean(axis=1).sum(), rtol=1e-6)
    np.testing.assert_array_equal(session8.run(spec.predictions["values"]), data.reshape(-1))
    assert len({update for _, update in spec.eval_metric_ops.values()}) == 1
    assert len(tf.get_collection(tf.GraphKeys.METRIC_VARIABLES)) == 3 * 8


def test_metrics_that_towers_make_in_different_orders_are_joined_by_their_names(session8):
    def make(index):
        named = [("ones", 1.0), ("twos", 2.0)]
        metrics = {name: tf.metrics.mean(value, name=name) for name, value in (named[::-1] if index else named)}
        return EstimatorSpec("eval", loss=1.0, eval_metric_ops=metrics)

    _, spec = join(make, ModeKeys.EVAL, 3)
    session8.run(tf.local_variables_initializer())
    session8.run([update for _, update in spec.eval_metric_ops.values()])
    assert session8.run({name: value for name, (value, _) in spec.eval_metric_ops.items()}) == {
        "ones": 1.0,
        "twos": 2.0,
    }


def test_metrics_whose_variables_have_other_names_are_refused(graph):
    def make(index):
        return EstimatorSpec("eval", loss=1.0, eval_metric_ops={"m": tf.metrics.mean(1.0, name=f"mean_{index}")})

    with pytest.raises(ConfigError, match=r"tower 0 has the variables of eval_metric_ops \[mean_0/total, .*mean_1"):
        join(make, ModeKeys.EVAL)


def test_metrics_that_assign_a_variable_are_updated(session8):
    def make(index):
        counter = tf.Variable(0.0, collections=[tf.GraphKeys.LOCAL_VARIABLES, tf.GraphKeys.METRIC_VARIABLES])
        return EstimatorSpec("eval", loss=1.0, eval_metric_ops={"count": (counter.value(), counter.assign_add(1.0))})

    _, spec = join(make, ModeKeys.EVAL)
    session8.run(tf.local_variables_initializer())
    session8.run(spec.eval_metric_ops["count"][1])
    assert session8.run(spec.eval_metric_ops["count"][0]) == 2


def test_predictions_and_export_outputs_are_concatenated(session8):
    def make(index):
        scores = tf.constant([[index + 0.5]])
        classes = tf.constant([[f"class {index}"]])
        outputs = {
            "serving_default": PredictOutput({"a": scores}),
            "classify": ClassificationOutput(scores, classes),
            "scores": ClassificationOutput(scores=scores),
            "classes": ClassificationOutput(classes=classes),
            "regress": RegressionOutput(scores),
        }
        sparse = tf.SparseTensor([[0, index]], [index], [1, 2])
        return EstimatorSpec("infer", {"key": scores, "my score/s": scores, "sparse": sparse}, export_outputs=outputs)

    _, spec = join(make, ModeKeys.PREDICT)
    column, classes = [[0.5], [1.5]], [[b"class 0"], [b"class 1"]]
    assert (spec.predictions["key"].op.name, spec.predictions["key"].device) == ("key", DEVICE)
    predictions = session8.run(spec.predictions)
    assert predictions["key"].tolist() == predictions["my score/s"].tolist() == column
    assert predictions["sparse"].indices.tolist() == [[0, 0], [1, 1]]
    outputs = spec.export_outputs
    assert session8.run(outputs["serving_default"].outputs["a"]).tolist() == column
    assert session8.run([outputs["classify"].scores, outputs["classify"].classes])[1].tolist() == classes
    assert session8.run(outputs["scores"].scores).tolist() == column
    assert outputs["scores"].classes is None
    assert session8.run(outputs["classes"].classes).tolist() == classes
    assert outputs["classes"].scores is None
    assert session8.run(outputs["regress"].value).tolist() == column


def test_one_prediction_without_a_name_and_one_output_under_two(session8):
    def make(index):
        value = tf.constant([float(index)])
        return EstimatorSpec("infer", value, export_outputs={"only": RegressionOutput(value)})

    _, spec = join(make, ModeKeys.PREDICT)
    assert session8.run(spec.predictions).tolist() == [0, 1]
    assert spec.export_outputs["only"] is spec.export_outputs["serving_default"]


def test_one_tower_is_left_as_it_is(graph):
    towers, spec = join(lambda index: EstimatorSpec("eval", loss=1.0), ModeKeys.EVAL, 1)
    assert spec is towers[0].spec


class Strange(ExportOutput):
    """An output of a kind that nobody knows."""


def predicting(index, **changes):
    value = tf.constant([1.0])
    return EstimatorSpec("infer", **{"predictions": {"a": value}, **changes})


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda k: predicting(k, predictions={f"p{k}": tf.constant([1.0])}), r"tower 0 has the predictions \[p0\]"),
        (
            lambda k: predicting(k, export_outputs={f"o{k}": RegressionOutput(tf.constant([1.0]))}),
            "tower 0 has the export_outputs .*o0",
        ),
        (
            lambda k: predicting(k, export_outputs={"a": (RegressionOutput, PredictOutput)[k](tf.constant([1.0]))}),
            "as the export output 'a': expected one class",
        ),
        (lambda k: predicting(k, export_outputs={"a": Strange()}), "'a' of Strange"),
    ],
)
def test_different_predictions_are_refused(graph, make, message):
    with pytest.raises(ConfigError, match=message):
        join(make, ModeKeys.PREDICT)


def test_different_metrics_are_refused(graph):
    def make(index):
        metrics = {f"m{index}": tf.metrics.mean(1.0)}
        return EstimatorSpec("eval", loss=1.0, eval_metric_ops=metrics)

    with pytest.raises(ConfigError, match=r"tower 0 has the eval_metric_ops \[m0\], tower 1 has \[m1\]: "):
        join(make, ModeKeys.EVAL)
