"""Several steps of a strategy as one operation, and training steps as objects.

A loop in the graph takes new data in each iteration; one session run makes many steps, and the outputs of the last one
are visible. For a script that has neither a trainer nor an Estimator, a `Step` has its strategy, data and model; a call
builds the operation of a step, and a `Monitor` runs that.

Source:
    TensorFlow's ``contrib.distribute``.
"""

import abc
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import tensorflow.compat.v1 as tf

from tpack.compat import loop_in_graph
from tpack.distribute.contexts import tower_context_of
from tpack.distribute.strategy import DatasetFn, DistributionStrategy
from tpack.distribute.values import Aggregation, DistributedValues, PerDevice, Structure, Value
from tpack.errors import ConfigError, TowerMismatchError
from tpack.tfutils.optimizer_clone import check_optimizer
from tpack.tower.context import current_frame
from tpack.utils.validation import check_arguments, check_count, check_function, check_instance, check_text, shown

_HOST = "/device:CPU:0"

_NONE = tf.VariableAggregation.NONE


class MultiStepContext:
    """Outputs of the steps of one loop; an argument of the function that builds a step.

    Attributes:
        run_op: the operation that runs the steps; None while they are built.

    Source:
        TensorFlow's ``contrib.distribute``.
    """

    def __init__(self) -> None:
        self.run_op: tf.Operation | None = None
        self._last_step_outputs: dict[str, Value] = {}
        self._non_tensor_outputs: dict[str, object] = {}

    @property
    def last_step_outputs(self) -> dict[str, Value]:
        """The values of the last step by name; while steps are built, those of the current one."""
        return self._last_step_outputs

    @property
    def non_tensor_outputs(self) -> dict[str, object]:
        """Outputs that are not tensors, by name; in towers, a list of each tower's."""
        return self._non_tensor_outputs

    def set_last_step_output(self, name: str, output: Value, aggregation: Aggregation = _NONE) -> None:
        """Output a value, which is visible after the last step.

        Args:
            name: the name.
            output: the value: of locality T across towers, of this tower in one.
            aggregation: the aggregation of the towers' values, on the CPU. Across towers, without it the value keeps
                its parts; in a tower it is required, and all towers must output the same names.

        Raises:
            ConfigError: A tower gives no aggregation.
            TowerMismatchError: The towers output different names.
        """
        check_text(self, "name", name)
        context = tower_context_of(current_frame())
        if context is not None:
            if aggregation.value == _NONE.value:
                raise ConfigError(f"a tower gives out {name!r}: say by which aggregation the towers' values become one")
            context.merge_call(self._merge_output, name, output, aggregation)
        elif aggregation.value == _NONE.value:
            self._last_step_outputs[name] = output
        else:
            self._merge_output(current_frame().strategy, name, output, aggregation)

    def set_non_tensor_output(self, name: str, output: object) -> None:
        """Output an object that is not a tensor, while steps are built; of towers, it becomes a list of each tower's.

        Raises:
            TowerMismatchError: The towers output different names.
        """
        check_text(self, "name", name)
        context = tower_context_of(current_frame())
        if context is None:
            self._non_tensor_outputs[name] = output
        else:
            context.merge_call(self._merge_non_tensor, name, output)

    def _merge_output(self, strategy: Any, name: Value, output: Value, aggregation: Value) -> None:
        own = _same(strategy, name)
        reduced = strategy.reduce(_same(strategy, aggregation), output, _HOST)
        (self._last_step_outputs[own],) = strategy.unwrap(reduced)

    def _merge_non_tensor(self, strategy: Any, name: Value, output: Value) -> None:
        self._non_tensor_outputs[_same(strategy, name)] = strategy.unwrap(output)


class Step(abc.ABC):
    """One training step under a strategy: calling it builds the operation."""

    def __init__(self, distribution: DistributionStrategy) -> None:
        self._distribution = check_instance(self, "distribution", distribution, DistributionStrategy)

    @property
    def distribution(self) -> DistributionStrategy:
        """The strategy."""
        return self._distribution

    @abc.abstractmethod
    def __call__(self) -> tf.Operation:
        """Return the operation of a step."""


class StandardInputStep(Step):
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
        step_callable: a `Step`, or any function that builds the operation of a step.
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


class NextElements(Protocol):
    """Iterator of a dataset, or of a distributed one."""

    def get_next(self) -> Structure:
        """Return the next element."""


def run_steps(
    strategy: Any,
    fn: Callable[..., Structure],
    iterator: NextElements,
    iterations: int,
    initial_loop_values: Mapping[str, Structure],
) -> MultiStepContext:
    """Build a loop of steps in the cross-tower context; return the outputs, and the operation that runs it.

    Args:
        strategy: the strategy.
        fn: builds one step from a `MultiStepContext` and the parts of an element; returns what to run.
        iterator: the data of the steps.
        iterations: the number of steps.
        initial_loop_values: for each output, a value of its dtype and shape; one with parts on several devices as a
            list.

    Raises:
        ConfigError: An argument is of the wrong kind, or the outputs are not those of ``initial_loop_values``.
    """
    check_function("run_steps_on_dataset", "fn", fn)
    check_count("run_steps_on_dataset", "iterations", iterations)
    context = MultiStepContext()
    start = {name: tf.nest.flatten(value) for name, value in initial_loop_values.items()}

    def body(done: tf.Tensor, _: Structure) -> tuple[tf.Tensor, dict[str, list[tf.Tensor]]]:
        element = iterator.get_next()
        ran = fn(context, *(element if isinstance(element, tuple) else (element,)))
        parts = {name: _parts(value) for name, value in context.last_step_outputs.items()}
        _check_outputs(parts, start)
        with tf.control_dependencies([] if ran is None else [strategy.group(ran)]):
            return done + 1, tf.nest.map_structure(tf.identity, parts)

    done, last = loop_in_graph(lambda done, _: done < iterations, body, (tf.constant(0), start))
    context.run_op = tf.group(done, last)
    context.last_step_outputs.update(
        {name: _like(value, last[name]) for name, value in context.last_step_outputs.items()}
    )
    return context


def _same(strategy: Any, brought: Value) -> Any:
    """Return the value of all towers, which must be equal."""
    first, *others = strategy.unwrap(brought)
    if any(other != first for other in others):
        raise TowerMismatchError(
            f"towers got {shown([first, *others])}: expected the same name and aggregation in all of them"
        )
    return first


def _parts(value: Value) -> list[Any]:
    """Return the parts of a value by device, or the value as the only one."""
    return list(value.index.values()) if isinstance(value, DistributedValues) else [value]


def _like(example: Value, parts: Sequence[tf.Tensor]) -> Value:
    """Return parts as a value of the devices of another one, or the only part."""
    if isinstance(example, DistributedValues):
        return PerDevice(dict(zip(example.devices, parts, strict=True)))
    return parts[0]


def _check_outputs(outputs: Mapping[str, Sequence[object]], start: Mapping[str, Sequence[object]]) -> None:
    given = {name: len(parts) for name, parts in outputs.items()}
    wanted = {name: len(parts) for name, parts in start.items()}
    if given != wanted:
        raise ConfigError(
            f"expected initial_loop_values for each value that a step gives out, by name and with as many parts: steps "
            f"give out {given or 'none'}, and there are {wanted or 'none'}"
        )
