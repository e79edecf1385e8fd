import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.fake_trainer import FakeTrainer
from tests.helpers.log_lines import captured_log
from tpack.callbacks.base import CallbackFactory
from tpack.callbacks.run_op import RunOp, RunUpdateOps
from tpack.errors import CallbackError


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
    with pytest.raises(CallbackError, match="runs an operation or a tensor, got int: 3"):
        RunOp(3)
    with pytest.raises(CallbackError, match="runs an operation or a tensor, got str: 'x'"):
        RunOp(lambda: "x").setup_graph(FakeTrainer())


@pytest.mark.parametrize("key", [None, "MINE"])
def test_run_update_ops_runs_the_collection_every_step(graph, key):
    def make(op):
        tf.add_to_collection(key or tf.GraphKeys.UPDATE_OPS, op)
        return RunUpdateOps(key)

    assert count_runs(make) == 6


def test_run_update_ops_without_ops_does_nothing(graph):
    assert count_runs(lambda op: RunUpdateOps()) == 0
