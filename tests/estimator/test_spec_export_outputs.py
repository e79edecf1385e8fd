"""Export outputs check what they are made of and become signatures."""

import pytest
import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError
from tpack.estimator.spec import ClassificationOutput, ExportOutput, PredictOutput, RegressionOutput


def tensors():
    return tf.constant([[0.5]], name="scores"), tf.constant([["a"]], name="classes")


def names(infos):
    return {name: info.name for name, info in infos.items()}


def test_signatures(graph):
    scores, classes = tensors()
    examples = {"whatever": tf.placeholder(tf.string, [None], name="examples")}
    both = ClassificationOutput(scores, classes).as_signature_def(examples)
    assert names(both.inputs) == {"inputs": "examples:0"}
    assert names(both.outputs) == {"scores": "scores:0", "classes": "classes:0"}
    assert both.method_name == "tensorflow/serving/classify"
    assert names(ClassificationOutput(scores).as_signature_def(examples).outputs) == {"scores": "scores:0"}
    assert names(ClassificationOutput(classes=classes).as_signature_def(examples).outputs) == {"classes": "classes:0"}
    regress = RegressionOutput(scores).as_signature_def(examples)
    assert (names(regress.inputs), names(regress.outputs)) == ({"inputs": "examples:0"}, {"outputs": "scores:0"})
    assert regress.method_name == "tensorflow/serving/regress"
    predict = PredictOutput({"s": scores, "c": classes}).as_signature_def({"x": scores})
    assert (names(predict.inputs), names(predict.outputs)) == ({"x": "scores:0"}, {"s": "scores:0", "c": "classes:0"})
    assert predict.method_name == "tensorflow/serving/predict"
    assert PredictOutput(scores).outputs == {"output": scores}


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda s, c: ClassificationOutput(), "got neither"),
        (lambda s, c: ClassificationOutput(scores=c), "ClassificationOutput got scores=.*: expected a tensor"),
        (lambda s, c: ClassificationOutput(classes=s), "got classes=.*: expected a tensor of strings"),
        (lambda s, c: ClassificationOutput(scores=[0.5]), r"got scores=\[0.5\]: expected a tensor"),
        (lambda s, c: RegressionOutput(c), "RegressionOutput got value=.*: expected a tensor of floats"),
        (lambda s, c: PredictOutput({}), "at least one tensor"),
        (lambda s, c: PredictOutput({"a": 1}), "'a': 1"),
        (lambda s, c: PredictOutput({1: s}), "PredictOutput got 1: .*: expected tensors by name"),
    ],
)
def test_what_cannot_be_is_refused(graph, make, message):
    with pytest.raises(ConfigError, match=message):
        make(*tensors())


def test_only_examples_are_classified(graph):
    scores, classes = tensors()
    for output in (ClassificationOutput(scores), RegressionOutput(scores)):
        for fed in ({"x": scores}, {"a": classes, "b": classes}, {}):
            with pytest.raises(
                ConfigError, match=f"{type(output).__name__} got the receiver .*: expected one tensor of"
            ):
                output.as_signature_def(fed)


def test_the_base_has_no_signature():
    with pytest.raises(NotImplementedError):
        ExportOutput().as_signature_def({})
