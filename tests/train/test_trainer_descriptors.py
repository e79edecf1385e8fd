"""A training gives back what it has opened when it ends, and not when the garbage collector looks at it."""

import gc
import os

import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.toy_training import Line, points
from tpack.callbacks.inference.inferencers import ScalarStats
from tpack.callbacks.inference.runners import InferenceRunner
from tpack.callbacks.saver import ModelSaver
from tpack.dataflow.parallel.process_map import MultiProcessMapData
from tpack.dataflow.parallel.threads import MultiThreadMapData
from tpack.dataflow.sources import DataFromList
from tpack.input_source.queue_input import QueueInput
from tpack.train.config import TrainConfig
from tpack.train.interface import launch_train_with_config
from tpack.train.trainers import SimpleTrainer


def same(point):
    return point


SOURCES = {
    "threads": lambda ds: QueueInput(MultiThreadMapData(ds, 2, same)),
    "processes": lambda ds: QueueInput(MultiProcessMapData(ds, 1, same)),
}


def train(source, log_dir):
    with tf.Graph().as_default():
        validation = InferenceRunner(QueueInput(DataFromList(points())), ScalarStats("cost"))
        config = TrainConfig(
            model=Line(),
            data=source(DataFromList(points())),
            callbacks=[ModelSaver(), validation],
            steps_per_epoch=2,
            max_epoch=1,
            log_dir=log_dir,
        )
        launch_train_with_config(config, SimpleTrainer())


def descriptors():
    found = []
    for descriptor in os.listdir("/proc/self/fd"):
        # The one that lists the directory is gone.
        if os.path.lexists(path := f"/proc/self/fd/{descriptor}"):
            found.append(os.readlink(path))
    return sorted(found)


@pytest.fixture
def no_collection():
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.parametrize("source", SOURCES)
def test_no_descriptor_stays_after_a_training(log_dir, no_collection, source):
    train(QueueInput, log_dir)
    before = descriptors()
    train(SOURCES[source], log_dir)
    assert descriptors() == before
