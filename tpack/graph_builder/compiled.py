"""Compilation of towers by XLA: which operations are marked, and a report of those that XLA cannot compile.

TensorFlow compiles marked operations: connected ones become one function. The graph keeps its names, so fetches, feeds,
summaries and checkpoints work as before.

Marked are the operations that a tower's outputs depend on, in training its cost, gradients and updates; inputs,
summaries, reductions and optimizers are not. TensorFlow silently ignores a mark that it cannot use, so its kernels are
looked up once there is a session.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeAlias

import tensorflow.compat.v1 as tf

from tpack.compat.operations import compiled_kernels, mark_for_compilation
from tpack.errors import CompilationError, ConfigError
from tpack.graph_copy import op_kinds
from tpack.step.fetch_plan import CompiledCopy
from tpack.tower.context import TowerContext, current_tower_context
from tpack.tower.devices import list_gpus
from tpack.tower.names import Scope
from tpack.tower.tower_func import TowerFunc, TowerHandle
from tpack.utils import logger
from tpack.utils.validation import check_arguments

_MOST_NAMES = 5
"""The most operations that a message names."""


@check_arguments
@dataclass(frozen=True)
class CompilePolicy:
    """Options of compilation by XLA.

    Args:
        mode: ``"xla"``, or ``"auto"``, which makes the first steps of a training both ways and keeps the faster.
        fall_back: run operations that XLA cannot compile uncompiled, with a line in the log; by default they are an
            error that names them, but not in ``"auto"``.

    Raises:
        ConfigError: The mode is unknown.

    Example:
        SyncMultiGPUTrainerReplicated(8, compile=CompilePolicy(fall_back=True))
    """

    mode: str = "xla"
    fall_back: bool = False

    def __post_init__(self) -> None:
        if self.mode not in MODES:
            raise ConfigError(f"compile got {self.mode!r}: expected one of {', '.join(MODES)}, a CompilePolicy or None")


MODES = ("xla", "auto")

Compile: TypeAlias = str | CompilePolicy | None


def as_compile_policy(compile: Compile) -> CompilePolicy | None:
    """Return the policy of a name or a policy; None compiles nothing, and an unknown mode raises a `ConfigError`."""
    return CompilePolicy(compile) if isinstance(compile, str) else compile


class TowerCompiler:
    """Marks the operations of a model's towers for XLA, and reports those that it cannot compile.

    Attributes:
        is_on_server: whether the model runs on a TensorFlow server, as with several workers; set before marking.
    """

    def __init__(self, policy: CompilePolicy) -> None:
        self._policy = policy
        self.is_on_server = False
        self._scopes: dict[tf.Operation, str] = {}
        self._marked: list[tf.Operation] = []
        self._refused: list[tf.Operation] = []
        self._made: defaultdict[TowerContext, list[tf.Operation]] = defaultdict(list)
        self._last: tuple[TowerContext, int, int] | None = None

    @property
    def measures(self) -> bool:
        """Whether steps are compared with uncompiled ones: then only a copy of the step is compiled."""
        return self._policy.mode == "auto"

    @contextmanager
    def watching(self, tower: TowerContext) -> Iterator[None]:
        """Record the operations that a block adds to a tower, for `mark`, without those of other towers."""
        graph = tf.get_default_graph()
        num_before = len(graph.get_operations())
        yield
        made = graph.get_operations()[num_before:]
        prefix = f"{tower.ns_name}/" if tower.ns_name else ""
        self._made[tower].extend(op for op in made if op.name.startswith(prefix))

    def mark(self, tower: TowerContext, outputs: Iterable[Any]) -> None:
        """Mark the recorded operations of a tower that outputs depend on, on the device that most of them have."""
        if self.measures and not tower.is_training:
            return
        self._last = (tower, len(self._marked), len(self._refused))
        ends = [op for output in outputs for op in _operations_of(output)]
        needed = _needed(ends, self._made[tower])
        wanted = [op for op in needed if not (_is_left_alone(op) or _is_refused(op))]
        (device, _), *_ = Counter(op.device for op in wanted).most_common() or [("", 0)]
        moved = _moved_to_host(needed, device, is_on_server=self.is_on_server)
        compiled = [op for op in wanted if op.device == device and op.name not in moved]
        self._refused.extend(op for op in needed if _is_refused(op))
        names = {op.name for op in compiled if op.type != "Const"}
        for op in compiled:
            # A constant for uncompiled operations would be a compiled function by itself.
            if op.name in names or any(user.name in names for user in op.outputs[0].consumers()):
                self._mark(op, tower)
                self._marked.append(op)

    def _mark(self, op: tf.Operation, tower: TowerContext) -> None:
        if self.measures:
            self._scopes[op] = _scope_of(tower)
        else:
            mark_for_compilation(op, _scope_of(tower))

    def copy_step(self) -> CompiledCopy | None:
        """Add a compiled copy of all that depends on marked operations to the complete graph; None if impossible."""
        reason = "nothing in it can be compiled"
        if self._scopes:
            try:
                return CompiledCopy(self._scopes)
            except ConfigError as error:
                reason = str(error)
        logger.warning(f'Steps run uncompiled: compile="auto" cannot make them both ways, since {reason}.')
        return None

    def note_copy(self) -> None:
        """Record the current tower, a copy of the last marked one, marks included."""
        tower = current_tower_context()
        if self._last is not None:
            last, num_marked, num_refused = self._last
            graph, scopes = tf.get_default_graph(), (Scope(last.ns_name), Scope(tower.ns_name))
            self._last = (tower, len(self._marked), len(self._refused))
            num_copied = len(self._marked)
            for ops, begin in ((self._marked, num_marked), (self._refused, num_refused)):
                names = [scopes[0].renamed(op.name, scopes[1]) for op in ops[begin:]]
                ops.extend(graph.get_operation_by_name(name) for name in names)
            for op in self._marked[num_copied:]:
                self._mark(op, tower)

    def check(self, session: tf.Session) -> None:
        """Log or raise the operations that cannot be compiled, once ``session`` has its variables.

        Raises:
            CompilationError: There are some, which it names, and the policy does not fall back.
        """
        # TensorFlow registers its kernels in the first run of any session.
        session.run(tf.no_op())
        kernels = cache(compiled_kernels)
        missing = [op for op in self._marked if not _has_kernel(op, kernels)]
        loops = sorted(self._refused, key=lambda op: op.type not in op_kinds.CONTROL_FLOW)
        if (missing or loops) and not (self._policy.fall_back or self.measures):
            raise CompilationError(_explain(missing, loops))
        num_marked = len(self._marked) - len(missing)
        left = f"; these run uncompiled: {_list([*missing, *loops])}" if missing or loops else ""
        logger.info(f"XLA compiles {num_marked} operations when they first run, and again for each new shape{left}.")


def _scope_of(tower: TowerContext) -> str:
    """Return a scope of the tower's own: TensorFlow compiles several CPU devices into one function."""
    return f"tpack_{tower.ns_name}"


def watched(compiler: TowerCompiler | None, tower: TowerContext) -> AbstractContextManager[None]:
    """Return a block whose operations a compiler, if any, records for a tower."""
    return nullcontext() if compiler is None else compiler.watching(tower)


def build_watched(
    tower_func: TowerFunc,
    tower: TowerContext,
    get_inputs: Callable[[], Sequence[tf.Tensor]],
    compiler: TowerCompiler | None = None,
) -> TowerHandle:
    """Call ``tower_func`` in a tower with inputs that are made inside of it, and record its operations, for `mark`."""
    with tower:
        values = get_inputs()
        with watched(compiler, tower):
            tower_func(*values)
    return tower_func.towers[-1]


def _operations_of(output: Any) -> list[tf.Operation]:
    if isinstance(output, tf.IndexedSlices):
        parts = [output.values, output.indices, output.dense_shape]
        return [part.op for part in parts if part is not None]
    return [output if isinstance(output, tf.Operation) else output.op]


def _needed(ends: Sequence[tf.Operation], among: Sequence[tf.Operation]) -> list[tf.Operation]:
    """Return the operations that others depend on, in their order."""
    known = {op.name for op in among}
    waiting = [op for op in ends if op.name in known]
    found = {op.name for op in waiting}
    while waiting:
        op = waiting.pop()
        for before in (*(tensor.op for tensor in op.inputs), *op.control_inputs):
            if before.name in known and before.name not in found:
                found.add(before.name)
                waiting.append(before)
    return [op for op in among if op.name in found]


def _moved_to_host(ops: Sequence[tf.Operation], device: str, *, is_on_server: bool) -> set[str]:
    """Return the names of operations of a tower with which TensorFlow would refuse to compile others.

    Before compilation it folds constants, and rewrites slices that begin elsewhere each time, as in the gradient of a
    concatenation. It puts both on the first CPU device, and then refuses the function if the tower is on another one. A
    session on a server does not have that device.
    """
    spec = tf.DeviceSpec.from_string(device)
    if spec.device_type != "CPU" or not (spec.device_index or is_on_server):
        return set()
    known = {op.name for op in ops if op.type == "Const"}
    for op in ops:
        if op.inputs and all(each.op.name in known for each in op.inputs):
            known.add(op.name)
    return {op.name for op in ops if op.type == "Slice" or (op.name in known and op.type != "Const")}


def _is_left_alone(op: tf.Operation) -> bool:
    return op.type in op_kinds.LEFT_BY_XLA or any(word in op.type for word in op_kinds.DRAWING_WORDS)


def _is_refused(op: tf.Operation) -> bool:
    """Return whether TensorFlow does not compile an operation that XLA could: loops and lists of tensors."""
    tensors = (*op.inputs, *op.outputs)
    return (
        op.type in op_kinds.CONTROL_FLOW
        or op.type.startswith(op_kinds.LIST_PREFIXES)
        or any(tensor.dtype == tf.variant for tensor in tensors)
    )


def _has_kernel(op: tf.Operation, kernels: Callable[[str, str], list[dict[str, set[int]]]]) -> bool:
    kind = tf.DeviceSpec.from_string(op.device).device_type or ("GPU" if list_gpus() else "CPU")
    return any(
        all(set(_dtypes(op, name)) <= allowed for name, allowed in dtypes.items()) for dtypes in kernels(op.type, kind)
    )


def _dtypes(op: tf.Operation, attribute: str) -> list[int]:
    value = op.get_attr(attribute)
    return [dtype.as_datatype_enum for dtype in (value if isinstance(value, (list, tuple)) else [value])]


def _explain(missing: Sequence[tf.Operation], loops: Sequence[tf.Operation]) -> str:
    reasons = []
    if missing:
        reasons.append(f"XLA has no kernel for {_list(missing)}")
    if loops:
        reasons.append(f"TensorFlow does not compile loops, conditions and functions within a graph: {_list(loops)}")
    return (
        f'compile="xla" cannot compile all of the model: {"; ".join(reasons)}. CompilePolicy(fall_back=True) lets '
        "these run uncompiled"
    )


def _list(ops: Sequence[tf.Operation]) -> str:
    more = f" and {len(ops) - _MOST_NAMES} more" if len(ops) > _MOST_NAMES else ""
    return ", ".join(f"{op.name!r} ({op.type}{_place(op)})" for op in ops[:_MOST_NAMES]) + more


def _place(op: tf.Operation) -> str:
    """Return the line of the program that made an operation: the innermost outside of TensorFlow and tpack."""
    for frame in reversed(op.traceback or []):
        parts = set(frame.filename.replace("\\", "/").split("/"))
        if not parts & {"tensorflow", "tpack", "keras", "contextlib.py", "threading.py"}:
            return f", made in {frame.filename} line {frame.lineno}"
    return ""
