"""A step that fails says which line of the program made the operation that failed, in whichever tower it is."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.sessions import cpu_session
from tpack.dataflow.sources import DataFromList
from tpack.graph_builder.model_desc import ModelDesc
from tpack.models.fc import FullyConnected
from tpack.step.op_traceback import with_origin
from tpack.train.config import TrainConfig
from tpack.train.interface import launch_train_with_config
from tpack.train.trainers import SimpleTrainer, SyncMultiGPUTrainerReplicated

LINE = "losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=label, logits=logits)"


class Labels(ModelDesc):
    def inputs(self):
        return [tf.TensorSpec([None, 4], tf.float32, "x"), tf.TensorSpec([None], tf.int32, "label")]

    def build_graph(self, x, label):
        logits = FullyConnected("fc", x, 5)
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=label, logits=logits)
        return tf.reduce_mean(losses, name="cost")

    def optimizer(self):
        return tf.train.GradientDescentOptimizer(0.1)


@pytest.mark.parametrize(
    ("trainer", "tower"),
    [(SimpleTrainer, 0), *((lambda: SyncMultiGPUTrainerReplicated(4), tower) for tower in (0, 1, 3))],
    ids=["one tower", "the first", "the second", "a copied one"],
)
def test_the_line_of_the_model_is_told(trainer, tower):
    config = TrainConfig(
        model=Labels(),
        # A batch of two for each tower, of which one has a label that there is no class for.
        dataflow=DataFromList(
            [[np.zeros([2, 4], np.float32), np.full(2, 5 * (number == tower), np.int32)] for number in range(4)],
            shuffle=False,
        ),
        steps_per_epoch=4 if trainer is SimpleTrainer else 1,
        max_epoch=1,
        monitors=[],
    )
    with pytest.raises(tf.errors.InvalidArgumentError) as raised:
        launch_train_with_config(config, trainer())
    *message, where, hint = str(raised.value).splitlines()
    assert any("Received a label value of 5" in line for line in message)
    assert f"{__file__}, line " in where
    assert where.endswith(f", in build_graph: {LINE}")
    assert hint.startswith("tpack.dataflow.dataset.check_labels(")


def test_an_operation_of_a_trainer_and_one_that_nobody_knows_are_left_alone():
    with tf.Graph().as_default() as graph, cpu_session(graph, num_cpus=1) as session:
        with pytest.raises(tf.errors.InvalidArgumentError) as raised:
            session.run(tf.placeholder(tf.float32, [], name="x"))
        unknown = tf.errors.InvalidArgumentError(None, None, "it failed [[{{node gone}}]]")
        assert with_origin(unknown, graph) is unknown
        plain = tf.errors.InvalidArgumentError(None, None, "it failed")
        assert with_origin(plain, graph) is plain
        told = with_origin(tf.errors.AbortedError(None, None, "it failed {{node x}}"), graph)
    assert type(told) is tf.errors.AbortedError
    assert raised.value.op.name == "x"
    assert f"x was made in {__file__}, line " in str(told)
