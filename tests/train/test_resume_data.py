"""An interrupted run and an uninterrupted one see the same sequence of data points."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.log_lines import captured_log
from tests.helpers.toy_training import line_input
from tpack.callbacks.base import Callback
from tpack.callbacks.saver import ModelSaver
from tpack.callbacks.trigger import PeriodicTrigger
from tpack.dataflow import BatchData, DataFlow, DataFromList, FakeData, LocallyShuffleData
from tpack.errors import CheckpointError, InputError, StopTraining
from tpack.graph_builder.model_desc import ModelDesc
from tpack.input_source import FeedInput, QueueInput, StagingInput
from tpack.tfutils.checkpoint import latest_checkpoint
from tpack.tfutils.train_state import write_data_state
from tpack.train.interface import launch_train_with_config
from tpack.train.resume import AutoResumeTrainConfig
from tpack.train.trainers import SyncMultiGPUTrainerReplicated
from tpack.utils.rng import fix_rng_seed

STEPS_PER_EPOCH = 5


class Labels(ModelDesc):
    """Names the labels that a tower sees."""

    def inputs(self):
        return [tf.TensorSpec([None], tf.int64, "label")]

    def build_graph(self, label):
        tf.identity(label, name="seen")
        return tf.reduce_mean(tf.cast(label, tf.float32) * tf.get_variable("w", [], initializer=tf.ones_initializer()))

    def optimizer(self):
        return tf.train.GradientDescentOptimizer(0.0)


class Watch(Callback):
    """Keeps the labels of every step, and ends training at one."""

    def __init__(self, stop_at):
        self.seen = {}
        self._stop_at = stop_at

    def _before_run(self, ctx):
        return [tower.get_tensors(["seen"])[0] for tower in self.trainer.towers.training()]

    def _after_run(self, ctx, values):
        self._labels = [label for tower in values.results for label in tower.tolist()]

    def _trigger_step(self):
        self.seen[self.global_step] = self._labels
        if self.global_step == self._stop_at:
            raise StopTraining("the test wants it")


@pytest.fixture(autouse=True)
def no_seed():
    yield
    fix_rng_seed(None)


def flow():
    return BatchData(LocallyShuffleData(DataFromList([[np.int64(k)] for k in range(50)]), 20), 2)


def train(data, stop_at=None, max_epoch=3, **kwargs):
    """Train as far as a step; return the labels of each step that was made."""
    watch = Watch(stop_at)
    config = AutoResumeTrainConfig(
        model=Labels(),
        data=data,
        callbacks=[PeriodicTrigger(ModelSaver(max_to_keep=2), every_k_steps=3), watch],
        steps_per_epoch=STEPS_PER_EPOCH,
        max_epoch=max_epoch,
        **kwargs,
    )
    launch_train_with_config(config, SyncMultiGPUTrainerReplicated(2))
    return watch.seen


@pytest.mark.parametrize(
    "make", [QueueInput, FeedInput, lambda ds: StagingInput(QueueInput(ds))], ids=["queue", "feed", "staged"]
)
def test_an_interrupted_run_sees_what_an_uninterrupted_one_sees(log_dir, make):
    fix_rng_seed(1)
    ds = flow()
    ds.reset_state()
    points = iter(ds)
    expected = {step: sum((next(points)[0].tolist() for _ in range(2)), []) for step in range(1, 16)}

    fix_rng_seed(1)
    runs = [train(make(flow()), stop_at=4)]
    fix_rng_seed(None)
    runs += [train(make(flow()), stop_at=8), train(make(flow()))]
    # Checkpoints are those of each third step.
    assert [list(run) for run in runs] == [list(range(1, 5)), list(range(4, 9)), list(range(7, 16))]
    for run in runs:
        assert run == {step: expected[step] for step in run}
    states = {path.name.split(".")[0] for path in log_dir.glob("*.data_state.msgpack")}
    assert states == {path.stem for path in log_dir.glob("*.index")} == {"model-12", "model-15"}


def test_data_can_begin_anew(log_dir):
    ordered = BatchData(DataFromList([[np.int64(k)] for k in range(50)], shuffle=False), 1)
    train(QueueInput(ordered), stop_at=3)
    assert train(QueueInput(ordered), stop_at=4, resume_data=False) == {4: [0, 1]}
    assert train(QueueInput(ordered), stop_at=4) == {4: [6, 7]}


def test_a_flow_without_positions_trains_and_begins_anew(log_dir):
    class Plain(DataFlow):
        def __iter__(self):
            for k in range(100):
                yield [np.array([k])]

    with captured_log() as lines:
        train(QueueInput(Plain()), stop_at=7)
        resumed = train(QueueInput(Plain()), stop_at=7)
    assert resumed == {7: [0, 1]}
    assert not list(log_dir.glob("*.data_state.msgpack"))
    said = [line for line in lines if "begin anew" in line or "start from the beginning" in line]
    assert len([line for line in said if "Plain cannot tell its position" in line]) == 1
    assert len([line for line in said if "model-6 has no position in the data" in line]) == 1


def test_another_dataflow_is_an_error_that_says_what_to_do(log_dir):
    train(QueueInput(flow()), stop_at=3)
    with pytest.raises(InputError, match="Build the same dataflow, or .*resume_data=False"):
        train(QueueInput(BatchData(FakeData([[]], 100, dtype="int64", random=False), 2)), stop_at=6)
    assert train(
        QueueInput(BatchData(FakeData([[]], 100, dtype="int64", random=False), 2)), stop_at=4, resume_data=False
    )


def test_an_input_without_positions_begins_anew(log_dir):
    train(QueueInput(flow()), stop_at=3)
    with captured_log() as lines:
        AutoResumeTrainConfig(model=Labels(), data=line_input(), steps_per_epoch=STEPS_PER_EPOCH)
    assert any("The data start from the beginning: the data of TensorInput have no position" in line for line in lines)


def test_a_damaged_position_is_an_error(log_dir):
    train(QueueInput(flow()), stop_at=3)
    write_data_state(latest_checkpoint(str(log_dir)), {}, 3)
    with pytest.raises(CheckpointError, match="model-3.data_state.msgpack holds no position in the data: Position got"):
        train(QueueInput(flow()), stop_at=6)
