"""The one module that uses undocumented parts of TensorFlow and Keras; it alone changes when a release moves them."""

import inspect
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from operator import attrgetter
from typing import Any

import tensorflow
import tensorflow.compat.v1 as tfv1

# The base of all variables. The Variable of compat.v1 is no base of resource variables.
from tensorflow import Variable as BaseVariable
from tensorflow.core.framework.attr_value_pb2 import AttrValue
from tensorflow.core.framework.device_attributes_pb2 import DeviceAttributes
from tensorflow.core.protobuf import config_pb2
from tensorflow.python.client import device_lib, pywrap_tf_session, timeline
from tensorflow.python.data.ops import multi_device_iterator_ops
from tensorflow.python.distribute import device_util, distribute_lib
from tensorflow.python.eager import context
from tensorflow.python.framework import c_api_util, kernels, random_seed
from tensorflow.python.ops import collective_ops, control_flow_ops, control_flow_util, lookup_ops, nccl_ops
from tensorflow.python.ops.control_flow_v2_func_graphs import CondBranchFuncGraph
from tensorflow.python.ops.variable_scope import _get_default_variable_store, get_variable_scope_store
from tensorflow.python.profiler import profiler_v2
from tensorflow.python.trackable.base import VARIABLE_VALUE_KEY, Trackable
from tensorflow.python.training.experimental import mixed_precision_global_state
from tensorflow.python.training.saving.saveable_object import SaveableObject, SaveSpec
from tensorflow.python.util import _pywrap_util_port, deprecation, nest

from tpack.graph_copy import op_kinds

__all__ = [
    "KERAS_BUILDING", "KERAS_LAYER_FILES", "KERAS_MAKING", "KERAS_VARIABLE_FILE", "VARIABLE_VALUE_KEY", "BaseVariable",
    "BuildState", "SaveSpec", "SaveableObject", "Trackable", "chrome_trace", "collective_all_reduce",
    "compiled_kernels", "control_flow_of", "continue_scope_counts", "current_control_dependencies", "current_device",
    "current_seed", "eager_mode", "elementwise_equality", "RandomSeeds", "add_nodes", "filter_collection",
    "fix_summation_order", "forget_names", "get_tf_version_tuple", "is_onednn_enabled", "is_building_gradient",
    "is_in_loop_or_function", "is_in_variable_store", "is_marked_for_compilation",
    "is_mixed_precision_rewrite_enabled", "is_tfv2", "keep_watching", "last_loss_reduction", "list_local_devices",
    "lookup_ops", "loop_in_graph", "make_callable", "make_multi_device_iterator", "mark_for_compilation",
    "names_in_use", "nccl_all_sum", "nest", "only_in", "optimizer_that_applies", "run_after", "serialized_graph",
    "set_initial_value", "shown_strategy", "start_profiler", "stop_profiler", "swap_graph_state", "tfv1",
    "unknown_keras_places", "variables_by_name", "watch_operations",
]  # fmt: skip

# Code of Keras that calls layers and assigns to variables: package, class, method and file.
_KERAS_PLACES = (
    ("keras", "layers.Layer", "__call__", "/keras/src/layers/layer.py"),
    ("tf_keras", "layers.Layer", "__call__", "/tf_keras/src/engine/base_layer.py"),
    ("keras", "Variable", "assign", "/keras/src/backend/common/variables.py"),
    ("keras", "Variable", "_initialize", "/keras/src/backend/tensorflow/core.py"),
)
KERAS_LAYER_FILES = (*(place[-1] for place in _KERAS_PLACES[:2]), "/tf_keras/src/engine/base_layer_v1.py")
KERAS_VARIABLE_FILE = _KERAS_PLACES[2][-1]
# Where the object whose ``trainable`` counts for a new variable is ``self``: functions and their files.
KERAS_MAKING = {"_initialize": (_KERAS_PLACES[3][-1],), "add_weight": KERAS_LAYER_FILES[1:]}
KERAS_BUILDING = ("_maybe_build", "build_wrapper")

# OpKernelContext::Params::kNeverForward in tensorflow/core/framework/op_kernel.h.
_NEVER_FORWARD = -2
# Marks the additions that the arithmetic optimizer of grappler has dealt with.
_DO_NOT_JOIN = "_grappler_ArithmeticOptimizer_AddOpsRewriteStage"
# What `tf.Graph` keeps of the blocks that are open, once for all threads.
_GRAPH_STATE = (
    "_control_flow_context", "_default_original_op", "_attr_scope_map", "_op_to_kernel_label_map",
    "_gradient_override_map", "_gradient_function_map", "_container",
)  # fmt: skip


def is_tfv2() -> bool:
    """Tell whether this is TensorFlow 2; always true on the versions that tpack supports."""
    return get_tf_version_tuple()[0] >= 2


def get_tf_version_tuple() -> tuple[int, int]:
    """Return TensorFlow's (major, minor) version as integers."""
    major, minor = tensorflow.__version__.split(".")[:2]
    return int(major), int(minor)


def is_onednn_enabled() -> bool:
    """Tell whether TensorFlow computes with oneDNN on the CPU: by its build, the processor and the environment."""
    return bool(_pywrap_util_port.IsMklEnabled())


def is_mixed_precision_rewrite_enabled() -> bool:
    """Tell whether TensorFlow's rewriting of graphs to 16 bits was enabled."""
    return bool(mixed_precision_global_state.is_mixed_precision_graph_rewrite_enabled())


def collective_all_reduce(
    tensor: tfv1.Tensor,
    *,
    group_size: int,
    group_key: int,
    instance_key: int,
    hint: str = "auto",
    timeout_secs: float = 0,
) -> tfv1.Tensor:
    """Sum ``tensor`` over the devices of a group with TensorFlow's collective op, on the device of ``tensor``.

    Args:
        tensor: this device's summand.
        group_size: the number of devices.
        group_key: one integer for each set of devices.
        instance_key: one integer for each tensor that is reduced; never used twice in a graph.
        hint: the implementation: ``"auto"``, ``"ring"`` or ``"nccl"``.
        timeout_secs: seconds to wait for the peers before the op fails; 0 waits for ever.
    """
    ops = {"merge_op": "Add", "final_op": "Id", "communication_hint": hint, "timeout": timeout_secs}
    return collective_ops.all_reduce(tensor, group_size, group_key, instance_key, **ops)


def current_control_dependencies() -> list[tfv1.Operation]:
    """Return the operations of the open blocks of ``tf.control_dependencies``."""
    return list(tfv1.get_default_graph()._current_control_dependencies())


def current_device() -> str:
    """Return the device of the open blocks of ``tf.device``; empty if there is none."""
    return str(device_util.current() or "")


def current_seed() -> int | None:
    """Return the last argument of ``tf.set_random_seed``: for the default graph, or in eager mode."""
    seed = context.global_seed() if tfv1.executing_eagerly() else tfv1.get_default_graph().seed
    return None if seed is None else int(seed)


def nccl_all_sum(tensors: Sequence[tfv1.Tensor]) -> list[tfv1.Tensor]:
    """Sum tensors of one shape on different GPUs with NCCL; entry k of the result is on the GPU of input k."""
    return list(nccl_ops.all_sum(list(tensors)))


def last_loss_reduction() -> str | None:
    """Return how the last loss of ``tf.losses`` in the current graph was reduced over the batch, or None."""
    return tfv1.get_default_graph()._last_loss_reduction


def list_local_devices(session_config: tfv1.ConfigProto | None = None) -> list[DeviceAttributes]:
    """Return a ``DeviceAttributes`` message for each device of this process, and start those that do not run yet.

    By default the memory of GPUs grows; otherwise the first session takes all of it (tensorflow/tensorflow#9374).
    """
    if session_config is None:
        session_config = tfv1.ConfigProto()
        session_config.gpu_options.allow_growth = True
    return list(device_lib.list_local_devices(session_config=session_config))


def loop_in_graph(
    condition: Callable[..., tfv1.Tensor], body: Callable[..., Any], start: tuple[Any, ...]
) -> tuple[Any, ...]:
    """Build a loop of TensorFlow 1 in the current graph, with its towers and scopes; return the last values.

    Args:
        condition: takes the values; returns whether there is another turn.
        body: takes the values and returns those of the next turn; one turn after the other.
        start: the values before the first turn.
    """
    loop = control_flow_ops.WhileContext(parallel_iterations=1, back_prop=False)
    if loop.outer_context is None:
        tfv1.add_to_collection(tfv1.GraphKeys.WHILE_CONTEXT, loop)
    return tuple(loop.BuildLoop(condition, body, start, None, True))


def make_callable(
    session: tfv1.Session,
    *,
    feeds: Sequence[tfv1.Tensor] = (),
    fetches: Sequence[tfv1.Tensor] = (),
    targets: Sequence[tfv1.Operation] = (),
    in_caller_thread: bool = False,
    timeout_in_ms: int = 0,
) -> Callable[..., list[Any]]:
    """Make a function that runs one fixed set of fetches, for less than ``session.run`` costs.

    A feed aligned to 64 bytes is not copied: the array must stay unchanged until its consumer ran.

    Args:
        session: an open session.
        feeds: tensors that the function takes as positional numpy arrays, in this order.
        fetches: tensors whose values the function returns, in this order.
        targets: operations to run for their effect.
        in_caller_thread: run the kernels one after the other in the calling thread, without the thread pool.
        timeout_in_ms: a call that takes longer fails with a ``DeadlineExceededError``; 0 for no limit.

    Returns:
        ``function(*arrays) -> list of numpy values``. It keeps the session alive and must not outlive it.
    """
    options = config_pb2.CallableOptions()
    options.feed.extend(feed.name for feed in feeds)
    options.fetch.extend(fetch.name for fetch in fetches)
    options.target.extend(target.name for target in targets)
    if in_caller_thread:
        options.run_options.inter_op_thread_pool = -1
    options.run_options.timeout_in_ms = timeout_in_ms
    return session._make_callable_from_options(options)


def make_multi_device_iterator(
    dataset: tfv1.data.Dataset, devices: Sequence[str], buffer_size: int
) -> multi_device_iterator_ops.MultiDeviceIterator:
    """Make an iterator over a dataset whose ``get_next()`` returns one element for each device, with a buffer."""
    return multi_device_iterator_ops.MultiDeviceIterator(
        dataset, list(devices), max_buffer_size=buffer_size, prefetch_buffer_size=buffer_size
    )


def chrome_trace(run_metadata: tfv1.RunMetadata) -> str:
    """Return the metadata of a run with a ``trace_level`` as JSON in Chrome's trace format."""
    return str(timeline.Timeline(run_metadata.step_stats).generate_chrome_trace_format())


def start_profiler(directory: str) -> None:
    """Begin a recording of this process for TensorBoard's profiler, in ``plugins/profile`` of a directory.

    Raises:
        AlreadyExistsError: There is a recording already.
    """
    profiler_v2.start(directory)


def stop_profiler() -> None:
    """End the recording of `start_profiler`, and write it; TensorFlow raises an UnavailableError if there is none."""
    profiler_v2.stop()


def fix_summation_order(operations: Iterable[tfv1.Operation]) -> None:
    """Make every run of a graph add in the same order, so that sums of floating-point numbers repeat bit by bit.

    ``AddN`` of three and more tensors starts with the input that may be overwritten at that moment, and TensorFlow's
    optimizer joins neighbouring additions to larger ``AddN`` ops; attributes forbid both. The optimizer's pass for
    memory, where a device's memory seems short (256 MB for a CPU), adds each summand at once; sessions of
    `NewSessionCreator` have this pass off by default.

    Args:
        operations: only additions are changed. No session may have run them.
    """
    never_overwrite = AttrValue(list=AttrValue.ListValue(i=[_NEVER_FORWARD, 0]))
    for operation in operations:
        if operation.type in op_kinds.ADDITIONS:
            operation._set_attr(_DO_NOT_JOIN, AttrValue(b=True))
        if operation.type == "AddN":
            operation._set_attr("_forward_input", never_overwrite)


def place_in_task(operations: Iterable[tfv1.Operation], task: str, container: str) -> None:
    """Place operations without a job in one task of a cluster, with their state in a container of its own.

    Args:
        operations: those with a job, and those colocated with them, stay. No session may have run them.
        task: such as ``"/job:worker/task:1"``.
        container: for variables, queues and the like, apart from those of other graphs there.
    """
    operations = list(operations)
    specs = {device: tfv1.DeviceSpec.from_string(device) for device in {operation.device for operation in operations}}
    here = tfv1.DeviceSpec.from_string(task)
    full = {device: here.make_merged_spec(spec).to_string() for device, spec in specs.items() if spec.job is None}
    # A variable's initial value, which runs beside it, was made before it.
    elsewhere = {operation.name for operation in operations if operation.device not in full}
    own = AttrValue(s=container.encode())
    for operation in operations:
        if operation.name in elsewhere:
            continue
        if not elsewhere.isdisjoint(_run_beside(operation)):
            elsewhere.add(operation.name)
            continue
        operation._set_device(full[operation.device])
        if "container" in operation.node_def.attr:
            operation._set_attr("container", own)


def _run_beside(operation: tfv1.Operation) -> Iterator[str]:
    """Yield the names of the operations that share a task with another: its colocations and resources."""
    for group in operation.colocation_groups():
        yield group.decode().removeprefix("loc:@")
    for tensor in operation.inputs:
        if tensor.dtype == tfv1.resource:
            yield tensor.op.name


def mark_for_compilation(operation: tfv1.Operation, scope: str) -> None:
    """Let XLA compile an operation, which no session has run, as ``tf.xla.experimental.jit_scope`` does.

    Operations of one scope and device are compiled together. TensorFlow ignores the mark where it cannot compile.
    """
    operation._set_attr("_XlaCompile", AttrValue(b=True))
    operation._set_attr("_XlaScope", AttrValue(s=scope.encode()))


def is_marked_for_compilation(operation: tfv1.Operation) -> bool:
    """Tell whether XLA is to compile an operation."""
    try:
        return bool(operation.get_attr("_XlaCompile"))
    except ValueError:
        return False


def compiled_kernels(op_type: str, device_type: str) -> list[dict[str, set[int]]]:
    """Return XLA's kernels for an operation type on ``"CPU"`` or ``"GPU"``: the allowed dtypes of attributes for each.

    There are none until the first session of the process has run.
    """
    found = kernels.get_registered_kernels_for_op(op_type).kernel
    return [
        {rule.name: set(rule.allowed_values.list.type) for rule in kernel.constraint}
        for kernel in found
        if kernel.device_type == f"XLA_{device_type}_JIT"
    ]


class BuildState:
    """The open scopes of the calling thread in a graph, for another thread to continue in.

    They are the name scope, the variable scope with its counts of scopes of one name, variable creators, devices,
    colocations and control dependencies, all of which TensorFlow keeps by thread.
    """

    def __init__(self, graph: tfv1.Graph) -> None:
        self._graph = graph
        # In a process that left version 2's behaviour, devices and the like belong to the graph until this is called.
        graph.switch_to_thread_local()
        self._name_scope = graph._name_stack
        self._devices = graph._device_function_stack.copy()
        self._colocations = graph._colocation_stack.copy()
        self._control_dependencies = list(graph._control_dependencies_stack)
        self._variable_creators = list(graph._variable_creator_stack)
        with graph.as_default():
            store = get_variable_scope_store()
            self._variable_scope = store.current_scope
            self._scope_counts = dict(store.variable_scopes_count)

    def install(self) -> None:
        """Open the same scopes for good in the calling thread, which has opened none in this graph."""
        graph = self._graph
        graph._name_stack = self._name_scope
        graph._device_function_stack = self._devices.copy()
        graph._colocation_stack = self._colocations.copy()
        graph._control_dependencies_stack = list(self._control_dependencies)
        graph._variable_creator_stack = list(self._variable_creators)
        with graph.as_default():
            store = get_variable_scope_store()
            store.current_scope = self._variable_scope
            store.variable_scopes_count = dict(self._scope_counts)


def continue_scope_counts(outer: str, inner: str) -> None:
    """Number the variable scopes inside the scope ``inner``, just opened, as in ``outer``, the one around or empty."""
    counts = get_variable_scope_store().variable_scopes_count
    prefix = f"{outer}/" if outer else ""
    for name, count in list(counts.items()):
        if name.startswith(prefix) and not f"{name}/".startswith(f"{inner}/"):
            counts[f"{inner}/{name[len(prefix) :]}"] = count


def set_initial_value(variable: tfv1.Variable, value: tfv1.Tensor) -> None:
    """Change the initial value of a resource variable, which no session has initialised, and its initialiser.

    The value is computable before everything else, and of the variable's shape and dtype.
    """
    if variable.initializer.inputs[1] is not value:
        variable.initializer._update_input(1, value)
    variable._initial_value = value


def run_after(operation: tfv1.Operation, others: Iterable[tfv1.Operation]) -> None:
    """Let an operation that exists run after others, which must not depend on it."""
    operation._add_control_inputs(list(others))


def replace_input(operation: tfv1.Operation, index: int, tensor: tfv1.Tensor) -> None:
    """Let an operation that exists take another tensor, which must not depend on it."""
    operation._update_input(index, tensor)


def set_control_inputs(operation: tfv1.Operation, others: Iterable[tfv1.Operation]) -> None:
    """Let an operation that exists run after others, and no longer after those before."""
    operation._remove_all_control_inputs()
    run_after(operation, others)


def swap_graph_state(graph: tfv1.Graph, state: dict[str, object] | None = None) -> dict[str, object]:
    """Replace the open blocks of a graph that TensorFlow keeps for all threads, and return those before.

    They are the blocks of ``gradient_override_map``, ``container``, attributes and kernel labels, of TensorFlow 1's
    loops and conditions, and of the operation whose gradient is being built. A state of None changes nothing.
    """
    before = {name: _copied(getattr(graph, name)) for name in _GRAPH_STATE}
    for name, value in (state or {}).items():
        setattr(graph, name, _copied(value))
    return before


def is_in_variable_store(variable: tfv1.Variable) -> bool:
    """Tell whether ``get_variable`` of the current graph made a variable, and returns it where it is reused."""
    # A creator of the user's may have returned anything.
    operation = getattr(variable, "op", None)
    return operation is not None and _get_default_variable_store()._vars.get(operation.name) is variable


def variables_by_name() -> dict[str, tfv1.Variable]:
    """Return the variables that ``get_variable`` of the current graph reuses; the dict may be added to."""
    names: dict[str, tfv1.Variable] = _get_default_variable_store()._vars
    return names


def names_in_use(graph: tfv1.Graph) -> dict[str, int]:
    """Return the counts of requested names, in small letters, in a graph; the dict may be added to."""
    names: dict[str, int] = graph._names_in_use
    return names


class RandomSeeds:
    """The seeds that a graph with a seed gives to random operations that have none: 0, 1, 2 and so on."""

    def __init__(self, graph: tfv1.Graph) -> None:
        self._graph = graph

    @property
    def num_given(self) -> int:
        """The number of seeds given so far."""
        return int(random_seed._graph_to_seed_dict.get(self._graph, 0))

    def skip(self, count: int) -> None:
        """Skip a number of seeds."""
        if count:
            random_seed._graph_to_seed_dict[self._graph] = self.num_given + count


def serialized_graph(graph: tfv1.Graph) -> bytes:
    """Return the ``GraphDef`` of a graph, without shapes, as it is written to files."""
    with graph._lock, c_api_util.tf_buffer() as buffer, graph._c_graph.get() as c_graph:
        pywrap_tf_session.TF_GraphToGraphDef(c_graph, buffer)
        return bytes(pywrap_tf_session.TF_GetBuffer(buffer))


def add_nodes(
    graph: tfv1.Graph,
    nodes: tfv1.GraphDef,
    tensors: Mapping[str, tfv1.Tensor],
    operations: Mapping[str, tfv1.Operation],
) -> list[tfv1.Operation]:
    """Add operations to a graph just as they are described, outside all open blocks, and return them in order.

    Args:
        graph: the current graph.
        nodes: the operations; their names are new, and their functions are known to the graph.
        tensors: the inputs from outside, by their names in ``nodes``.
        operations: the same for control inputs.

    Raises:
        tf.errors.InvalidArgumentError: TensorFlow refuses the nodes.
    """
    options = c_api_util.ScopedTFImportGraphDefOptions()
    for name, tensor in tensors.items():
        op_name, _, index = name.partition(":")
        pywrap_tf_session.TF_ImportGraphDefOptionsAddInputMapping(
            options.options, op_name, int(index or 0), tensor._as_tf_output()
        )
    for name, operation in operations.items():
        pywrap_tf_session.TF_ImportGraphDefOptionsRemapControlDependency(options.options, name, operation._c_op)
    pywrap_tf_session.TF_ImportGraphDefOptionsSetValidateColocationConstraints(options.options, False)
    # No session may run the graph before Python knows its new operations.
    with tfv1.control_dependencies(None), graph._mutation_lock():
        buffer = pywrap_tf_session.TF_NewBufferFromString(nodes.SerializeToString())
        try:
            with graph._c_graph.get() as c_graph:
                results = pywrap_tf_session.TF_GraphImportGraphDefWithResults(c_graph, buffer, options.options)
        finally:
            pywrap_tf_session.TF_DeleteBuffer(buffer)
        c_api_util.ScopedTFImportGraphDefResults(results)
        # TensorFlow's import does more, which takes as long again and is only about open blocks.
        return [graph._create_op_from_tf_operation(op, compute_device=False) for op in graph.new_operations()]


def forget_names(names: Mapping[str, tfv1.Variable]) -> None:
    """Make ``get_variable`` of the current graph forget variables of these names."""
    store = _get_default_variable_store()._vars
    for name, variable in names.items():
        if store.get(name) is variable:
            del store[name]


def control_flow_of(graph: tfv1.Graph) -> object:
    """Return the open loop or condition of TensorFlow 1 in a graph, or None."""
    return graph._get_control_flow_context()


@contextmanager
def only_in(control_flow: object) -> Iterator[None]:
    """Leave control dependencies, loops and conditions for a block, except a loop or condition of `control_flow_of`."""
    graph = tfv1.get_default_graph()
    # This forgets both, and brings back both in the end.
    with tfv1.control_dependencies(None):
        graph._set_control_flow_context(control_flow)
        yield


@contextmanager
def silent_deprecations() -> Iterator[None]:
    """Log no deprecations in this block, for calls of tpack's own that have no other form in a graph."""
    logs, deprecation._PRINT_DEPRECATION_WARNINGS = deprecation._PRINT_DEPRECATION_WARNINGS, False
    try:
        yield
    finally:
        deprecation._PRINT_DEPRECATION_WARNINGS = logs


@contextmanager
def eager_mode() -> Iterator[None]:
    """Run operations eagerly in this block, also inside a graph, and where eager mode was switched off."""
    with context.eager_mode():
        yield


def is_in_loop_or_function(graph: tfv1.Graph) -> bool:
    """Tell whether operations built into ``graph`` now may run several times in one run: in a loop or function."""
    while (outer := getattr(graph, "outer_graph", None)) is not None:
        if not isinstance(graph, CondBranchFuncGraph):
            return True
        graph = outer
    return control_flow_util.GetContainingWhileContext(graph._get_control_flow_context()) is not None


def is_building_gradient(graph: tfv1.Graph) -> bool:
    """Tell whether the gradient of an operation of ``graph`` is being built, as in recomputation."""
    return graph._default_original_op is not None


@contextmanager
def watch_operations(watch: Callable[[tfv1.Operation], None]) -> Iterator[None]:
    """Call a function with each operation that this thread adds to the current graph in a block.

    Its errors reach the code that makes the operation; it must not add operations itself. Operations in
    ``tf.init_scope`` or ``tf.control_dependencies(None)`` are not seen.
    """
    with _Watcher(tfv1.get_default_graph(), watch):
        yield


def keep_watching(watch: Callable[[tfv1.Operation], None]) -> None:
    """Call a function once with each operation that this thread adds to the current graph from now on.

    In a block of ``tf.init_scope`` or ``tf.control_dependencies(None)``, until it ends. Other such blocks are not seen.
    """
    graph = tfv1.get_default_graph()
    stack = graph._control_dependencies_stack
    if not any(isinstance(block, _Watcher) and block.watch is watch for block in stack):
        # Outside of all blocks that are open, so that none of them closes it.
        stack.insert(0, _Watcher(graph, watch))


class _Watcher(tfv1.Graph._ControlDependenciesController):
    """An empty block of control dependencies, which TensorFlow calls for operations made in it."""

    def __init__(self, graph: tfv1.Graph, watch: Callable[[tfv1.Operation], None]) -> None:
        super().__init__(graph, [])
        self.watch = watch

    def add_op(self, op: tfv1.Operation) -> None:
        """Pass on an operation."""
        self.watch(op)


@contextmanager
def shown_strategy(strategy: object | None, tower: object | None = None) -> Iterator[None]:
    """Show this thread's TensorFlow a strategy in a block that builds into the current graph.

    TensorFlow's optimizers, metrics, moving averages and ``init_from_checkpoint`` read the number of towers from it,
    and make merge calls.

    Args:
        strategy: the strategy; None for TensorFlow's default, which does nothing.
        tower: the replica context; None if the block is across towers.
    """
    mode = distribute_lib._get_default_replica_mode() if strategy is None else _StrategyMode(strategy, tower)
    stack = tfv1.get_default_graph()._distribution_strategy_stack
    stack.append(mode)
    try:
        yield
    finally:
        stack.pop()


class _StrategyMode:
    def __init__(self, strategy: object, tower: object | None) -> None:
        self.strategy = strategy
        self.cross_replica_context = strategy if tower is None else None
        self.replica_context = tower


def optimizer_that_applies(merge_fn: Callable[..., Any]) -> tfv1.train.Optimizer | None:
    """Return the optimizer whose function for a merge call applies gradients as TensorFlow does, or None."""
    is_it = getattr(merge_fn, "__func__", None) is tfv1.train.Optimizer._distributed_apply
    return getattr(merge_fn, "__self__", None) if is_it else None


def unknown_keras_places() -> list[str]:
    """Return the code of the loaded Keras that is in other files than `KERAS_LAYER_FILES` and `KERAS_VARIABLE_FILE`."""
    wrong = []
    for package, owner, method, file in _KERAS_PLACES:
        with suppress(AttributeError, KeyError):
            function = inspect.unwrap(attrgetter(f"{owner}.{method}")(sys.modules[package]))
            found = function.__code__.co_filename.replace("\\", "/")
            if not found.endswith(file):
                wrong.append(f"{package}.{owner}.{method} is in {found}, and not in {file}")
    return wrong


class _Equality:
    """Comparison of tensors by ``==`` in a plain graph, which TensorFlow does by identity, as in eager mode."""

    num_blocks = 0
    by_identity = tfv1.Tensor.__eq__, tfv1.Tensor.__ne__
    lock = threading.Lock()


@contextmanager
def elementwise_equality() -> Iterator[None]:
    """Compare tensors element by element in a block, where code other than TensorFlow's and Keras's compares them."""
    _change_equality(1)
    try:
        yield
    finally:
        _change_equality(-1)


def _change_equality(added: int) -> None:
    def comparing(by_identity: Callable[..., Any], compare: Callable[..., Any]) -> Callable[..., Any]:
        def of_values(self: tfv1.Tensor, other: object) -> Any:
            file = sys._getframe(1).f_code.co_filename.replace("\\", "/")
            is_of_library = any(f"-packages/{name}/" in file for name in ("tensorflow", "keras", "tf_keras"))
            is_value = tfv1.is_tensor(other) or isinstance(other, (bool, int, float)) or hasattr(other, "__array__")
            return compare(self, other) if is_value and not is_of_library else by_identity(self, other)

        return of_values

    with _Equality.lock:
        _Equality.num_blocks += added
        equal, not_equal = _Equality.by_identity
        if _Equality.num_blocks:
            equal, not_equal = comparing(equal, tfv1.equal), comparing(not_equal, tfv1.not_equal)
        tfv1.Tensor.__eq__, tfv1.Tensor.__ne__ = equal, not_equal


def filter_collection(graph: tfv1.Graph, key: str, is_kept: Callable[[Any], bool]) -> None:
    """Leave items out of what a graph returns as a collection from now on; the collection itself keeps them."""
    whole = graph.get_collection

    def get_collection(name: str, scope: str | None = None) -> list[Any]:
        items: list[Any] = whole(name, scope)
        return [item for item in items if is_kept(item)] if name == key else items

    graph.get_collection = get_collection


def _copied(value: object) -> object:
    return dict(value) if isinstance(value, dict) else value
