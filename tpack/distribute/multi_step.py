"""Run several steps of a strategy as one operation: a loop in the graph that takes new data in every turn.

A session that runs the operation is asked once for many steps. What a step gives out is seen after the last one.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import tensorflow.compat.v1 as tf

from tpack.compat import loop_in_graph
from tpack.distribute.contexts import tower_context_of
from tpack.distribute.values import Aggregation, DistributedValues, PerDevice, Structure, Value
from tpack.errors import ConfigError, TowerMismatchError
from tpack.tower.context import current_frame
from tpack.utils.validation import check_count, check_function, check_text, shown

_HOST = "/device:CPU:0"
_NONE = tf.VariableAggregation.NONE


class NextElements(Protocol):
    """What gives data to steps: an iterator of a dataset, or of one that was distributed."""

    def get_next(self) -> Structure:
        """Return the next element."""


class MultiStepContext:
    """What the steps of one loop give out; the function that builds a step is called with it.

    Attributes:
        run_op: the operation that runs the steps; None while they are built.

    Source:
        The class of the same name in TensorFlow's ``contrib.distribute``.
    """

    def __init__(self) -> None:
        self.run_op: tf.Operation | None = None
        self._last_step_outputs: dict[str, Value] = {}
        self._non_tensor_outputs: dict[str, object] = {}

    @property
    def last_step_outputs(self) -> dict[str, Value]:
        """The values of the last step, by their names; while steps are built, those of the step that is built."""
        return self._last_step_outputs

    @property
    def non_tensor_outputs(self) -> dict[str, object]:
        """What steps gave out that is no tensor, by its names; of towers, a list with that of each."""
        return self._non_tensor_outputs

    def set_last_step_output(self, name: str, output: Value, aggregation: Aggregation = _NONE) -> None:
        """Give out a value, which is seen after the last step.

        Args:
            name: how it is called.
            output: the value: of locality T across towers, of this tower in one.
            aggregation: how the towers' values become one, on the CPU. Across towers, without it the value keeps its
                parts; in a tower it is needed, and all towers give out values of the same names.

        Raises:
            ConfigError: A tower says no aggregation.
            TowerMismatchError: The towers give out values of different names.
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
        """Give out something that is no tensor and is known while steps are built.

        Args:
            name: how it is called.
            output: what it is. Of towers, it becomes a list with that of each.

        Raises:
            TowerMismatchError: The towers give out things of different names.
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
    """Build a loop of steps, in the cross-tower context of a strategy.

    Args:
        strategy: the strategy.
        fn: builds one step: takes a `MultiStepContext` and the parts of an element; returns what is to be run.
        iterator: gives each step its data.
        iterations: how many steps.
        initial_loop_values: for each value that steps give out, something of its dtype and shape; what has a part for
            each of several devices as a list.

    Returns:
        What the steps give out, and the operation that runs them.

    Raises:
        ConfigError: An argument is of the wrong kind, or the values that are given out are not those of
            ``initial_loop_values``.
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
    """Return what all towers brought, which has to be the same."""
    first, *others = strategy.unwrap(brought)
    if any(other != first for other in others):
        raise TowerMismatchError(f"expected the same name and aggregation in all towers, got {shown([first, *others])}")
    return first


def _parts(value: Value) -> list[Any]:
    """Return what a value holds for its devices, or the one thing that it is."""
    return list(value.index.values()) if isinstance(value, DistributedValues) else [value]


def _like(example: Value, parts: Sequence[tf.Tensor]) -> Value:
    """Return parts as a value of the devices of another one, or the one part that there is."""
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
