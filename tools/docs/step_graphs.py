"""What a step of a trainer is made of, read out of its graph: variables, gradients, reductions, queues and updates.

A little model with a weight ``w`` and a bias ``b`` is built; then the graph is walked from the updates back to the
gradients, and from there to the variables. Operations of one kind on one device are one `Part`; what lies between, such
as copies and reshapes, is left out, and so parts are connected as values really flow.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.graph_builder.base import GraphBuilder

NAMES = ("w", "b")
ADDS = ("Add", "AddV2", "AddN", "Sum", "Mean")
SCALES = ("Mul", "RealDiv")


@dataclass(frozen=True)
class Part:
    """What is done of one kind, on one device, for some of the variables.

    Attributes:
        kind: ``variable``, ``gradient``, ``reduce``, ``queue``, ``update`` or
            ``copy``.
        device: its canonical name, without a job where that is this process's own.
        variables: which of `NAMES`.
    """

    kind: str
    device: str
    variables: tuple[str, ...]


@dataclass
class StepGraph:
    """The parts of a step.

    Attributes:
        devices: those that are used, in order.
        parts: each with the types of its operations, repeated as often as they are there.
        edges: from which part values go to which other one.
    """

    devices: list[str] = field(default_factory=list)
    parts: dict[Part, list[str]] = field(default_factory=lambda: defaultdict(list))
    edges: set[tuple[Part, Part]] = field(default_factory=set)


def step_graph(make_builder: Callable[[], GraphBuilder]) -> StepGraph:
    """Build the model with a builder, and return what its step is made of."""
    with tf.Graph().as_default() as graph:
        tf.train.get_or_create_global_step()
        gradients: set[str] = set()

        def grad_fn() -> Any:
            pairs = _model()
            gradients.update(grad.op.name for grad, _ in pairs)
            return pairs

        result = make_builder().build(grad_fn, lambda: tf.train.GradientDescentOptimizer(0.1))
        return _Reading(graph, gradients, result.train_op).step


def _model() -> Any:
    weights = tf.get_variable("w", [4, 2], use_resource=True)
    bias = tf.get_variable("b", [2], use_resource=True)
    cost = tf.nn.l2_loss(tf.matmul(tf.ones([8, 4]), weights) + bias)
    pairs = zip(tf.gradients(cost, [weights, bias], colocate_gradients_with_ops=True), [weights, bias], strict=True)
    # As tensors of their own: a gradient may be the same tensor as one further down.
    return [(tf.identity(grad, name=f"gradient_of_{name}"), variable) for (grad, variable), name in _named(pairs)]


def _named(pairs: Any) -> Iterator[tuple[Any, str]]:
    return zip(pairs, NAMES, strict=True)


class _Reading:
    """Walks one graph."""

    def __init__(self, graph: tf.Graph, gradients: set[str], train_op: tf.Operation) -> None:
        self.step = StepGraph()
        self._gradients = gradients
        self._downstream: dict[tf.Operation, set[str]] = defaultdict(set)
        updates = [op for op in _behind(train_op) if _is_update(op)]
        sends = [op for op in graph.get_operations() if op.type == "QueueEnqueueV2" and self._sends_gradients(op)]
        for op in updates:
            self._mark(op, _name_of(_variable_of(op)))
        for op in [*updates, *sends]:
            self._connect(op)
        for op in [op for op in graph.get_operations() if op.name in gradients]:
            for variable in self._sources(op, lambda each: each.type == "VarHandleOp"):
                self._add_edge(variable, op)
        for op in updates:
            self._add_edge(op, _variable_of(op))
        self.step.devices = sorted({part.device for part in self.step.parts}, key=_order)

    def _sends_gradients(self, op: tf.Operation) -> bool:
        return bool(self._sources(op, lambda each: each.name in self._gradients))

    def _mark(self, update: tf.Operation, name: str) -> None:
        """Note of all that comes before an update, back to the gradients, which variable it is for."""
        todo, seen = _values(update), set()
        while todo:
            op = todo.pop()
            if op not in seen:
                seen.add(op)
                self._downstream[op].add(name)
                todo += [] if op.name in self._gradients else _values(op)

    def _connect(self, op: tf.Operation) -> None:
        """Add the edges that lead to an operation, and those to where they come from, back to the gradients."""
        todo, seen = [op], set()
        while todo:
            target = todo.pop()
            for source in self._sources(target, lambda each: self._kind(each) != ""):
                self._add_edge(self._as_updated(source, target), target)
                if source not in seen and self._kind(source) in ("reduce", "queue"):
                    todo.append(source)
                seen.add(source)

    def _as_updated(self, source: tf.Operation, target: tf.Operation) -> tf.Operation:
        """Return the update that a variable has had when it is read, if it has had one, and else what was given."""
        updates = [op for op in _behind(target) if _is_update(op) and _variable_of(op) is source]
        return updates[0] if updates and target not in updates else source

    def _sources(self, op: tf.Operation, wanted: Callable[[tf.Operation], bool]) -> list[tf.Operation]:
        todo, seen, found = _values(op), set(), []
        while todo:
            source = todo.pop()
            if source in seen:
                continue
            seen.add(source)
            if wanted(source):
                found.append(source)
            else:
                todo += _values(source)
        return found

    def _kind(self, op: tf.Operation) -> str:
        if op.name in self._gradients:
            return "gradient"
        if op.type in ("QueueEnqueueV2", "QueueDequeueV2"):
            return "queue"
        if _is_update(op):
            return "copy" if op.type == "AssignVariableOp" else "update"
        if op.type == "VarHandleOp" and _name_of(op):
            return "variable"
        return "reduce" if op.type in ADDS + SCALES and self._names(op) else ""

    def _names(self, op: tf.Operation) -> tuple[str, ...]:
        if op.name in self._gradients:
            found = {op.name.rpartition("_of_")[2][0]}
        elif op.type == "VarHandleOp":
            found = {_name_of(op)}
        elif _is_update(op):
            found = {_name_of(_variable_of(op))}
        elif self._downstream[op]:
            found = self._downstream[op]
        else:
            gradients = self._sources(op, lambda each: each.name in self._gradients)
            found = {name for each in gradients for name in self._names(each)}
        return tuple(name for name in NAMES if name in found)

    def _part(self, op: tf.Operation) -> Part:
        # A queue is where its values lie, not where they are put into it.
        device = op.inputs[0].op.device if op.type.startswith("Queue") else op.device
        part = Part(self._kind(op), _short(device), self._names(op))
        types = self.step.parts[part]
        types += [] if f"{op.type} {op.name}" in types else [f"{op.type} {op.name}"]
        return part

    def _add_edge(self, source: tf.Operation, target: tf.Operation) -> None:
        edge = self._part(source), self._part(target)
        if edge[0] != edge[1]:
            self.step.edges.add(edge)


def _values(op: tf.Operation) -> list[tf.Operation]:
    """Return what an operation takes values from; an update takes its new value, and not its variable."""
    inputs = op.inputs[1:] if _is_update(op) or op.type.startswith("Queue") else op.inputs
    return [tensor.op for tensor in inputs]


def _behind(op: tf.Operation) -> set[tf.Operation]:
    """Return an operation and all that is run for it."""
    todo, seen = [op], set()
    while todo:
        each = todo.pop()
        if each not in seen:
            seen.add(each)
            todo += [*(tensor.op for tensor in each.inputs), *each.control_inputs]
    return seen


def _is_update(op: tf.Operation) -> bool:
    is_assignment = op.type in ("AssignVariableOp", "AssignSubVariableOp") or op.type.startswith("ResourceApply")
    return is_assignment and bool(_name_of(_variable_of(op)))


def _variable_of(update: tf.Operation) -> tf.Operation:
    op = update.inputs[0].op
    while op.type != "VarHandleOp" and op.inputs:
        op = op.inputs[0].op
    return op


def _name_of(variable: tf.Operation) -> str:
    """Return which of `NAMES` a variable, or a copy of it, belongs to; of another variable nothing."""
    return next((name for name in variable.name.split("/") if name in NAMES), "")


def _short(device: str) -> str:
    spec = tf.DeviceSpec.from_string(device or "/device:CPU:0")
    job = f"/job:{spec.job}/task:{spec.task}" if spec.job and (spec.job, spec.task) != ("worker", 0) else ""
    return f"{job}/device:{spec.device_type or 'CPU'}:{spec.device_index or 0}"


def _order(device: str) -> tuple[bool, bool, list[int]]:
    return "ps" in device, "worker" in device, [int(number) for number in re.findall(r"\d+", device)]
