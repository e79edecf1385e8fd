"""Counts of floating-point operations are those of the formulas, of what runs."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.optimizer_workers import Parts, adamw
from tests.helpers.sessions import cpu_session
from tpack.errors import ConfigError
from tpack.graph_builder.model_desc import ModelDesc
from tpack.input_source.tensors import TensorInput
from tpack.models import Conv2D, FullyConnected
from tpack.optimizers.rerouting import Recompute
from tpack.train.config import TrainConfig
from tpack.train.interface import launch_train_with_config
from tpack.train.trainers import SimpleTrainer, SyncMultiGPUTrainerReplicated
from tpack.tuning.flops import ModelFlops, count_flops

BATCH, SIZE, FIRST, SECOND, OUT = 3, 8, 5, 7, 4


class Net(ModelDesc):
    def __init__(self, wrap=lambda opt: opt):
        self._wrap = wrap

    def inputs(self):
        return [tf.TensorSpec([None, SIZE, SIZE, 2], tf.float32, "x")]

    def build_graph(self, x):
        with tf.variable_scope("block"):
            x = Conv2D("first", x, FIRST, 3, activation=tf.nn.relu)
            x = Conv2D("second", x, SECOND, 3, strides=2, activation=tf.nn.relu)
        return tf.reduce_mean(tf.square(FullyConnected("fc", x, OUT)), name="cost")

    def optimizer(self):
        return self._wrap(tf.train.GradientDescentOptimizer(0.1))


FORWARD = [
    2 * BATCH * SIZE**2 * FIRST * 9 * 2,
    2 * BATCH * (SIZE // 2) ** 2 * SECOND * 9 * FIRST,
    2 * BATCH * (SIZE // 2) ** 2 * SECOND * OUT,
]
# There is no gradient for the input of the first convolution.
STEP = 2 * FORWARD[0] + 3 * (FORWARD[1] + FORWARD[2])


def train(model, trainer, **options):
    images = np.ones([BATCH, SIZE, SIZE, 2], "float32")
    config = TrainConfig(
        model=model,
        data=TensorInput(lambda: [tf.placeholder_with_default(tf.constant(images), [None, SIZE, SIZE, 2])], size=4),
        callbacks=[ModelFlops(peak_flops=1e9)],
        steps_per_epoch=4,
        max_epoch=2,
        **options,
    )
    launch_train_with_config(config, trainer)
    return trainer.monitors


@pytest.mark.parametrize(
    ("trainer", "towers", "options"),
    [
        (SimpleTrainer, 1, {}),
        (lambda: SyncMultiGPUTrainerReplicated(3), 3, {}),
        (SimpleTrainer, 1, {"session_config": tf.ConfigProto()}),
    ],
    ids=["one", "three", "rewritten"],
)
def test_a_step_has_the_operations_of_its_convolutions_and_products(log_dir, trainer, towers, options):
    monitors = train(Net(), trainer(), **options)
    assert monitors.get_latest("flops/step") == towers * STEP
    assert monitors.get_latest("flops/mfu") == pytest.approx(monitors.get_latest("flops/sec") / 1e9)
    assert monitors.get_latest("flops/sec") > 0


def test_activations_that_are_computed_again_count(log_dir):
    monitors = train(Net(lambda opt: Recompute(opt, "block")), SimpleTrainer())
    # The output of the block is kept, so that of it the first convolution alone is made again.
    assert monitors.get_latest("flops/step") == STEP + FORWARD[0]


def test_several_steps_of_a_call_are_one_after_the_other(log_dir):
    assert train(Net(), SimpleTrainer(), steps_per_call=2).get_latest("flops/step") == STEP


def test_gradients_of_frozen_layers_do_not_count(log_dir):
    def flops(model):
        trainer = SimpleTrainer()
        config = TrainConfig(
            model=model,
            data=TensorInput(lambda: [tf.ones([6, 4])], size=4),
            callbacks=[ModelFlops()],
            steps_per_epoch=4,
            max_epoch=2,
        )
        launch_train_with_config(config, trainer)
        return trainer.monitors.get_history("flops/step")

    body, head = 2 * 6 * 4 * 4, 2 * 6 * 4
    # The body has no gradient for its input.
    whole = 2 * body + 3 * head
    assert flops(Parts(adamw)) == [whole, whole]
    assert flops(Parts()) == [body + 2 * head, whole]


def given(*shape):
    """Return values that are not folded into a constant."""
    return tf.random.uniform(shape)


def counted(build):
    with tf.Graph().as_default() as graph, cpu_session(graph, rewrites=False) as session:
        result = build()
        traced = tf.RunMetadata()
        session.run(result, options=tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE), run_metadata=traced)
        return count_flops(traced, graph)


def test_repetitions_in_a_loop_count():
    def build():
        w = given(4, 4)
        return tf.while_loop(lambda i, x: i < 5, lambda i, x: (i + 1, x @ w), [0, given(3, 4)])[1]

    assert counted(build) == 5 * 2 * 3 * 4 * 4


@pytest.mark.parametrize(
    ("build", "wanted"),
    [
        (lambda: tf.matmul(given(7, 3, 4), given(7, 4, 5)), 2 * 7 * 3 * 4 * 5),
        (lambda: tf.matmul(given(4, 3), given(5, 4), transpose_a=True, transpose_b=True), 2 * 3 * 4 * 5),
        (lambda: tf.einsum("bqhd,bkhd->bhqk", given(2, 3, 4, 5), given(2, 6, 4, 5)), 2 * 2 * 3 * 4 * 5 * 6),
        (
            lambda: tf.nn.depthwise_conv2d(given(2, 6, 6, 3), given(3, 3, 3, 2), [1, 1, 1, 1], "SAME"),
            2 * 2 * 36 * 6 * 9,
        ),
        (lambda: tf.exp(given(5)), 0),
    ],
    ids=["batch", "transposed", "einsum", "depthwise", "none"],
)
def test_products_are_counted_by_their_shapes(build, wanted):
    assert counted(build) == wanted


def test_a_peak_must_be_positive():
    with pytest.raises(ConfigError, match="peak_flops=0"):
        ModelFlops(0)
