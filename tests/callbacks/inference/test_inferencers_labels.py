"""A label that the model has no class for is an error, and no wrong prediction."""

from typing import Any

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.fake_trainer import FakeTrainer
from tests.helpers.toy_inference import flow
from tpack.callbacks.inference.inferencers import ClassificationError
from tpack.callbacks.inference.runners import DataParallelInferenceRunner, InferenceRunner
from tpack.errors import CallbackError
from tpack.tfutils.symbolic_functions import prediction_incorrect
from tpack.tower.context import TowerContext
from tpack.tower.tower_func import TowerFunc

CLASSES = 5
SIGNATURE = [tf.TensorSpec([None, CLASSES], tf.float32, "logits"), tf.TensorSpec([None], tf.int32, "label")]


def by_argmax(logits: Any, label: Any) -> None:
    right = tf.equal(tf.argmax(logits, axis=1, output_type=tf.int32), label)
    tf.subtract(1.0, tf.cast(right, tf.float32), name="incorrect_vector")


def by_argmax_of_other_size(logits: Any, label: Any) -> None:
    tf.not_equal(tf.cast(label, tf.int64), tf.argmax(logits, axis=1), name="incorrect_vector")


def by_top_k(logits: Any, label: Any) -> None:
    tf.logical_not(tf.nn.in_top_k(logits, label, 2), name="incorrect_vector")


def by_function(logits: Any, label: Any) -> None:
    prediction_incorrect(logits, label)


def left_out(logits: Any, label: Any) -> None:
    wrong = tf.not_equal(tf.argmax(logits, axis=1, output_type=tf.int32), label)
    tf.identity(tf.boolean_mask(wrong, label < CLASSES), name="incorrect_vector")


def half_wrong(logits: Any, label: Any) -> None:
    tf.multiply(tf.ones_like(label), 2, name="incorrect_vector")


def train(model: Any, labels: list[int], make: Any = InferenceRunner) -> list[float]:
    """Evaluate a model that is always right, on two batches of the labels; return the error rate."""
    tower_func = TowerFunc(model, SIGNATURE)
    with TowerContext("", is_training=True):
        tower_func(*(tf.placeholder(spec.dtype, spec.shape) for spec in SIGNATURE))
    logits = np.eye(max(CLASSES, *labels) + 1, dtype=np.float32)[labels][:, :CLASSES]
    data = flow([[logits, np.array(labels, np.int32)]] * 2)
    trainer = FakeTrainer(tower_func=tower_func)
    trainer.train([make(data, ClassificationError())], epochs=(1, 1))
    return trainer.recorder.values("validation_error")


each_model = pytest.mark.parametrize("model", [by_argmax, by_argmax_of_other_size, by_top_k, by_function])


@each_model
def test_labels_of_classes_count(graph: Any, model: Any) -> None:
    assert train(model, [0, 1, 2, 3, 4]) == [0.0]


@each_model
@pytest.mark.parametrize("label", [5, 9, -1])
def test_a_label_without_a_class_is_an_error(graph: Any, model: Any, label: int) -> None:
    with pytest.raises(CallbackError, match="got 1 labels outside the classes among 3: expected in 'incorrect_vector'"):
        train(model, [0, label, 2])


def test_it_is_seen_on_several_devices(graph: Any) -> None:
    def make(data: Any, inferencer: Any) -> Any:
        return DataParallelInferenceRunner(data, inferencer, 2)

    with pytest.raises(CallbackError, match="got 1 labels outside the classes among 2"):
        train(by_top_k, [7, 2], make)


def test_labels_that_the_model_leaves_out_are_not_asked_for(graph: Any) -> None:
    assert train(left_out, [0, 9, 2]) == [0.0]


def test_a_vector_of_something_else_is_an_error(graph: Any) -> None:
    with pytest.raises(CallbackError, match="'incorrect_vector' with other values among its 2: expected zeros and"):
        train(half_wrong, [0, 1])
