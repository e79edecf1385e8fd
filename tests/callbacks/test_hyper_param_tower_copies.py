"""Variables inside of towers are set in every tower before the next step, shared ones once."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.fake_trainer import FakeTrainer
from tests.helpers.toy_training import Line, line_input
from tpack.callbacks.base import Callback
from tpack.callbacks.param_setters import ScheduledHyperParamSetter
from tpack.callbacks.run_op import copies_in_towers
from tpack.train.trainers import SimpleTrainer, SyncMultiGPUTrainerParameterServer, SyncMultiGPUTrainerReplicated


class Scaled(Line):
    """A line whose cost is scaled by a variable inside of the tower."""

    def build_graph(self, x, y):
        scale = tf.get_variable("scale", initializer=1.0, trainable=False)
        return super().build_graph(x, y) * scale


class Watch(Callback):
    """Reads a variable and all its copies before each step, in a run of its own: the step would write meanwhile."""

    def __init__(self, name):
        self.name = name
        self.seen = []

    def _setup_graph(self):
        variable = self.trainer.towers.training()[0].get_variable(self.name)
        self.copies = [copy for main, copy in copies_in_towers(self.trainer) if main is variable]
        self.values = tf.stack([v.read_value() for v in (variable, *self.copies)])

    def _before_run(self, ctx):
        self.seen.append(self.trainer.sess.run(self.values).tolist())


def train(trainer, callbacks):
    model = Scaled()
    trainer.setup_graph(model.get_input_signature(), line_input(None), model.build_graph, model.get_optimizer)
    trainer.train_with_defaults(callbacks=callbacks, extra_callbacks=[], monitors=[], steps_per_epoch=4, max_epoch=1)


@pytest.mark.parametrize(
    ("trainer", "num_copies"),
    [
        (SimpleTrainer, 0),
        (lambda: SyncMultiGPUTrainerReplicated(3), 2),
        (lambda: SyncMultiGPUTrainerParameterServer(2), 0),
    ],
    ids=["simple", "replicated", "parameter server"],
)
def test_a_step_based_schedule_reaches_every_tower_before_the_next_step(trainer, num_copies):
    watch = Watch("scale")
    schedule = [(0, 2.0), (1, 3.0), (3, 0.5)]
    train(trainer(), [watch, ScheduledHyperParamSetter("scale", schedule, step_based=True)])
    assert len(watch.copies) == num_copies
    assert watch.seen == [[value] * (1 + num_copies) for value in (2.0, 3.0, 3.0, 0.5)]


def test_weights_of_towers_stay_equal_while_a_variable_in_them_is_set():
    watch = Watch("w")
    schedule = [(0, 0.0), (3, 2.0)]
    train(
        SyncMultiGPUTrainerReplicated(2),
        [watch, ScheduledHyperParamSetter("scale", schedule, interp="linear", step_based=True)],
    )
    weights = np.array(watch.seen)
    np.testing.assert_array_equal(weights[:, 0], weights[:, 1])
    # With a scale of 0 the first step changes nothing; the third changes three halves as much as it would at 1.
    assert weights[1, 0] == weights[0, 0] == 0
    assert weights[2, 0] != 0


def test_a_learning_rate_made_by_the_optimizer_is_shared_and_has_no_copies():
    found = []

    class Find(Callback):
        def _setup_graph(self):
            rate = next(v for v in tf.global_variables() if v.op.name == "learning_rate")
            found.append([copy for main, copy in copies_in_towers(self.trainer) if main is rate])

    train(SyncMultiGPUTrainerReplicated(2), [Find(), ScheduledHyperParamSetter("learning_rate", [(0, 0.0)])])
    assert found == [[]]


def test_a_trainer_without_towers_has_no_copies(graph):
    assert copies_in_towers(FakeTrainer()) == []
