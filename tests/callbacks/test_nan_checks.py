import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.fake_trainer import FakeTrainer
from tests.helpers.log_lines import captured_log
from tpack.callbacks.nan_checks import CheckCost, CheckNumerics
from tpack.errors import NumericsError
from tpack.tfutils.optimizer import AccumGradOptimizer


def make_train_op(learning_rate=1.0):
    """A step whose cost is log(w) and takes 1 off w, which begins at 2: from the third step on it is not finite."""
    weight = tf.get_variable("w", initializer=2.0, use_resource=True)
    cost = tf.log(weight, name="cost")
    with tf.control_dependencies([tf.identity(cost, name="total_cost")]):
        return tf.assign_sub(weight, learning_rate).op


@pytest.mark.parametrize(("in_each_step", "fetched"), [(False, 1), (True, 3)])
def test_the_cost_can_be_fetched_in_each_step(graph, in_each_step, fetched):
    class Counting(CheckCost):
        seen = 0

        def _after_run(self, ctx, values):
            super()._after_run(ctx, values)
            self.seen += values.results is not None

    train_op = make_train_op(0.0)
    callback = Counting([graph.get_tensor_by_name("cost:0")], in_each_step=in_each_step)
    FakeTrainer(train_op).train([callback], steps_per_epoch=3, epochs=(1, 1))
    assert callback.seen == fetched


def test_every_step_can_be_checked(graph):
    trainer = FakeTrainer(make_train_op())
    with pytest.raises(NumericsError, match="NaN or infinity at step 2: cost:0, total_cost:0"):
        trainer.train([CheckNumerics(run_as_trigger=False, run_step=True)], steps_per_epoch=10)


def test_trigger_checks_the_coming_step(graph):
    trainer = FakeTrainer(make_train_op())
    with pytest.raises(NumericsError, match="at step 3: cost:0"):
        trainer.train([CheckNumerics()], steps_per_epoch=3, epochs=(1, 5))


def test_only_the_step_after_a_trigger_is_checked(graph):
    class Counting(CheckNumerics):
        checked = 0

        def _before_run(self, ctx):
            fetches = super()._before_run(ctx)
            self.checked += fetches is not None
            return fetches

    callback = Counting()
    FakeTrainer(make_train_op(0.0)).train([callback], steps_per_epoch=3, epochs=(1, 3))
    assert callback.checked == 2


def test_trigger_checks_variables_at_once(graph):
    weight = tf.get_variable("layer/w", initializer=1.0, use_resource=True)
    trainer = FakeTrainer(tf.assign(weight, float("nan")).op)
    with pytest.raises(NumericsError, match="at step 1: layer/w:0$"):
        trainer.train([CheckNumerics()], steps_per_epoch=1, epochs=(1, 1))


def test_many_bad_tensors_are_counted(graph):
    value = tf.get_variable("v", initializer=float("inf"), use_resource=True).read_value()
    for _ in range(8):
        value = tf.identity(value)
    with pytest.raises(NumericsError, match="and [0-9]+ more$"):
        FakeTrainer(value.op).train([CheckNumerics(run_step=True)])


def test_constants_and_loop_bodies_are_left_alone(graph):
    infinite = tf.constant(float("inf"))
    finite = tf.where(tf.is_finite(infinite), infinite, 0.0)
    looped = tf.while_loop(lambda i: i < 3.0, lambda i: i + 1.0, [finite])
    trainer = FakeTrainer(looped.op).train([CheckNumerics(run_step=True)])
    assert trainer.global_step == 4


@pytest.mark.parametrize("factor", [1.0, float("inf")])
def test_fused_batch_normalisation_is_checked(graph, factor):
    x = tf.get_variable("x", initializer=np.arange(16, dtype="float32").reshape(2, 2, 2, 2), use_resource=True)
    y, *_ = tf.nn.fused_batch_norm(x * factor, tf.ones(2), tf.zeros(2), name="norm")
    train_op = tf.train.GradientDescentOptimizer(0.1).minimize(tf.reduce_sum(y**2))
    trainer = FakeTrainer(train_op)
    if factor == 1.0:
        trainer.train([CheckNumerics(run_step=True)], steps_per_epoch=3)
        assert trainer.global_step == 6
    else:
        with pytest.raises(NumericsError, match="step 0: mul:0, norm"):
            trainer.train([CheckNumerics(run_step=True)], steps_per_epoch=3)


@pytest.mark.parametrize("gradient", [1.0, float("inf")])
def test_what_an_optimizer_does_on_some_steps_is_left_alone(graph, gradient):
    weight = tf.get_variable("w", initializer=1.0, use_resource=True)
    cost = tf.square(tf.multiply(weight, gradient, name="scaled"))
    trainer = FakeTrainer(AccumGradOptimizer(tf.train.GradientDescentOptimizer(0.1), 2).minimize(cost))
    callback = CheckNumerics(run_step=True)
    if gradient == 1.0:
        trainer.train([callback], steps_per_epoch=4)
        assert "scaled:0" in [tensor.name for tensor in callback._tensors]
    else:
        with pytest.raises(NumericsError, match="at step 0: scaled:0"):
            trainer.train([callback], steps_per_epoch=4)


def test_trainer_without_train_op_has_only_variables_checked(graph):
    trainer = FakeTrainer()
    callback = CheckNumerics()
    trainer.train_op = None
    with captured_log() as lines:
        callback.setup_graph(trainer)
    assert lines == ["CheckNumerics: the trainer has no train_op, only variables are checked"]
    assert callback.before_run(None) is None
