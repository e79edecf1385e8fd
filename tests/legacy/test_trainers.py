"""``Trainer(config).train()`` trains as ``launch_train_with_config`` does, and a cost may be an attribute."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tpack.callbacks.base import Callback
from tpack.dataflow.sources import DataFromList
from tpack.errors import ConfigError, GraphBuildError
from tpack.graph_builder.model_desc import ModelDesc
from tpack.legacy.code.training import InputDesc, QueueInputTrainer
from tpack.tower.tower_func import TowerFunc
from tpack.train.config import TrainConfig
from tpack.train.interface import launch_train_with_config
from tpack.train.trainers import (
    AsyncMultiGPUTrainer,
    SimpleTrainer,
    SyncMultiGPUTrainer,
    SyncMultiGPUTrainerParameterServer,
    SyncMultiGPUTrainerReplicated,
)

POINTS = [[np.float32([[number, 1], [1, number]])] for number in range(4)]


class Model(ModelDesc):
    def _get_inputs(self):
        return [InputDesc(tf.float32, [2, 2], "x")]

    def _build_graph(self, inputs):
        weights = tf.get_variable("W", [2, 1], initializer=tf.ones_initializer())
        self.cost = tf.reduce_mean(tf.square(inputs[0] @ weights), name="cost")

    def _get_optimizer(self):
        return tf.train.GradientDescentOptimizer(0.01)


def test_a_tower_function_is_set_by_a_method_too():
    trainer, function = SimpleTrainer(), TowerFunc(lambda x: None, [tf.TensorSpec([], tf.float32, "x")])
    trainer.set_tower_func(function)
    assert trainer.tower_func is function
    with pytest.raises(ConfigError, match="tower_func"):
        trainer.set_tower_func(Model())


class Keep(Callback):
    def _after_train(self):
        self.weights = self.trainer.sess.run(self.graph.get_collection("trainable_variables")[0])


def config(keep, model=None, **kwargs):
    flow = DataFromList(POINTS, shuffle=False)
    return TrainConfig(
        dataflow=flow, model=model or Model(), callbacks=[keep], extra_callbacks=[], monitors=[], max_epoch=1, **kwargs
    )


def trained(make, **kwargs):
    keep = Keep()
    with tf.Graph().as_default():
        make(config(keep, steps_per_epoch=2, **kwargs)).train()
    return keep.weights


def expected(num_towers):
    keep = Keep()
    trainer = SimpleTrainer if num_towers == 1 else lambda: SyncMultiGPUTrainerReplicated(num_towers)
    with tf.Graph().as_default():
        launch_train_with_config(config(keep, steps_per_epoch=2), trainer())
    return keep.weights


@pytest.mark.parametrize("make", [SimpleTrainer, QueueInputTrainer])
def test_a_trainer_of_one_tower_is_given_a_config(make):
    np.testing.assert_array_equal(trained(make), expected(1))


@pytest.mark.parametrize(
    "make", [SyncMultiGPUTrainer, SyncMultiGPUTrainerReplicated, SyncMultiGPUTrainerParameterServer]
)
def test_a_trainer_of_several_towers_takes_as_many_as_the_config_says(make):
    np.testing.assert_allclose(trained(make, nr_tower=2), expected(2), rtol=1e-6)


def test_other_arguments_go_on_to_the_trainer():
    assert trained(lambda config: AsyncMultiGPUTrainer(config, scale_gradient=False), nr_tower=1).shape == (2, 1)


def test_a_model_without_any_cost_is_refused():
    class NoCost(Model):
        def _build_graph(self, inputs):
            tf.get_variable("W", [2, 1])

    with tf.Graph().as_default(), pytest.raises(GraphBuildError, match="cost"):
        launch_train_with_config(config(Keep(), NoCost(), steps_per_epoch=1), SimpleTrainer())
