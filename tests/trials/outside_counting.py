"""Count the steps that a program trains, whatever it trains with.

A step is a run of a session, or a call of a callable of one, that assigns to a trainable variable otherwise than to
initialize or restore it. That is read from the graph, from the operations that the fetches need, so that it is the
same for every program: for optimizers of TensorFlow, for those written by hand, for trainers.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf
from tensorflow.python.client import session as session_module

RESTORING = ("Restore", "RestoreV2")
ASSIGNING = ("Assign", "Scatter", "Apply")


class StepCounter:
    """Counts steps of all sessions of this process, and calls `at_step` after each with what was counted.

    Args:
        at_step: called with this counter after each step.
    """

    def __init__(self, at_step: Callable[["StepCounter"], None]) -> None:
        self.num_steps = 0
        self.num_not_finite = 0
        self._at_step = at_step
        self._known: dict[tuple[int, tuple[str, ...]], bool] = {}

    def install(self) -> None:
        """Count from now on what this process runs."""
        counter = self
        base: Any = session_module.BaseSession
        run, make_callable = base._do_run, base._make_callable_from_options

        def counted_run(session: Any, handle: Any, targets: Any, fetches: Any, *args: Any, **kwargs: Any) -> Any:
            results = run(session, handle, targets, fetches, *args, **kwargs)
            counter.look_at(session.graph, [str(each.name) for each in (*targets, *fetches)], results)
            return results

        def counted_callable(session: Any, options: Any) -> Any:
            call = make_callable(session, options)
            names = [*options.target, *options.fetch]

            def counted_call(*args: Any, **kwargs: Any) -> Any:
                results = call(*args, **kwargs)
                counter.look_at(session.graph, names, results)
                return results

            return counted_call

        base._do_run, base._make_callable_from_options = counted_run, counted_callable

    def look_at(self, graph: tf.Graph, names: list[str], results: Any) -> None:
        """Count a run that fetched `names`, if it was a step."""
        key = (id(graph), tuple(sorted(names)))
        if key not in self._known:
            self._known[key] = trains(graph, names)
        if self._known[key]:
            self.num_steps += 1
            self.num_not_finite += sum(_is_not_finite(each) for each in results or ())
            self._at_step(self)


def trains(graph: tf.Graph, names: list[str]) -> bool:
    """Return whether running the operations and tensors `names` changes a trainable variable by training."""
    trainable, initializing = set(), set()
    for variable in graph.get_collection(tf.GraphKeys.TRAINABLE_VARIABLES):
        # A strategy's variable has components, and stands in the collection by them.
        trainable.add(variable.op.name)
        initializing.add(variable.initializer.name)
    found = False
    for op in _needed(graph, names):
        if op.type in RESTORING or op.name in initializing:
            return False
        if any(word in op.type for word in ASSIGNING) and op.inputs:
            found = found or _owner(op.inputs[0]) in trainable or "Apply" in op.type
    return found


def _needed(graph: tf.Graph, names: list[str]) -> list[tf.Operation]:
    """Return the operations that are run for `names`."""
    stack = [graph.get_operation_by_name(name.split(":")[0].lstrip("^")) for name in names]
    seen: dict[str, tf.Operation] = {}
    while stack:
        op = stack.pop()
        if op.name not in seen:
            seen[op.name] = op
            stack += [*op.control_inputs, *(tensor.op for tensor in op.inputs)]
    return list(seen.values())


def _owner(tensor: tf.Tensor) -> str:
    """Return the name of the operation that made the variable behind `tensor`, through what only passes it on."""
    op = tensor.op
    while op.type in ("Identity", "Enter", "RefEnter", "Switch", "RefSwitch") and op.inputs:
        op = op.inputs[0].op
    return str(op.name)


def _is_not_finite(value: Any) -> bool:
    is_number = isinstance(value, float | np.floating) or (isinstance(value, np.ndarray) and value.shape == ())
    return is_number and np.issubdtype(np.asarray(value).dtype, np.floating) and not math.isfinite(float(value))
