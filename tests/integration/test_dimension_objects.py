"""Scripts that call ``tf.disable_v2_tensorshape()`` have objects as the sizes of shapes, also of unknown ones."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError
from tpack.estimator.replicate_model_fn import replicate_model_fn
from tpack.estimator.spec import EstimatorSpec
from tpack.estimator.tower_optimizer import TowerOptimizer
from tpack.graph_builder.model_desc import ModelDesc
from tpack.models.batch_norm import BatchNorm
from tpack.models.fc import FullyConnected
from tpack.predict.config import PredictConfig
from tpack.predict.towers import DataParallelOfflinePredictor
from tpack.tfutils.symbolic_functions import batch_flatten
from tpack.tower.context import TrainTowerContext


@pytest.fixture(autouse=True)
def dimension_objects():
    tf.disable_v2_tensorshape()
    yield
    tf.enable_v2_tensorshape()


def test_unknown_sizes_are_known_as_such(graph):
    x = tf.placeholder(tf.float32, [None, 2, 3])
    assert x.shape[0] is not None
    flat = batch_flatten(x)
    assert flat.shape.as_list() == [None, 6]
    with tf.Session() as session:
        assert session.run(flat, {x: np.zeros([5, 2, 3])}).shape == (5, 6)


def test_layers_take_batches_of_unknown_size_and_refuse_unknown_channels(graph):
    with TrainTowerContext(""):
        x = tf.placeholder(tf.float32, [None, 4])
        assert BatchNorm("bn", x, virtual_batch_size=2).shape.as_list() == [None, 4]
        with pytest.raises(ConfigError, match="FullyConnected"):
            FullyConnected("fc", tf.placeholder(tf.float32, [None, None]), 3)


class Doubled(ModelDesc):
    def inputs(self):
        return [tf.TensorSpec([None], tf.float32, "x")]

    def build_graph(self, x):
        return tf.multiply(x, 2, name="doubled")


def test_a_batch_of_unknown_size_is_split_over_predicting_towers():
    config = PredictConfig(model=Doubled(), input_names=["x"], output_names=["doubled"])
    predictor = DataParallelOfflinePredictor(config, [0, 1])
    np.testing.assert_array_equal(predictor(np.arange(4, dtype="float32"))[0], [0, 2, 4, 6])


def test_features_of_unknown_size_are_split_over_training_towers(graph):
    def model_fn(features, labels, mode):
        weight = tf.get_variable("weight", [], initializer=tf.ones_initializer())
        loss = tf.reduce_mean(features["x"] * weight)
        train_op = TowerOptimizer(tf.train.GradientDescentOptimizer(0.5)).minimize(
            loss, tf.train.get_or_create_global_step()
        )
        return EstimatorSpec(mode, loss=loss, train_op=train_op)

    tf.train.create_global_step()
    x = tf.placeholder(tf.float32, [None])
    spec = replicate_model_fn(model_fn, devices=["/cpu:0", "/cpu:1"])({"x": x}, None, "train")
    with tf.Session(config=tf.ConfigProto(device_count={"CPU": 2})) as session:
        session.run(tf.global_variables_initializer())
        session.run(spec.train_op, {x: [1, 2, 3, 4]})
        (weight,) = tf.trainable_variables()
        assert session.run(weight) == 1 - 0.5 * 2.5
        with pytest.raises(tf.errors.InvalidArgumentError, match="must be divisible by the number of towers, 2"):
            session.run(spec.loss, {x: [1, 2, 3]})
