"""Several steps as one run: a loop in the graph around a copy of the step, or repeated runs of the step.

When the graph is complete, the operations of a step are copied into the body of a loop of TensorFlow 1, in which they
stay operations of the graph, with their devices, names and attributes. Variables, queues, iterators and tables are
shared. Turns do not overlap, so each step reads the values that the last one wrote.

Values are available of the last step of a run only. Operations for these alone run in that step, in runs that fetch
them. They wait in a staging area for a second run: a loop that is stopped before its last step leaves none there.
"""

import re
from collections.abc import Container, Iterable, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError
from tpack.graph_copy import op_kinds
from tpack.graph_copy.nodes import NodeCopier, add_to_graph
from tpack.step.fetch_plan import EXECUTORS, FetchPlan, GraphElement, Way, has_own_state
from tpack.tfutils.dependency import ancestors, is_handle, needed_by
from tpack.types import Fetches

_HOST = "/device:CPU:0"
_SCOPE = "several_steps"
_COPIES = "step"
_OF_A_COPY = re.compile(rf"{_SCOPE}(_\d+)?/{_COPIES}/")


class LoopGraph:
    """A loop of steps in the current graph, which must be complete.

    Args:
        each: the operations of a step.
        last: tensors to be fetched of the last step of some runs.
        goes_on: boolean resource variables: the loop ends after a step that has set one of them to False.

    Attributes:
        each: the operations of a step.
        num_steps: a placeholder for the number of steps of the run.
        num_made: the number of steps that were made; fetching it runs the loop. Less than `num_steps` only after
            `stop`, or where one of ``goes_on`` is False.
        keep_last: the operation that keeps the values of the last step, run together with the loop, if any.
        kept: the values of that step, by the names of ``last``, for one run after each run that kept them.
        ends_itself: whether there are variables in ``goes_on``.
        can_alternate: whether the loop and single steps can take turns: no copied operation has a state of its own,
            such as the position of random numbers.
        is_stopped: set to True together with running `stop`, for steps that are made one by one.
        stop: the operation that ends the loop after the current step, and later runs before their first step.

    Creates:
        A local variable, and about as many operations as a step has.

    Raises:
        ConfigError: A step is fed, or the copies cannot share its state.
    """

    def __init__(
        self, each: Iterable[tf.Operation], last: Sequence[tf.Tensor] = (), *, goes_on: Sequence[tf.Variable] = ()
    ) -> None:
        self.each = list(each)
        self.ends_itself = bool(goes_on)
        self.is_stopped = False
        last = list({tensor.name: tensor for tensor in last}.values())
        graph = tf.get_default_graph()
        self._scope = graph.unique_name(_SCOPE)
        step = _Step(graph, self.each, last)
        with tf.device(None), tf.control_dependencies(None), tf.device(_HOST), tf.name_scope(f"{self._scope}/"):
            self.num_steps = tf.placeholder(tf.int32, [], name="num_steps")
            local = [tf.GraphKeys.LOCAL_VARIABLES]
            switch = tf.Variable(True, trainable=False, collections=local, use_resource=True, name="goes_on")
            self.stop = switch.assign(False, read_value=False)
            handles = [variable.handle for variable in (switch, *goes_on)]
            copied = {op.name for op in step.copied}
            self.can_alternate = not any(map(has_own_state, step.copied))
            loop = _LoopNodes(self._scope, tf.constant(0, name="none"), self.num_steps, handles, copied)
            dtypes = [tensor.dtype.base_dtype for tensor in last]
            kept = tf.raw_ops.Unstage(dtypes=dtypes, shared_name=self._scope, name="kept") if last else ()
            self.kept = {tensor.name: value for tensor, value in zip(last, kept, strict=True)}
        keep_last = step.copy_into(loop)
        add_to_graph(loop.graph_def)
        self.num_made: tf.Tensor = graph.get_tensor_by_name(f"{self._scope}/loop/num_made:0")
        self.keep_last = graph.get_operation_by_name(keep_last) if keep_last else None

    @property
    def prefix(self) -> str:
        """The prefix of the names of copies."""
        return f"{self._scope}/{_COPIES}/"

    def in_place_of(self, element: GraphElement) -> GraphElement | None:
        """Return the tensor with the value of an element in the last step; None for operations of each step.

        Raises:
            ConfigError: It is neither in ``each`` nor in ``last``.
        """
        if isinstance(element, tf.Operation) and element in self.each:
            return None
        if element is self.num_made:
            return element
        if element.name in self.kept:
            return self.kept[element.name]
        raise ConfigError(f"a run of several steps fetches {element.name}, which with_several_steps did not announce")


def original_name(name: str) -> str:
    """Return the name of an operation's original, or the name itself if it is not a copy."""
    found = _OF_A_COPY.match(name)
    return name[found.end() :] if found else name


class LoopPlan:
    """Runs several steps, in the loop or one by one, and returns values of the last one.

    Args:
        session: an open session.
        several: the steps.
        wanted: a nest of fetches for the trainer and each callback.

    Attributes:
        way: how the steps are run.

    Raises:
        ConfigError: A fetch was not announced.
    """

    makes_several_steps = True

    def __init__(self, session: tf.Session, several: LoopGraph, wanted: Sequence[Fetches]) -> None:
        self._session, self._several, self._wanted = session, several, list(wanted)
        self._wanted_numbers = [item is several.num_made for item in wanted]
        self._values = FetchPlan(session, self._wanted, [several.num_made], in_place_of=several.in_place_of)
        kept = [several.keep_last] if self._values.runs_anything else []
        self._fetches = [several.num_made, *kept]
        self.way = Way(in_loop=several.ends_itself)

    @cached_property
    def _loop(self) -> FetchPlan:
        return FetchPlan(self._session, self._fetches, [self._several.num_steps])

    @cached_property
    def _step(self) -> FetchPlan:
        return FetchPlan(self._session, self._several.each)

    @cached_property
    def _last_step(self) -> FetchPlan:
        return FetchPlan(self._session, [*self._wanted, self._several.each], [self._several.num_made])

    def ways(self, executor: str) -> list[Way]:
        """Return the ways to run with one of `EXECUTORS`; the loop, with slower kernels, gains from the pool alone."""
        threads = EXECUTORS[executor]
        if self._several.ends_itself:
            return [Way(thread, in_loop=True) for thread in threads]
        one_by_one = list(map(Way, threads))
        return [*one_by_one, Way(in_loop=True)] if False in threads and self._several.can_alternate else one_by_one

    def use(self, way: Way) -> None:
        """Run in this way from now on; it must be one of `ways`."""
        for plan in [self._loop] if way.in_loop else [self._step, *([self._last_step] * self._values.runs_anything)]:
            plan.use(way)
        self.way = way

    def run(self, num_steps: int) -> list[Any]:
        """Run the steps; return the number that were made, and the values: None without a last one."""
        if self.way.in_loop:
            made, *_ = self._loop.run(np.array(num_steps, np.int32))
            return self._missing(made) if made < num_steps else [made, *self._values.run(made)]
        several, run = self._several, self._step.run
        for made in range(num_steps - 1):
            if several.is_stopped:
                return self._missing(made)
            run()
        if several.is_stopped:
            return self._missing(num_steps - 1)
        if not self._values.runs_anything:
            run()
            return [num_steps, *self._values.run(np.array(num_steps, np.int32))]
        return [num_steps, *self._last_step.run(np.array(num_steps, np.int32))[:-1]]

    def run_traced(self, num_steps: int, options: tf.RunOptions, run_metadata: tf.RunMetadata) -> list[Any]:
        """Run the steps as `run` does, recording the trace of ``options`` in ``run_metadata``."""
        several = self._several
        if self.way.in_loop:
            of_loop = {several.num_steps: num_steps}
            made, *_ = self._session.run(self._fetches, of_loop, options=options, run_metadata=run_metadata)
            return self._missing(made) if made < num_steps else [made, *self._values.run(made)]
        for made in range(num_steps):
            if several.is_stopped:
                return self._missing(made)
            is_last, of_step = made == num_steps - 1, tf.RunMetadata()
            fetches = [*(self._wanted if is_last else ()), several.each]
            feeds = {several.num_made: num_steps} if is_last else {}
            values = self._session.run(fetches, feeds, options=options, run_metadata=of_step)
            run_metadata.MergeFrom(of_step)
        return [num_steps, *values[:-1]]

    def _missing(self, made: int) -> list[Any]:
        return [made, *(made if is_number else None for is_number in self._wanted_numbers)]


class _LoopNodes(NodeCopier):
    """The nodes of the loop, to which the body is added.

    Args:
        scope: the name of the loop.
        none: the number of the first turn, 0.
        num_turns: the number of turns.
        goes_on: the handles of variables, all of which must be True for another turn.
        copied: the names of the operations of the body.

    Attributes:
        begin: an operation that runs at the beginning of each turn.
    """

    def __init__(
        self, scope: str, none: tf.Tensor, num_turns: tf.Tensor, goes_on: Sequence[tf.Tensor], copied: Container[str]
    ) -> None:
        # Colocations with operations outside are dropped; the copy has the device.
        super().__init__(copied, lambda name: f"{scope}/{_COPIES}/{name}", lambda _: None)
        self._scope = scope
        self._entered: dict[str, str] = {}
        self._num_turns = num_turns
        turn = self._add("turn", "Merge", [self._enter(none, is_constant=False), f"{scope}/loop/next"], tf.int32)
        turn.attr["N"].i = 2
        condition = self._add("is_left", "Less", [turn.name, self.outside(num_turns)], tf.int32).name
        for number, handle in enumerate(goes_on):
            read = self._add(f"goes_on_{number}", "ReadVariableOp", [self.outside(handle), f"^{turn.name}"])
            read.attr["dtype"].type = tf.bool.as_datatype_enum
            condition = self._add(f"and_{number}", "LogicalAnd", [condition, read.name]).name
        condition = self._add("condition", "LoopCond", [condition]).name
        switch = self._add("switch", "Switch", [turn.name, condition], tf.int32).name
        self._add("num_made", "Exit", [switch], tf.int32)
        self.begin = str(self._add("begin", "Identity", [f"{switch}:1"], tf.int32).name)
        one = self._add("one", "Const", [f"^{self.begin}"])
        one.attr["dtype"].type = tf.int32.as_datatype_enum
        one.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(np.int32(1)))
        self._made = self._add("made", "AddV2", [self.begin, one.name], tf.int32).name

    def outside(self, tensor: tf.Tensor) -> str:
        """Return the name of an outer tensor in all turns of the loop."""
        if tensor.name not in self._entered:
            self._entered[tensor.name] = self._enter(tensor, is_constant=True)
        return self._entered[tensor.name]

    def copy(self, op: tf.Operation, inputs: Iterable[str]) -> None:
        """Add a copy of an operation with these inputs and control inputs."""
        node = self.add(op.node_def, inputs)
        if "frame_name" in node.attr:
            # A loop of the model is now one inside of this one.
            node.attr["frame_name"].s = f"{self._scope}/".encode() + node.attr["frame_name"].s

    def end_turns_after(self, names: Iterable[str]) -> None:
        """End a turn when these operations have run."""
        self._add("next", "NextIteration", [self._made, *(f"^{name}" for name in names)], tf.int32)

    def begin_last(self) -> str:
        """Return the name of an operation that runs in the last turn alone."""
        is_last = self._add("is_last", "Equal", [self._made, self.outside(self._num_turns)], tf.int32).name
        switch = self._add("last_switch", "Switch", [self.begin, is_last], tf.int32).name
        return str(self._add("last", "Identity", [f"{switch}:1"], tf.int32).name)

    def stage(self, values: Sequence[str], dtypes: Sequence[tf.DType], after: str) -> str:
        """Stage values after an operation has run; return the name of the staging operation."""
        node = self._add("keep_last", "Stage", [*values, f"^{after}"])
        node.attr["dtypes"].list.type.extend(dtype.as_datatype_enum for dtype in dtypes)
        node.attr["shared_name"].s = self._scope.encode()
        return str(node.name)

    def _enter(self, tensor: tf.Tensor, *, is_constant: bool) -> str:
        kind = "RefEnter" if tensor.dtype != tensor.dtype.base_dtype else "Enter"
        number = len(self._entered) + is_constant
        node = self._add(f"enter_{number}", kind, [tensor.name], tensor.dtype.base_dtype)
        node.device = tensor.device
        node.attr["frame_name"].s = self._scope.encode()
        node.attr["is_constant"].b = is_constant
        node.attr["parallel_iterations"].i = 1
        return str(node.name)

    def _add(self, name: str, kind: str, inputs: Iterable[str], dtype: tf.DType | None = None) -> tf.NodeDef:
        node = self.graph_def.node.add(name=f"{self._scope}/loop/{name}", op=kind, device=_HOST)
        node.input.extend(inputs)
        if dtype is not None:
            node.attr["T"].type = dtype.as_datatype_enum
        return node


class _Step:
    """The operations of a step, and those for values of the last one.

    Args:
        graph: the graph.
        each: the operations of a step.
        last: tensors to be fetched of the last one.

    Raises:
        ConfigError: They cannot be copied.
    """

    def __init__(self, graph: tf.Graph, each: Sequence[tf.Operation], last: Sequence[tf.Tensor]) -> None:
        self._targets, self._last = each, last
        in_each = ancestors(each)
        needed = in_each | ancestors(last)
        ops = [op for op in graph.get_operations() if op in needed]
        self._shared = {op for op in ops if _is_shared(op)}
        self.copied = [op for op in ops if op not in self._shared]
        # Where a branch or a loop of TensorFlow 1 begins outside of them, what only the last step needs is not told
        # apart by what it runs after. Then every step of a run that wants the values runs it.
        only_last = [op for op in self.copied if op not in in_each]
        in_each |= ancestors(set(only_last) & _in_control_flow(self.copied))
        self._in_each = in_each - self._shared
        self._only_last = set(self.copied) - self._in_each
        for op in self.copied:
            _check_can_be_copied(op)

    def copy_into(self, loop: _LoopNodes) -> str:
        """Add the step as the body of a loop; return the name of the operation that keeps the last values, or ""."""
        last_turn = loop.begin_last() if self._last else ""
        for op in self.copied:
            group, pivot = (self._in_each, loop.begin) if op in self._in_each else (self._only_last, last_turn)
            # What runs after nothing of its kind would run whether or not there is such a turn.
            is_first = not any(other in group for other in needed_by(op))
            controls = [loop.input(f"^{other.name}") for other in op.control_inputs if other not in self._shared]
            after = [f"^{pivot}"] if is_first else []
            loop.copy(op, [*(self._name_in(loop, tensor) for tensor in op.inputs), *controls, *after])
        loop.end_turns_after(loop.input(op.name) for op in self._targets)
        if not self._last:
            return ""
        values = [self._name_in(loop, tensor) for tensor in self._last]
        return loop.stage(values, [tensor.dtype.base_dtype for tensor in self._last], last_turn)

    def _name_in(self, loop: _LoopNodes, tensor: tf.Tensor) -> str:
        return loop.outside(tensor) if tensor.op in self._shared else loop.input(tensor.name)


def _is_shared(op: tf.Operation) -> bool:
    """Tell whether an operation is a container of values: a variable, a queue, an iterator, a table."""
    return not op.inputs and bool(op.outputs) and all(map(is_handle, op.outputs))


def _check_can_be_copied(op: tf.Operation) -> None:
    if op.type in op_kinds.PLACEHOLDERS:
        raise ConfigError(
            f"several steps cannot be one run: each of them is fed data, at {op.name}; use a queue or a dataset, as "
            "QueueInput and TFDatasetInput do"
        )
    for tensor in op.inputs:
        if _is_shared(tensor.op) and tensor.op.control_inputs:
            raise ConfigError(
                f"several steps cannot be one run: {tensor.op.name}, which all of them use, runs after "
                f"{tensor.op.control_inputs[0].name}; make it outside of blocks of tf.control_dependencies"
            )


def _in_control_flow(ops: Sequence[tf.Operation]) -> set[tf.Operation]:
    """Return the operations of loops and branches of TensorFlow 1 among some, which include all that they need."""
    depth: dict[tf.Operation, int] = {}
    found = set()
    for op in ops:
        # What comes back from the turn before is made later, and is as deep as the other input.
        inside = max((depth.get(other, 0) for other in needed_by(op)), default=0)
        depth[op] = inside + (op.type in op_kinds.ENTERING_LOOPS) - (op.type in op_kinds.LEAVING_LOOPS)
        if inside or op.type in op_kinds.FRAME_CONTROL:
            found.add(op)
    return found
