"""What the fields of a spec may be, and what is said of anything else."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError
from tpack.estimator import spec
from tpack.estimator.spec import PredictOutput, RegressionOutput


def test_losses_become_scalars(session8):
    for value in (3.0, np.float32([3]), np.float32([[3]]), tf.constant([3.0])):
        loss = spec.checked_loss(value, "train")
        assert loss.shape.rank == 0
        assert session8.run(tf.identity(loss)) == 3
    unknown = tf.placeholder(tf.float32)
    assert session8.run(spec.checked_loss(unknown, "eval"), {unknown: [3]}) == 3
    assert spec.checked_loss(None, "infer") is None


def test_the_default_signature_is_there(graph):
    tensor = tf.constant([1.0])
    output, other = RegressionOutput(tensor), PredictOutput(tensor)
    check = spec.checked_export_outputs
    assert check(None, {"a": tensor}, "infer")["serving_default"].outputs == {"a": tensor}
    assert check(None, tensor, "eval") is None
    assert check(None, {"s": tf.SparseTensor([[0]], [1], [1])}, "infer") is None
    assert check({"a": output}, tensor, "infer") == {"a": output, "serving_default": output}
    assert check({"a": output, "serving_default": other}, tensor, "infer") == {"a": output, "serving_default": other}
    assert check({}, tensor, "infer") == {}


def test_what_assigns_a_variable_can_be_run(graph):
    variable = tf.get_variable("v", [], use_resource=True)
    update = variable.assign_add(1.0)
    assert spec.checked_train_op(update, "train") is update
    assert spec.checked_train_op(None, "eval") is None
    assert spec.checked_metrics({"m": (variable.value(), update)})["m"][1] is update


def elsewhere():
    with tf.Graph().as_default():
        return tf.constant(1.0)


@pytest.mark.parametrize(
    ("check", "message"),
    [
        (lambda: spec.check_mode("predict"), "got mode='predict': expected one of train, eval, infer"),
        (lambda: spec.checked_predictions(None, "infer"), "of mode 'infer' got no predictions"),
        (lambda: spec.checked_predictions({"a": 1}, "infer"), "got predictions=.*: expected a tensor or"),
        (lambda: spec.checked_predictions(elsewhere(), "infer"), "a prediction is .* of another graph"),
        (lambda: spec.checked_loss(None, "train"), "mode 'train' got no loss"),
        (lambda: spec.checked_loss(tf.zeros([2]), "eval"), r"zeros:0 of shape \(2,\): expected one element"),
        (lambda: spec.checked_loss(elsewhere(), "eval"), "the loss is .* of another graph"),
        (lambda: spec.checked_train_op(None, "train"), "got no train_op"),
        (lambda: spec.checked_train_op(3, "train"), "got train_op=3: expected an operation or a tensor"),
        (lambda: spec.checked_train_op(elsewhere(), "train"), "the train_op is .* of another graph"),
        (lambda: spec.checked_metrics([1]), r"got eval_metric_ops=\[1\]: expected a dict"),
        (lambda: spec.checked_metrics({"a": 1}), r"eval_metric_ops\['a'\]=1: expected a pair"),
        (lambda: spec.checked_metrics({"a": (1, 2)}), r"ops\['a'\]=\(1, 2\): expected a pair of tensors or"),
        (lambda: spec.checked_metrics({"a": (elsewhere(), tf.no_op())}), "metric 'a' is .* of another graph"),
        (lambda: spec.checked_export_outputs([1], None, "infer"), r"got export_outputs=\[1\]: expected a dict"),
        (lambda: spec.checked_export_outputs({"a": 1}, None, "infer"), r"outputs\['a'\]=1: expected an ExportOutput"),
        (
            lambda: spec.checked_export_outputs(dict.fromkeys("ab", PredictOutput(tf.constant(1.0))), None, "infer"),
            "got the export_outputs a, b: expected one named 'serving_default'",
        ),
        (lambda: spec.checked_hooks("training_hooks", [1]), r"got training_hooks\[0\]=1"),
        (lambda: spec.checked_scaffold(1), "got scaffold=1: expected a tf.train.Scaffold"),
    ],
)
def test_what_cannot_be_is_refused(graph, check, message):
    with pytest.raises(ConfigError, match=message):
        check()
