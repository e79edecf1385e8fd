import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.strategies import mirrored, values
from tpack.distribute.steps import Monitor, StandardInputStep, StandardSingleLossStep, TrainingStep
from tpack.distribute.strategies import OneDeviceStrategy
from tpack.errors import ConfigError, WrongTypeError


def numbers():
    return tf.data.Dataset.range(8).map(lambda x: tf.cast(x, tf.float32))


def loss_fn(context, x):
    return tf.square(tf.get_variable("w", [], initializer=tf.zeros_initializer()) - x)


def sgd():
    return tf.train.GradientDescentOptimizer(0.25)


def weights_after(batches):
    weight = 0.0
    for batch in batches:
        weight -= 0.25 * 2 * np.mean(weight - np.array(batch))
    return weight


@pytest.mark.parametrize(
    ("make", "iterations", "batches"),
    [
        (lambda: OneDeviceStrategy("/cpu:0"), 1, [[0], [1], [2], [3]]),
        (mirrored, 1, [[0, 1], [2, 3], [4, 5], [6, 7]]),
        (mirrored, 2, [[0, 1], [2, 3], [4, 5], [6, 7]]),
    ],
)
def test_steps_of_one_loss_train(session8, make, iterations, batches):
    step = StandardSingleLossStep(numbers, loss_fn, sgd(), make(), iterations)
    Monitor(step, session8).run_steps(len(batches) // iterations)
    (weight,) = tf.trainable_variables()
    for value in values(session8, weight):
        np.testing.assert_allclose(value, weights_after(batches), rtol=1e-6)


def test_a_monitor_ends_with_the_data(session8):
    step = StandardSingleLossStep(numbers, loss_fn, sgd(), mirrored())
    Monitor(step, session8).run_steps()
    (weight,) = tf.trainable_variables()
    assert session8.run(weight) == pytest.approx(weights_after([[0, 1], [2, 3], [4, 5], [6, 7]]))


def test_a_step_is_abstract_and_knows_its_strategy(graph):
    strategy = mirrored()

    class Mine(TrainingStep):
        def __call__(self):
            return tf.no_op()

    assert Mine(strategy).distribution is strategy
    with pytest.raises(TypeError, match="abstract"):
        TrainingStep(strategy)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((numbers, None, sgd, mirrored), WrongTypeError, "got loss_fn=None: expected a function"),
        ((numbers, loss_fn, lambda: None, mirrored), WrongTypeError, "got optimizer=None: expected an Optimizer"),
        ((numbers, loss_fn, sgd, lambda: 3), WrongTypeError, "got distribution=3: expected a DistributionStrategy"),
        ((None, loss_fn, sgd, mirrored), WrongTypeError, "got dataset_fn=None: expected a function"),
        ((numbers, loss_fn, sgd, mirrored, 0), ConfigError, "got iterations_per_step=0"),
    ],
)
def test_arguments_of_steps_are_checked(graph, arguments, error, message):
    dataset_fn, loss, optimizer, distribution, *more = arguments
    with pytest.raises(error, match=message):
        StandardSingleLossStep(dataset_fn, loss, optimizer(), distribution(), *more)


def test_a_step_of_other_input_is_a_step(graph):
    assert issubclass(StandardInputStep, TrainingStep)


@pytest.mark.parametrize(
    ("step", "session", "message"),
    [
        (tf.no_op, None, "a Monitor runs its steps in a session: give it one"),
        (tf.no_op, 5, "^Monitor got session="),
        (None, None, "got step_callable=None: expected a function"),
    ],
)
def test_arguments_of_a_monitor_are_checked(graph, step, session, message):
    with pytest.raises(ConfigError, match=message):
        Monitor(step, session)


def test_a_number_of_steps_is_a_number(session8):
    with pytest.raises(ConfigError, match="Monitor got num_steps=0"):
        Monitor(tf.no_op, session8).run_steps(0)
