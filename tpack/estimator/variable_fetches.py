"""Values of variables that are fetched in the same run as their updates, as TensorFlow 1 gave them.

In TensorFlow 1 a fetched variable shared its memory with the update, so ``session.run([train_op, global_step])`` gave
the step after the update, in each of many thousands of runs. A resource variable is copied by its read, at any moment
of the run. Here such reads leave the run, and a second run after it has them.

Fetches that are computed of variables alone, such as ``w * 2`` or the value of a metric, raced with the update in
TensorFlow 1, and nearly always came first. They are computed before the run. Others whose order nothing determines,
there or here, are reported once.
"""

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, TypeAlias

import numpy as np
import tensorflow.compat.v1 as tf

from tpack.compat.runtime import make_callable
from tpack.graph_copy import op_kinds
from tpack.step.fetch_plan import FetchPlan, graph_element, is_composite
from tpack.utils.logger import log_once

Run: TypeAlias = Callable[[Sequence[tf.Tensor], Sequence[tf.Operation]], list[Any]]
"""Runs tensors and operations, and returns the values of the tensors."""

_RESHAPED = op_kinds.SHARING_MEMORY_RESHAPED
_SAME_MEMORY = op_kinds.SHARING_MEMORY | _RESHAPED
_CHANGE_PREFIXES = (*op_kinds.CHANGE_PREFIXES, *op_kinds.SCATTER_PREFIXES)
_RESOURCE_VARIABLES = op_kinds.VARIABLES - op_kinds.REFERENCE_VARIABLES
_WITHOUT_EFFECT = op_kinds.READING_VALUES | op_kinds.READING_VARIABLES | _RESOURCE_VARIABLES


_MAX_KEPT = 256
"""How many sets of fetches a session remembers; a loop that makes new ones all the time starts again."""


@dataclass(frozen=True)
class SplitRun:
    """One run in three parts: what is computed of variables before it, the run itself, and the reads after it.

    Attributes:
        early: {position of a fetch: its tensor} of the first part.
        main: the same of the run itself.
        targets: the run's operations without a value.
        late: the same of reads, each of the whole variable.
        reshaped: positions of late fetches that take their shape from the same fetch in the run.
        size: the number of fetches.
    """

    early: dict[int, tf.Tensor]
    main: dict[int, tf.Tensor]
    targets: list[tf.Operation]
    late: dict[int, tf.Tensor]
    reshaped: frozenset[int]
    size: int

    def run(self, run: Run, run_reads: Run) -> list[Any]:
        """Run all parts; return the values in the order of the fetches.

        Args:
            run: for the run itself.
            run_reads: for the other two, which are not fed.
        """
        values: list[Any] = [None] * self.size
        self._fill(values, self.early, run_reads)
        for position, value in zip(self.main, run([*self.main.values()], self.targets), strict=True):
            values[position] = value
        shapes = {position: np.shape(values[position]) for position in self.reshaped}
        self._fill(values, self.late, run_reads)
        for position, shape in shapes.items():
            values[position] = np.reshape(values[position], shape)
        return values

    @staticmethod
    def _fill(values: list[Any], part: dict[int, tf.Tensor], run_reads: Run) -> None:
        if part:
            for position, value in zip(part, run_reads([*part.values()], []), strict=True):
                values[position] = value


def split_run(
    fetches: Sequence[tf.Tensor],
    targets: Sequence[tf.Operation],
    fed: Collection[str] = (),
    *,
    is_partial: bool = False,
) -> SplitRun | None:
    """Return the parts of a run that fetches variables together with their updates; None if it is one run.

    Args:
        fetches: the tensors to fetch; the handle of a variable stands for its value.
        targets: operations to run.
        fed: the names of tensors that are fed.
        is_partial: whether all fetches must be fetched in the run itself too, as in a partial run.
    """
    found = _Analysis(fetches, targets, fed)
    late, early, reshaped = found.late, found.early, found.reshaped
    if is_partial:
        # What an earlier part has updated is not seen here.
        late, early, reshaped = found.reads, {}, set()
    handles = {position for position, read in found.reads.items() if fetches[position].dtype == tf.resource}
    if not (late or early or handles):
        return None
    main, pulled = {}, list(targets)
    for position, tensor in enumerate(fetches):
        if is_partial or position in reshaped or not (position in late or position in early or position in handles):
            main[position] = tensor
        elif position in late and tensor.op.type != "VarHandleOp":
            # The read itself is left out, but what it waits for, such as an assignment, is not.
            pulled += [op for op in _chain(tensor) for op in op.control_inputs]
        elif position in handles and position not in late:
            main[position] = found.reads[position]
    unique = list({op.name: op for op in pulled}.values())
    return SplitRun(early, main, unique, late, frozenset(reshaped), len(fetches))


class SplitPlan(FetchPlan):
    """A `FetchPlan` that reads variables after their updates."""

    def _make_callable(self, *, in_caller_thread: bool) -> Callable[..., list[Any]]:
        targets = list(self._targets.values())
        parts = split_run(self._tensors, targets, [feed.name for feed in self._feeds]) if self.runs_anything else None
        if parts is None:
            return super()._make_callable(in_caller_thread=in_caller_thread)
        make = make_callable
        main = (
            make(
                self._session,
                feeds=self._feeds,
                fetches=list(parts.main.values()),
                targets=parts.targets,
                in_caller_thread=in_caller_thread,
                timeout_in_ms=self._timeout_in_ms,
            )
            if parts.main or parts.targets
            else lambda *feed_values: []
        )
        reads = ReadRuns(self._session)
        return lambda *feed_values: parts.run(lambda fetches, targets: main(*feed_values), reads)


class ReadRuns:
    """Runs reads of variables in a session, each set of them as a callable that is made once."""

    def __init__(self, session: tf.Session) -> None:
        self._session = session
        self._callables: dict[tuple[int, ...], tuple[Sequence[tf.Tensor], Callable[..., list[Any]]]] = {}

    def __call__(self, fetches: Sequence[tf.Tensor], targets: Sequence[tf.Operation]) -> list[Any]:
        """Return the values of tensors."""
        key = tuple(map(id, fetches))
        if key not in self._callables:
            self._callables[key] = (fetches, make_callable(self._session, fetches=fetches, in_caller_thread=True))
        return self._callables[key][1]()


class InPlaceOf(type):
    """The type of a class that takes the place of one of TensorFlow, whose objects count as its own."""

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, vars(cls).get("_in_place_of", ())) or super().__instancecheck__(instance)


class ReadsAfterUpdates:
    """The runs of these sessions."""

    def _do_run(
        self,
        handle: Any,
        target_list: Sequence[tf.Operation],
        fetch_list: Sequence[tf.Tensor],
        feed_dict: Mapping[Any, Any],
        options: Any,
        run_metadata: Any,
    ) -> Any:
        """Run tensors and operations; every run of TensorFlow's session gets here with its flat fetches."""
        fed = [reference.deref() for reference in feed_dict]
        key = (handle is None, len(fetch_list), *map(id, fetch_list), *map(id, target_list), *map(id, fed))
        known = self._known_runs.get(key)
        if known is None:
            # Ids are those of objects that live.
            known = (self._parts(handle, target_list, fetch_list, fed), fetch_list, target_list, fed)
            self._known_runs[key] = known
        parts = known[0]
        run: Any = super()._do_run  # type: ignore[misc]
        if parts is None:
            return run(handle, target_list, fetch_list, feed_dict, options, run_metadata)
        return parts.run(
            lambda fetches, targets: run(handle, targets, fetches, feed_dict, options, run_metadata), self._run_reads
        )

    @cached_property
    def _known_runs(self) -> dict[Hashable, tuple[Any, ...]]:
        return {}

    @cached_property
    def _reads(self) -> "ReadRuns":
        return ReadRuns(self)

    def make_callable(self, fetches: Any, feed_list: Any = None, accept_options: bool = False) -> Callable[..., Any]:
        """Return a function that runs the fetches."""
        if feed_list is None and not accept_options and self._is_split(fetches):
            return partial(self.run, fetches)  # type: ignore[attr-defined]
        made: Callable[..., Any] = super().make_callable(fetches, feed_list, accept_options)  # type: ignore[misc]
        return made

    def _is_split(self, fetches: Any) -> bool:
        if is_composite(fetches):
            return False
        elements = [graph_element(self.graph, leaf) for leaf in tf.nest.flatten(fetches)]  # type: ignore[attr-defined]
        tensors = [element for element in elements if isinstance(element, tf.Tensor)]
        return split_run(tensors, [element for element in elements if isinstance(element, tf.Operation)]) is not None

    def _parts(
        self, handle: Any, targets: Sequence[tf.Operation], fetches: Sequence[tf.Tensor], fed: Sequence[tf.Tensor]
    ) -> SplitRun | None:
        if len(self._known_runs) >= _MAX_KEPT:
            self._known_runs.clear()
        return split_run(fetches, targets, {tensor.name for tensor in fed}, is_partial=handle is not None)

    @property
    def _run_reads(self) -> Run:
        """Runs reads of variables alone."""
        if self.sess_str:  # type: ignore[attr-defined]
            run: Any = super()._do_run  # type: ignore[misc]
            return lambda fetches, targets: run(None, targets, fetches, {}, None, None)
        return self._reads


class Session(ReadsAfterUpdates, tf.Session, metaclass=InPlaceOf):
    """``tf.Session``, in which a fetched variable has its value after the updates of the run."""

    _in_place_of = tf.Session


def adopt(session: Any) -> Any:
    """Make a session of TensorFlow's, which is returned, one of these; others stay as they are."""
    if type(session) is tf.Session:
        session.__class__ = Session
    return session


class _Analysis:
    """The fetches of a run that are variables, or computed of them, and the order of their reads and updates."""

    def __init__(self, fetches: Sequence[tf.Tensor], targets: Sequence[tf.Operation], fed: Collection[str]) -> None:
        self._fetches = fetches
        self._fed = frozenset(fed)
        self._ops = self._in_order([*(tensor.op for tensor in fetches if tensor.name not in self._fed), *targets])
        self.reads = {i: read for i, tensor in enumerate(fetches) if (read := self._variable_read(tensor)) is not None}
        self._updates = self._by_variable(self._ops, lambda op: op.type.startswith(_CHANGE_PREFIXES))
        opaque = self._by_variable(self._ops, lambda op: op.type in op_kinds.FUNCTION_CALLS)
        written = {*self._updates, *opaque}
        self.late = {i: read for i, read in self.reads.items() if _variables_of(read.op) & written}
        self.reshaped = {i for i in self.late if any(op.type in _RESHAPED for op in _chain(fetches[i]))}

    @cached_property
    def early(self) -> dict[int, tf.Tensor]:
        """Fetches that are computed of variables alone, of which some are updated at any time in this run."""
        racing = {i: names for i in range(len(self._fetches)) if i not in self.reads and (names := self._races(i))}
        early = {i: self._fetches[i] for i in racing if self._is_of_variables_alone(self._fetches[i].op)}
        for i in racing.keys() - early.keys():
            log_once(
                f"The run of {self._fetches[i].name!r} also updates the variables it is computed of "
                f"({', '.join(sorted(racing[i])[:3])}), before or after their reads: nothing determines the order, "
                "here or in TensorFlow 1. Fetch it in a run of its own, or use tf.control_dependencies.",
                "warning",
            )
        return early

    def _inputs(self, op: tf.Operation) -> Iterable[tf.Operation]:
        yield from (tensor.op for tensor in op.inputs if tensor.name not in self._fed)
        yield from op.control_inputs

    def _in_order(self, starts: Iterable[tf.Operation]) -> dict[str, tf.Operation]:
        """Return all operations that the run needs, inputs first; loops are cut where they close."""
        seen: set[str] = set()
        ordered: dict[str, tf.Operation] = {}
        stack = [(op, False) for op in starts]
        while stack:
            op, is_done = stack.pop()
            if is_done:
                ordered[op.name] = op
            elif op.name not in seen:
                seen.add(op.name)
                stack.append((op, True))
                stack += [(other, False) for other in self._inputs(op) if other.name not in seen]
        return ordered

    def _variable_read(self, tensor: tf.Tensor) -> tf.Tensor | None:
        """Return a read of the variable whose memory a fetch shared in TensorFlow 1; None if it did not."""
        if any(part.outputs[0].name in self._fed for part in _chain(tensor)):
            return None
        last = _chain(tensor)[-1]
        if last.type == "ReadVariableOp":
            handle = _handle(last.inputs[0])
        else:
            handle = last if last.type == "VarHandleOp" and last is tensor.op else None
        return None if handle is None else _plain_read(handle)

    @staticmethod
    def _by_variable(
        ops: dict[str, tf.Operation], is_wanted: Callable[[tf.Operation], bool]
    ) -> dict[str, list[tf.Operation]]:
        found: dict[str, list[tf.Operation]] = {}
        for op in filter(is_wanted, ops.values()):
            for variable in _variables_of(op):
                found.setdefault(variable, []).append(op)
        return found

    @cached_property
    def _reads_before(self) -> tuple[dict[str, list[tf.Operation]], dict[str, int], dict[str, int]]:
        """The reads of updated variables, the bit of each read and update, and the bits before each operation."""
        reads = self._by_variable(self._ops, lambda op: op.type in op_kinds.READING_VALUES)
        reads = {variable: ops for variable, ops in reads.items() if variable in self._updates}
        ends = [op for group in (*reads.values(), *self._updates.values()) for op in group]
        bits = {name: 1 << index for index, name in enumerate({op.name: op for op in ends})}
        before: dict[str, int] = {}
        for name, op in self._ops.items():
            mask = bits.get(name, 0)
            for other in self._inputs(op):
                mask |= before.get(other.name, 0)
            before[name] = mask
        return reads, bits, before

    def _races(self, position: int) -> set[str]:
        """Return the variables that a fetch is computed of by reads that may come before or after an update."""
        if not self._updates or self._fetches[position].name in self._fed:
            return set()
        reads, bits, before = self._reads_before
        mine = before[self._fetches[position].op.name]
        return {
            variable
            for variable, ops in reads.items()
            for read in ops
            if mine & bits[read.name]
            for update in self._updates[variable]
            if not (before[update.name] & bits[read.name] or before[read.name] & bits[update.name])
        }

    def _is_of_variables_alone(self, op: tf.Operation) -> bool:
        needed = self._in_order([op]).values()
        return not any(
            other.type in op_kinds.PLACEHOLDERS or (other.op_def.is_stateful and other.type not in _WITHOUT_EFFECT)
            for other in needed
        ) and not any(tensor.name in self._fed for other in needed for tensor in other.inputs)


def _chain(tensor: tf.Tensor) -> list[tf.Operation]:
    """Return the operations from a fetch back to the first whose output has memory of its own."""
    chain = [tensor.op]
    while chain[-1].type in _SAME_MEMORY:
        chain.append(chain[-1].inputs[0].op)
    return chain


def _handle(tensor: tf.Tensor) -> tf.Operation | None:
    """Return the variable that a resource is the handle of; None for another resource."""
    op = tensor.op
    while op.type in op_kinds.PASSING_HANDLES:
        op = op.inputs[0].op
    return op if op.type == "VarHandleOp" else None


def _variables_of(op: tf.Operation) -> set[str]:
    """Return the names by which a session knows the variables that an operation takes."""
    handles = [_handle(tensor) for tensor in op.inputs if tensor.dtype == tf.resource]
    return {_name(handle) for handle in handles if handle is not None}


def _name(handle: tf.Operation) -> str:
    name = handle.get_attr("shared_name").decode() or handle.name
    container = handle.get_attr("container").decode()
    return f"{container}/{name}" if container else name


def _plain_read(handle: tf.Operation) -> tf.Tensor | None:
    """Return a read of a variable that waits for nothing; None if there is none and the graph is finalized."""
    for op in handle.outputs[0].consumers():
        if op.type == "ReadVariableOp" and not op.control_inputs:
            return op.outputs[0]
    if handle.graph.finalized:
        log_once(
            f"The variable {handle.name!r} is fetched from a finalized graph without a read of its own: its value "
            "may be from before the update of the same run.",
            "warning",
        )
        return None
    with handle.graph.as_default(), tf.control_dependencies(None), tf.device(handle.device):
        return tf.raw_ops.ReadVariableOp(resource=handle.outputs[0], dtype=handle.get_attr("dtype"))
