import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.fake_trainer import FakeTrainer
from tests.helpers.log_lines import captured_log
from tpack.callbacks.base import Callback, CallbackFactory
from tpack.callbacks.run_op import RunOp, RunUpdateOps
from tpack.callbacks.trigger import PeriodicTrigger
from tpack.errors import CallbackError, GraphBuildError, WrongTypeError
from tpack.input_source.tensors import TensorInput
from tpack.train.trainers import SyncMultiGPUTrainerReplicated


def count_runs(make_callback, **training):
    """Return how often the op that `make_callback` is given ran in a training of 2 epochs of 3 steps."""
    counter = tf.get_variable("counter", initializer=0, use_resource=True, trainable=False)
    add = tf.assign_add(counter, 1)
    found = []
    reader = CallbackFactory(after_train=lambda cb: found.append(int(cb.trainer.sess.run(counter))))
    FakeTrainer().train([make_callback(add), reader], steps_per_epoch=3, epochs=(1, 2))
    return found[0]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, 3),
        ({"run_before": False}, 2),
        ({"run_as_trigger": False}, 1),
        ({"run_step": True}, 9),
        ({"run_before": False, "run_as_trigger": False, "run_step": True}, 6),
        ({"run_before": False, "run_as_trigger": False}, 0),
    ],
)
@pytest.mark.parametrize("as_function", [False, True])
def test_run_op_runs_when_asked(graph, options, expected, as_function):
    assert count_runs(lambda op: RunOp((lambda: op) if as_function else op, **options)) == expected


def test_run_op_costs_a_step_nothing_unless_asked(graph):
    op = tf.no_op()
    assert not RunOp(op).implements("before_run")
    assert RunOp(op, run_step=True).implements("before_run")
    assert RunOp(op).implements("trigger_epoch")
    assert not RunOp(op, run_as_trigger=False).implements("trigger_epoch")


def test_run_op_verbose_says_when(graph):
    with captured_log() as lines:
        FakeTrainer().train([RunOp(tf.no_op(name="work"), verbose=True)], steps_per_epoch=1, epochs=(1, 1))
    assert lines == ["Running operation work before training.", "Running operation work as triggered."]


def test_run_op_of_something_else_is_an_error(graph):
    with pytest.raises(WrongTypeError, match="^RunOp got op="):
        RunOp(3)
    with pytest.raises(CallbackError, match="got op='x': expected an operation or a tensor"):
        RunOp(lambda: "x").setup_graph(FakeTrainer())


@pytest.mark.parametrize("key", [None, "MINE"])
def test_run_update_ops_runs_the_collection_every_step(graph, key):
    def make(op):
        tf.add_to_collection(key or tf.GraphKeys.UPDATE_OPS, op)
        return RunUpdateOps(key)

    assert count_runs(make) == 6


def test_run_update_ops_without_ops_does_nothing(graph):
    assert count_runs(lambda op: RunUpdateOps()) == 0


def train_two_towers(make_op, **options):
    """Return the weights of both towers before each step of two epochs of two, whose steps change nothing."""
    seen = []

    class Weights(Callback):
        def _setup_graph(self):
            self.weights = [tower.get_variable("w") for tower in self.trainer.towers]

        def _trigger_step(self):
            seen.append(self.trainer.sess.run(self.weights))

    def build_graph(x):
        with tf.variable_scope("target"):
            tf.get_variable("w", initializer=1.0, trainable=False)
        return tf.get_variable("w", initializer=0.0) * x

    with tf.Graph().as_default():
        trainer = SyncMultiGPUTrainerReplicated(2)
        trainer.setup_graph(
            [tf.TensorSpec([], tf.float32, "x")],
            TensorInput(lambda: [tf.constant(0.0)], size=2),
            build_graph,
            lambda: tf.train.GradientDescentOptimizer(0.1),
        )
        run = PeriodicTrigger(RunOp(make_op, run_before=False, **options), every_k_steps=1)
        trainer.train_with_defaults(
            callbacks=[run, Weights()], monitors=[], extra_callbacks=[], steps_per_epoch=2, max_epoch=2
        )
    return seen


def named(name):
    return next(variable for variable in tf.global_variables() if variable.op.name == name)


def test_what_changes_the_main_tower_changes_all_towers_at_once():
    assert train_two_towers(lambda: tf.assign_add(named("w"), 1.0)) == [[1, 1], [2, 2], [3, 3], [4, 4]]


def test_copies_that_the_operation_changes_itself_are_left_to_it():
    def change_both():
        copy = next(variable for variable in tf.local_variables() if variable.op.name == "tower1/w")
        return tf.group(tf.assign_add(named("w"), 1.0), tf.assign_add(copy, 10.0))

    # What is copied before an epoch makes them equal again.
    assert train_two_towers(change_both) == [[1, 10], [2, 20], [3, 12], [4, 22]]


@pytest.mark.parametrize("find", [lambda: named("target/w"), lambda: tf.get_default_graph().get_tensor_by_name("w:0")])
def test_the_handle_of_a_variable_is_taken_as_its_value(find):
    assert train_two_towers(lambda: named("w").assign(named("target/w") + 0 * find())) == [[1, 1]] * 4


def test_a_target_network_is_copied_as_scripts_of_the_field_write_it(graph):
    network, target = tf.get_variable("w", initializer=3.0), tf.get_variable("target/w", initializer=0.0)
    seen = []
    update = RunOp(lambda: target.assign(tf.get_default_graph().get_tensor_by_name("w:0")))
    reader = CallbackFactory(after_train=lambda cb: seen.append(cb.trainer.sess.run([network, target])))
    FakeTrainer(tf.no_op()).train([update, reader], steps_per_epoch=1, epochs=(1, 1))
    assert seen == [[3.0, 3.0]]
    assert graph.get_tensor_by_name("w:0").dtype == tf.resource


def test_a_handle_that_comes_by_another_way_is_an_error_that_says_what_to_write(graph):
    variable = tf.get_variable("w", initializer=3.0)
    update = RunOp(lambda: variable.assign(graph.get_operation_by_name("w").outputs[0]))
    with pytest.raises(GraphBuildError, match=r"the handle of a variable is used as .* its read_value\(\)"):
        update.setup_graph(FakeTrainer(tf.no_op()))
