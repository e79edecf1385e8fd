"""Queue runners of a graph run beside the steps of a session, and end with it."""

import threading

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError
from tpack.graph_builder.model_desc import ModelDesc
from tpack.input_source.tensors import TensorInput
from tpack.predict.config import PredictConfig
from tpack.predict.feedfree import FeedfreePredictor
from tpack.step.queue_runners import QueueRunnerThreads
from tpack.train.config import TrainConfig
from tpack.train.interface import launch_train_with_config
from tpack.train.trainers import SimpleTrainer


class Model(ModelDesc):
    def inputs(self):
        return [tf.TensorSpec([], tf.int32, "number")]

    def build_graph(self, number):
        weight = tf.get_variable("weight", initializer=0.0)
        tf.identity(number, name="seen")
        return tf.square(weight - tf.cast(number, tf.float32))

    def optimizer(self):
        return tf.train.GradientDescentOptimizer(0.1)


def numbers():
    return [tf.train.range_input_producer(3, shuffle=False).dequeue()]


def test_a_training_starts_them_and_ends_them(log_dir):
    before = set(threading.enumerate())
    config = TrainConfig(
        model=Model(), data=TensorInput(numbers, 3), steps_per_epoch=6, max_epoch=2, callbacks=[], log_dir=log_dir
    )
    trainer = SimpleTrainer()
    launch_train_with_config(config, trainer)
    assert trainer.loop.global_step == 12
    assert trainer.get_weights()["weight"] != 0
    assert not [thread for thread in set(threading.enumerate()) - before if "QueueRunner" in thread.name]


def test_a_predictor_of_its_own_input_starts_them():
    config = PredictConfig(model=Model(), input_names=["number"], output_names=["seen"])
    with FeedfreePredictor(config, TensorInput(numbers, 3)) as predict:
        np.testing.assert_array_equal([predict()[0] for _ in range(5)], [0, 1, 2, 0, 1])


@pytest.mark.usefixtures("graph")
def test_the_error_of_a_thread_is_kept():
    queue = tf.FIFOQueue(2, [tf.float32], shapes=[[]])
    tf.train.add_queue_runner(tf.train.QueueRunner(queue, [queue.enqueue(tf.py_func(_fail, [], tf.float32))]))
    session = tf.Session()
    threads = QueueRunnerThreads(session)
    for thread in threads._threads:
        thread.join()
    assert "no more numbers" in str(threads.failure())
    threads.end()


def _fail():
    raise ConfigError("no more numbers")


@pytest.mark.usefixtures("graph")
def test_without_runners_nothing_is_started():
    with tf.Session() as session:
        threads = QueueRunnerThreads(session)
        threads.end()
        assert threads.callbacks() == []
        assert session.run(tf.constant(1)) == 1
