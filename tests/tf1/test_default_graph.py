import threading

import pytest
import tensorflow as tf2

import tpack.tf1 as tf
from tests.helpers.toy_training import Line, line_input
from tpack.tf1.default_graph import leave_default_graph
from tpack.train.config import TrainConfig
from tpack.train.interface import launch_train_with_config
from tpack.train.trainers import SimpleTrainer


def test_a_script_builds_and_runs_without_a_graph_of_its_own():
    assert tf2.executing_eagerly()
    x = tf.placeholder(tf.float32, [None])
    total = tf.reduce_sum(x * tf.get_variable("w", [], initializer=tf.ones_initializer()))
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        assert session.run(total, {x: [1, 2]}) == 3
    assert session.graph is tf.get_default_graph() is x.graph
    leave_default_graph()
    assert tf2.constant(3).numpy() == 3


@pytest.mark.parametrize(
    "ask",
    [
        lambda: tf.constant(1),
        lambda: tf.Variable(1.0),
        lambda: tf.math.add,
        lambda: tf.random.normal,
        lambda: tf.data.Dataset,
        lambda: tf.Session(),
        lambda: tf.FIFOQueue(2, [tf.float32]),
        lambda: tf.set_random_seed(3),
    ],
    ids=["constant", "variable", "math", "random", "data", "session", "queue", "seed"],
)
def test_asking_for_what_builds_gives_a_default_graph(ask):
    ask()
    assert not tf2.executing_eagerly()


@pytest.mark.parametrize(
    "ask",
    [
        lambda: tf.float32,
        lambda: tf.TensorShape([2]),
        lambda: tf.ConfigProto(),
        lambda: tf.Graph(),
        lambda: tf.flags.FLAGS,
        lambda: tf.gfile.Exists("/"),
        lambda: tf.executing_eagerly(),
        lambda: tf.disable_eager_execution,
        lambda: tf.random_normal_initializer(),
        lambda: tf.contrib.data,
        lambda: tf.estimator,
    ],
    ids=[
        "dtype",
        "shape",
        "config",
        "graph",
        "flags",
        "gfile",
        "eagerly",
        "switch",
        "initializer",
        "contrib",
        "estimator",
    ],
)
def test_asking_for_something_else_leaves_the_thread_as_it_is(ask):
    ask()
    assert tf2.executing_eagerly()


def test_a_graph_of_the_scripts_own_is_the_one():
    with tf2.Graph().as_default() as own:
        assert tf.constant(1).graph is own
    assert tf2.executing_eagerly()


def test_all_threads_have_the_same_default_graph():
    graphs = [tf.get_default_graph()]
    thread = threading.Thread(target=lambda: graphs.append(tf.constant(1).graph))
    thread.start()
    thread.join()
    assert graphs[1] is graphs[0]


def test_reset_gives_an_empty_graph():
    first = tf.constant(1).graph
    tf.reset_default_graph()
    second = tf.get_default_graph()
    assert second is not first
    assert second.get_operations() == []
    assert tf.constant(1).graph is second


def test_reset_before_anything_was_built_leaves_the_first_graph_to_come():
    tf.reset_default_graph()
    assert tf.constant(1).graph is tf.get_default_graph()


def test_reset_inside_of_another_block_is_an_error():
    tf.constant(1)
    with tf.Graph().as_default(), pytest.raises(AssertionError, match="reset_default_graph"):
        tf.reset_default_graph()
    with tf.Session(), pytest.raises(AssertionError, match="reset_default_graph"):
        tf.reset_default_graph()
    assert tf.constant(1).graph is tf.get_default_graph()


def test_reset_works_with_an_interactive_session():
    session = tf.InteractiveSession()
    assert tf.constant(2).eval() == 2
    session.close()
    tf.reset_default_graph()
    assert tf.get_default_graph().get_operations() == []


def test_a_trainer_builds_into_the_default_graph_as_it_did():
    tf.set_random_seed(5)
    trainer = SimpleTrainer()
    assert trainer.graph is tf.get_default_graph()
    launch_train_with_config(
        TrainConfig(model=Line(), data=line_input(), monitors=[], steps_per_epoch=1, max_epoch=1), trainer
    )
    assert trainer.global_step == 1
