"""Several steps of a strategy as one operation: a loop in the graph that takes new data in each iteration.

One session run makes many steps. The outputs of the last one are visible.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import tensorflow.compat.v1 as tf

from tpack.compat.operations import loop_in_graph
from tpack.distribute.contexts import tower_context_of
from tpack.distribute.values import Aggregation, DistributedValues, PerDevice, Structure, Value
from tpack.errors import ConfigError, TowerMismatchError
from tpack.tower.context import current_frame
from tpack.utils.validation import check_count, check_function, check_text, shown

_HOST = "/device:CPU:0"
_NONE = tf.VariableAggregation.NONE


class NextElements(Protocol):
    """Iterator of a dataset, or of a distributed one."""

    def get_next(self) -> Structure:
        """Return the next element."""


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
