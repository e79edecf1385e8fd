"""Training steps as objects, for a script that has neither a trainer nor an Estimator.

A `TrainingStep` has its strategy, data and model; calling it builds the operation of a step, and a `Monitor` runs that.

Source:
    TensorFlow's ``contrib.distribute``.
"""

import abc
from collections.abc import Callable
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.distribute.multi_step import MultiStepContext
from tpack.distribute.strategy import DatasetFn, DistributionStrategy
from tpack.distribute.values import Structure
from tpack.errors import ConfigError
from tpack.tfutils.optimizer_clone import check_optimizer
from tpack.utils.validation import check_arguments, check_count, check_instance


class TrainingStep(abc.ABC):
    """One training step under a strategy, ``tpack.distribute.Step``: calling it builds the operation."""

    def __init__(self, distribution: DistributionStrategy) -> None:
        self._distribution = check_instance(self, "distribution", distribution, DistributionStrategy)

    @property
    def distribution(self) -> DistributionStrategy:
        """The strategy."""
        return self._distribution

    @abc.abstractmethod
    def __call__(self) -> tf.Operation:
        """Return the operation of a step."""


class StandardInputStep(TrainingStep):
    """Step whose data are those of the ``tf.data.Dataset`` that a function returns, dealt out to the towers."""

    def __init__(self, dataset_fn: DatasetFn, distribution: DistributionStrategy) -> None:
        super().__init__(distribution)
        self._iterator = distribution.distribute_dataset(dataset_fn).make_one_shot_iterator()


@check_arguments
class StandardSingleLossStep(StandardInputStep):
    """Step that trains the variables of one loss by one optimizer.

    Args:
        dataset_fn: returns a ``tf.data.Dataset``.
        loss_fn: ``loss_fn(context, *inputs)`` builds the loss of one tower; the elements of a tuple of data are several
            inputs, and the context is a `MultiStepContext`.
        optimizer: any ``tf.train.Optimizer``.
        distribution: the strategy.
        iterations_per_step: the updates of a step, each with new data.

    Raises:
        WrongTypeError: An argument is of the wrong kind.
        GraphBuildError: The optimizer is not a ``tf.train.Optimizer``.

    Example:
        step = StandardSingleLossStep(dataset_fn, loss_fn, tf.train.GradientDescentOptimizer(0.1), strategy)
        Monitor(step, session).run_steps(100)
    """

    def __init__(
        self,
        dataset_fn: DatasetFn,
        loss_fn: Callable[..., tf.Tensor],
        optimizer: tf.train.Optimizer,
        distribution: DistributionStrategy,
        iterations_per_step: int = 1,
    ) -> None:
        self._loss_fn = loss_fn
        check_optimizer(optimizer)
        self._optimizer = optimizer
        self._iterations = check_count(self, "iterations_per_step", iterations_per_step)
        super().__init__(dataset_fn, distribution)

    def __call__(self) -> tf.Operation:
        """Return the operation of a step."""
        with self._distribution.scope() as strategy:

            def step(context: MultiStepContext, *inputs: Structure) -> tf.Operation:
                return strategy.group(strategy.call_for_each_tower(self._train, strategy, context, *inputs))

            return strategy.run_steps_on_dataset(step, self._iterator, self._iterations).run_op

    def _train(self, strategy: DistributionStrategy, context: MultiStepContext, *inputs: Structure) -> tf.Operation:
        pairs = self._optimizer.compute_gradients(lambda: self._loss_fn(context, *inputs))
        return strategy.apply_gradients(self._optimizer, pairs)


@check_arguments
class Monitor:
    """Runner of steps in a session, which initialises all variables.

    Args:
        step_callable: a `TrainingStep`, or any function that builds the operation of a step.
        session: the session.

    Raises:
        ConfigError: There is no session.
        WrongTypeError: An argument is of the wrong kind.
    """

    def __init__(self, step_callable: Callable[[], Any], session: tf.Session | None = None) -> None:
        if session is None:
            raise ConfigError("a Monitor runs its steps in a session: give it one")
        with session.graph.as_default():
            self._run_step = session.make_callable(step_callable())
            start = [tf.global_variables_initializer(), tf.local_variables_initializer(), tf.tables_initializer()]
        session.run(start)

    def run_steps(self, num_steps: int | None = None) -> None:
        """Run steps until their number is reached, or the data end."""
        limit = None if num_steps is None else check_count(self, "num_steps", num_steps)
        done = 0
        while limit is None or done < limit:
            try:
                self._run_step()
            except tf.errors.OutOfRangeError:
                return
            done += 1
