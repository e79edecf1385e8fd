"""The cost is a statistic of every training, and the mean over the towers, without anybody asking for it."""

import re

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.log_lines import captured_log
from tpack.callbacks.summary import MergeAllSummaries
from tpack.dataflow.sources import DataFromList
from tpack.distribute.strategies import MirroredStrategy
from tpack.distribute.trainer import StrategyTrainer
from tpack.errors import CallbackError
from tpack.graph_builder.model_desc import ModelDesc
from tpack.tfutils.summary import add_moving_summary
from tpack.tower.collections import STATISTICS_KEY
from tpack.tower.context import current_tower_context
from tpack.train.config import TrainConfig
from tpack.train.interface import launch_train_with_config
from tpack.train.trainers import (
    AsyncMultiGPUTrainer,
    NoOpTrainer,
    SimpleTrainer,
    SyncMultiGPUTrainerParameterServer,
    SyncMultiGPUTrainerReplicated,
)

NUMBERS = [1.0, 2.0, 4.0, 9.0]
"""What the towers get in turn; the cost is the square of it, whatever is learned."""


class Square(ModelDesc):
    def __init__(self, name="", summarises=False, notes=False):
        self.name, self.summarises, self.notes = name, summarises, notes

    def inputs(self):
        return [tf.TensorSpec([], tf.float32, "x")]

    def build_graph(self, x):
        weight = tf.get_variable("w", initializer=0.0, use_resource=True)
        cost = tf.add(tf.square(x), 0 * weight, name=self.name or None)
        if self.summarises:
            add_moving_summary(cost)
        if self.notes and current_tower_context().is_training:
            tf.add_to_collection(STATISTICS_KEY, tf.identity(x, "number"))
        return cost

    def optimizer(self):
        return tf.train.GradientDescentOptimizer(0.1)


TRAINERS = {
    "simple": (1, SimpleTrainer),
    "replicated": (4, lambda: SyncMultiGPUTrainerReplicated(4)),
    "shared": (2, lambda: SyncMultiGPUTrainerParameterServer(2)),
    "asynchronous": (2, lambda: AsyncMultiGPUTrainer(2)),
    "strategy": (2, lambda: StrategyTrainer(MirroredStrategy(num_gpus=2))),
    "half": (2, lambda: SyncMultiGPUTrainerReplicated(2, precision="float16")),
}


def train(make_trainer, model, *, steps, **kwargs):
    with tf.Graph().as_default(), captured_log() as lines:
        trainer = make_trainer()
        flow = DataFromList([[np.float32(number)] for number in NUMBERS], shuffle=False)
        config = TrainConfig(model=model, dataflow=flow, monitors=[], steps_per_epoch=steps, max_epoch=1, **kwargs)
        launch_train_with_config(config, trainer)
    return trainer, lines


def average_of(values, decay=0.95):
    weights = [decay**age for age in range(len(values))][::-1]
    return np.average(values, weights=weights)


@pytest.mark.parametrize("name", TRAINERS)
@pytest.mark.parametrize("steps_per_call", [1, 4])
def test_the_mean_of_the_towers_is_the_statistic_cost(name, steps_per_call):
    num_towers, make = TRAINERS[name]
    trainer, _ = train(make, Square(notes=True), steps=4, steps_per_call=steps_per_call)
    # Which tower takes which number is not said, but those of a step are the next ones.
    numbers = np.reshape(NUMBERS * num_towers, [-1, num_towers])[:4]
    monitors = trainer.monitors
    assert monitors.get_history("cost") == [pytest.approx(average_of(np.mean(numbers**2, axis=1)), rel=1e-3)]
    assert monitors.get_latest("number") == pytest.approx(average_of(np.mean(numbers, axis=1)), rel=1e-3)


@pytest.mark.parametrize(("name", "known_as"), [("total_cost", "total_cost"), ("cost", "cost")])
def test_a_cost_that_the_model_summarises_itself_is_told_once(name, known_as):
    trainer, _ = train(SimpleTrainer, Square(name, summarises=True), steps=4)
    assert list(trainer.statistics) == [known_as]
    assert trainer.monitors.get_history(known_as) == [pytest.approx(average_of(np.square(NUMBERS)))]
    if known_as != "cost":
        with pytest.raises(CallbackError, match="'cost'"):
            trainer.monitors.get_latest("cost")


@pytest.mark.parametrize(
    ("make", "kwargs"), [(SimpleTrainer, {"extra_callbacks": [MergeAllSummaries()]}), (NoOpTrainer, {})]
)
def test_where_no_average_is_made_there_is_no_statistic(make, kwargs):
    trainer, _ = train(make, Square(), steps=1, **kwargs)
    with pytest.raises(CallbackError, match="'cost'"):
        trainer.monitors.get_latest("cost")


def test_the_first_lines_say_what_is_done_and_how_long_building_took():
    _, lines = train(TRAINERS["replicated"][1], Square(), steps=4)
    (about,) = [line for line in lines if "steps an epoch" in line]
    assert "; float32; gradients reduced by round_robin (copies between" in about
    assert about.endswith("; data from DataFromList through QueueInput.")
    (ready,) = [line for line in lines if "Building the graph" in line]
    assert re.search(r"of [\d,]+ operations took .* seconds?, .* The first step prepares it, and takes longer", ready)
    assert sum("round_robin" in line for line in lines) == 1
