"""Run a head on arrays in a graph of its own, for tests of heads."""

from typing import Any, NamedTuple

import tensorflow.compat.v1 as tf

from tests.helpers.sessions import cpu_session
from tpack.estimator.spec import ModeKeys


class Found(NamedTuple):
    """What a head gave in all three modes."""

    predictions: dict[Any, Any]
    loss: float
    metrics: dict[str, float]
    summaries: dict[str, float]
    outputs: dict[str, str]


def run_head(head: Any, logits: Any, labels: Any, features: Any = None, **options: Any) -> Found:
    """Predict, evaluate one batch, and build for training.

    Args:
        head: the head.
        logits: arrays.
        labels: arrays.
        features: arrays by name.
        options: for evaluation and training.
    """
    with tf.Graph().as_default(), cpu_session(num_cpus=1, rewrites=False) as session:
        tf.train.create_global_step()
        logits, labels, features = tf.nest.map_structure(tf.constant, (logits, labels, features or {}))
        options = tf.nest.map_structure(tf.constant, options)
        predicting = head.create_estimator_spec(features, ModeKeys.PREDICT, logits)
        evaluating = head.create_estimator_spec(features, ModeKeys.EVAL, logits, labels, **options)
        training = head.create_estimator_spec(
            features, ModeKeys.TRAIN, logits, labels, train_op_fn=lambda _: tf.no_op(), **options
        )
        session.run([tf.local_variables_initializer(), tf.tables_initializer()])
        merged = tf.summary.merge_all()
        wanted = (predicting.predictions, training.loss, () if merged is None else merged)
        predictions, loss, text = session.run(wanted)
        assert session.run(evaluating.loss) == loss
        updated = session.run({name: update for name, (_, update) in evaluating.eval_metric_ops.items()})
        metrics = session.run({name: value for name, (value, _) in evaluating.eval_metric_ops.items()})
        assert updated.keys() == metrics.keys()
    summary = tf.Summary.FromString(text) if text else tf.Summary()
    outputs = {name: type(output).__name__ for name, output in predicting.export_outputs.items()}
    return Found(predictions, loss, metrics, {one.tag: one.simple_value for one in summary.value}, outputs)
