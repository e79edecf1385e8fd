"""An EstimatorSpec has the fields that people know, checked."""

import pytest
import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError
from tpack.estimator.spec import EstimatorSpec, ModeKeys, operation_of

FIELDS = [
    "mode", "predictions", "loss", "train_op", "eval_metric_ops", "export_outputs", "training_chief_hooks",
    "training_hooks", "scaffold", "evaluation_hooks", "prediction_hooks",
]  # fmt: skip


def test_fields_and_what_they_are_without_a_value(graph):
    spec = EstimatorSpec(ModeKeys.EVAL, loss=1.0)
    assert list(spec._fields) == list(spec._asdict()) == FIELDS
    assert (spec.mode, spec.predictions, spec.train_op, spec.eval_metric_ops) == ("eval", {}, None, {})
    assert spec.export_outputs is None
    assert (spec.training_hooks, spec.training_chief_hooks, spec.evaluation_hooks, spec.prediction_hooks) == ((),) * 4
    assert isinstance(spec.scaffold, tf.train.Scaffold)
    assert spec.loss.shape.rank == 0


def test_all_fields_by_position(graph):
    hook, scaffold, tensor = tf.train.StepCounterHook(), tf.train.Scaffold(), tf.constant([1.0])
    train_op, metrics = tf.no_op(), {"m": (tf.constant(1.0), tf.no_op())}
    spec = EstimatorSpec("train", tensor, 1.0, train_op, metrics, None, [hook], (hook,), scaffold, [hook], None)
    assert spec[1] is tensor
    assert spec[3:] == (train_op, metrics, None, (hook,), (hook,), scaffold, (hook,), ())


def test_replace_checks(graph):
    spec = EstimatorSpec(ModeKeys.TRAIN, loss=1.0, train_op=tf.no_op())
    loss = tf.constant(2.0)
    assert spec._replace(loss=loss).loss is loss
    assert spec._replace(mode="train")._asdict() == spec._asdict()
    with pytest.raises(ConfigError, match="EstimatorSpec got mode='eval': expected 'train', as before"):
        spec._replace(mode="eval")
    with pytest.raises(ConfigError, match="EstimatorSpec got the loss .*: expected one element"):
        spec._replace(loss=tf.zeros([2]))


def test_operations_of_what_people_call_ops(session8):
    variable = tf.get_variable("v", [], initializer=tf.zeros_initializer(), use_resource=True)
    nothing = tf.no_op()
    assert operation_of(nothing) is nothing
    assert operation_of(tf.constant(1, name="one")).name == "one"
    with tf.control_dependencies([operation_of(variable.assign_add(2.0))]):
        after = tf.no_op()
    session8.run(variable.initializer)
    session8.run(after)
    assert session8.run(variable) == 2
