"""An epoch is one pass over the data by all towers, and the first lines of a run say so."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.log_lines import captured_log
from tests.helpers.toy_training import Line, Recorder, line_input
from tpack.callbacks.saver import ModelSaver
from tpack.dataflow.batch import BatchData
from tpack.dataflow.mapping import MapData
from tpack.dataflow.repeat import RepeatedData
from tpack.dataflow.sources import DataFromGenerator, DataFromList
from tpack.input_source.dataset import TFDatasetInput
from tpack.input_source.feed import FeedInput
from tpack.input_source.queue_input import BatchQueueInput, QueueInput
from tpack.input_source.staging import StagingInput
from tpack.input_source.tensors import TensorInput
from tpack.train.config import TrainConfig
from tpack.train.interface import describe_epoch, launch_train_with_config
from tpack.train.resume import AutoResumeTrainConfig
from tpack.train.trainers import SimpleTrainer, SyncMultiGPUTrainerReplicated


def samples(size=1600):
    return DataFromList([[np.float32(0), np.float32(1)]] * size, shuffle=False)


def batches(size=1600, batch=16, **kwargs):
    return BatchData(samples(size), batch, **kwargs)


def dataset(size=100):
    batch = tf.zeros([16])
    return tf.data.Dataset.from_tensors((batch, batch)).repeat(size)


def run(trainer, max_epoch=1, **kwargs):
    config = TrainConfig(model=Line(), monitors=[], max_epoch=max_epoch, **kwargs)
    with captured_log() as lines:
        launch_train_with_config(config, trainer)
    return trainer, config, [line for line in lines if "steps an epoch" in line]


SOURCES = {
    "dataflow": lambda: {"dataflow": batches()},
    "queue": lambda: {"data": QueueInput(batches())},
    "batch queue": lambda: {"data": BatchQueueInput(samples(), 16)},
    "feed": lambda: {"data": FeedInput(batches())},
    "staging": lambda: {"data": StagingInput(QueueInput(batches()))},
    "dataflow as dataset": lambda: {"data": TFDatasetInput(batches())},
    "tensors": lambda: {"data": line_input(size=100)},
}


@pytest.mark.parametrize("name", SOURCES)
def test_four_towers_pass_over_the_data_once_in_an_epoch(name):
    trainer, config, lines = run(SyncMultiGPUTrainerReplicated(4), **SOURCES[name]())
    assert (trainer.steps_per_epoch, config.steps_per_epoch, trainer.global_step) == (25, 25, 25)
    told = "4 towers x 16 = 64 samples a step, 25 steps an epoch = 1.0 passes over 1600 points;"
    unknown = "4 towers, each with its own data, 25 steps an epoch;"
    assert len(lines) == 1
    assert (unknown if name == "tensors" else told) in lines[0]


@pytest.mark.parametrize(("num_towers", "steps"), [(1, 10), (3, 3), (16, 1)])
def test_whole_steps_go_over_the_data_once_as_nearly_as_they_can(num_towers, steps):
    assert QueueInput(batches(160)).steps_of_pass(num_towers) == steps


def test_steps_that_are_given_stay_and_their_passes_are_told():
    trainer, _, lines = run(SyncMultiGPUTrainerReplicated(2), dataflow=batches(), steps_per_epoch=5)
    assert trainer.steps_per_epoch == 5
    assert "2 towers x 16 = 32 samples a step, 5 steps an epoch = 0.1 passes over 1600 points;" in lines[0]


def test_a_config_fits_one_trainer_after_the_other():
    config = TrainConfig(model=Line(), dataflow=batches())
    for num_towers, steps in ((4, 25), (2, 50), (1, 100)):
        config.fit_to_towers(num_towers)
        assert config.steps_per_epoch == steps
    config.steps_per_epoch = 7
    config.fit_to_towers(4)
    assert config.steps_per_epoch == 7


@pytest.mark.parametrize(
    ("flow", "steps", "told"),
    [
        (RepeatedData(batches(160), 3), 30, "16 samples a step, 30 steps an epoch = 1.0 passes over 480"),
        (batches(100, remainder=True), 7, "= 1.1 passes over 100 points"),
        (batches(100, remainder=True), 14, "= 2.2 passes over 100 points"),
        (MapData(batches(160), lambda dp: dp), 10, "1 tower, each with its own data, 10 steps an epoch"),
        (DataFromGenerator(lambda: iter([])), 3, "1 tower, each with its own data, 3 steps an epoch"),
    ],
)
def test_what_is_not_known_is_not_told(flow, steps, told):
    assert told in describe_epoch(QueueInput(flow), 1, steps)


def test_a_dataset_with_an_end_knows_its_size(graph):
    assert TFDatasetInput(dataset).size() == 100
    assert TFDatasetInput(dataset()).size() == 100
    assert TFDatasetInput(dataset).steps_of_pass(4) == 25


@pytest.mark.parametrize("mode", ["graph", "eager"])
def test_a_dataset_without_an_end_has_no_size(mode):
    unknown = [lambda: dataset(None), lambda: dataset().filter(lambda x, y: True)]
    with tf.Graph().as_default() if mode == "graph" else tf.init_scope():
        for make in unknown:
            with pytest.raises(NotImplementedError):
                TFDatasetInput(make).size()


def test_a_dataset_whose_size_is_fed_later_has_none_yet(graph):
    with pytest.raises(NotImplementedError):
        TFDatasetInput(tf.data.Dataset.range(tf.placeholder(tf.int64, []))).size()
    assert graph.get_operations()


def test_a_source_that_gives_all_towers_the_same_may_say_so(graph):
    class Shared(TensorInput):
        def steps_of_pass(self, num_towers):
            return self.size()

    source = StagingInput(Shared(lambda: [], size=10))
    assert source.steps_of_pass(4) == 10


def test_a_resumed_run_counts_passes_of_its_towers(log_dir):
    def resume(num_towers, max_epoch):
        config = AutoResumeTrainConfig(
            model=Line(), dataflow=batches(640), callbacks=[ModelSaver()], monitors=[], max_epoch=max_epoch
        )
        launch_train_with_config(config, SyncMultiGPUTrainerReplicated(num_towers))
        return config

    resume(4, 2)
    config = resume(4, 3)
    assert (config.starting_epoch, config.steps_per_epoch) == (3, 10)
    for path in log_dir.glob("*.train_state.json"):
        path.unlink()
    config = resume(2, 3)
    assert (config.starting_epoch, config.starting_step, config.steps_per_epoch) == (2, 10, 20)


def test_one_tower_takes_as_many_steps_as_there_are_batches():
    recorder = Recorder()
    _, _, lines = run(SimpleTrainer(), dataflow=batches(160), callbacks=[recorder])
    assert recorder.weights["global_step"] == 10
    assert "1 tower x 16 = 16 samples a step, 10 steps an epoch = 1.0 passes over 160 points;" in lines[0]
