"""Graphs that are being built: their open blocks, names, seeds and variables, and the strategy that TensorFlow sees."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import tensorflow.compat.v1 as tfv1

# The base of all variables. The Variable of compat.v1 is no base of resource variables.
from tensorflow import Variable as BaseVariable

from tpack.compat import private_names
from tpack.compat.private_names import check_names, missing_names, private_module

device_util = private_module("tensorflow.python.distribute.device_util")
distribute_lib = private_module("tensorflow.python.distribute.distribute_lib")
context = private_module("tensorflow.python.eager.context")
random_seed = private_module("tensorflow.python.framework.random_seed")
variable_scope = private_module("tensorflow.python.ops.variable_scope")
saveable_object = private_module("tensorflow.python.training.saving.saveable_object")

VARIABLE_VALUE_KEY = "VARIABLE_VALUE"
"""The name of the value of a variable among its parts in a checkpoint of objects."""

# Bases of classes, which are there in any case.
Trackable: Any = getattr(private_module("tensorflow.python.trackable.base") or None, "Trackable", object)
SaveableObject: Any = getattr(saveable_object or None, "SaveableObject", object)

__all__ = [
    "VARIABLE_VALUE_KEY", "BaseVariable", "BuildState", "RandomSeeds", "SaveableValue", "Trackable",
    "continue_scope_counts", "control_flow_of", "current_control_dependencies", "current_device", "current_seed",
    "forget_names", "is_building_gradient", "is_in_loop_or_function", "is_in_variable_store", "keep_watching",
    "last_loss_reduction", "names_in_use", "only_in", "optimizer_that_applies", "shown_strategy", "swap_graph_state",
    "variables_by_name", "watch_operations",
]  # fmt: skip

# What `tf.Graph` keeps of the blocks that are open, once for all threads.
_GRAPH_STATE = (
    "_control_flow_context", "_default_original_op", "_attr_scope_map", "_op_to_kernel_label_map",
    "_gradient_override_map", "_gradient_function_map", "_container",
)  # fmt: skip


def current_control_dependencies() -> list[tfv1.Operation]:
    """Return the operations of the open blocks of ``tf.control_dependencies``."""
    return list(tfv1.get_default_graph()._current_control_dependencies())


def current_device() -> str:
    """Return the device of the open blocks of ``tf.device``; empty if there is none."""
    return str(device_util.current() or "")


def current_seed() -> int | None:
    """Return the last argument of ``tf.set_random_seed``: for the default graph, or in eager mode."""
    seed = None
    if not tfv1.executing_eagerly():
        seed = tfv1.get_default_graph().seed
    elif context:
        seed = context.global_seed()
    return None if seed is None else int(seed)


def last_loss_reduction() -> str | None:
    """Return how the last loss of ``tf.losses`` in the current graph was reduced over the batch, or None."""
    return getattr(tfv1.get_default_graph(), "_last_loss_reduction", None)


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
            store = variable_scope.get_variable_scope_store()
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
            store = variable_scope.get_variable_scope_store()
            store.current_scope = self._variable_scope
            store.variable_scopes_count = dict(self._scope_counts)


def swap_graph_state(graph: tfv1.Graph, state: dict[str, object] | None = None) -> dict[str, object]:
    """Replace the open blocks of a graph that TensorFlow keeps for all threads, and return those before.

    They are the blocks of ``gradient_override_map``, ``container``, attributes and kernel labels, of TensorFlow 1's
    loops and conditions, and of the operation whose gradient is being built. A state of None changes nothing.
    """
    before = {name: _copied(getattr(graph, name)) for name in _GRAPH_STATE if hasattr(graph, name)}
    for name, value in (state or {}).items():
        setattr(graph, name, _copied(value))
    return before


def _copied(value: object) -> object:
    return dict(value) if isinstance(value, dict) else value


def continue_scope_counts(outer: str, inner: str) -> None:
    """Number the variable scopes inside the scope ``inner``, just opened, as in ``outer``, the one around or empty."""
    if not variable_scope:
        return
    counts = variable_scope.get_variable_scope_store().variable_scopes_count
    prefix = f"{outer}/" if outer else ""
    for name, count in list(counts.items()):
        if name.startswith(prefix) and not f"{name}/".startswith(f"{inner}/"):
            counts[f"{inner}/{name[len(prefix) :]}"] = count


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


def is_in_variable_store(variable: tfv1.Variable) -> bool:
    """Tell whether ``get_variable`` of the current graph made a variable, and returns it where it is reused."""
    # A creator of the user's may have returned anything.
    operation = getattr(variable, "op", None)
    if operation is None:
        return False
    if missing_names(private_names.VARIABLE_STORE):
        return _reused(variable) is variable
    return variable_scope._get_default_variable_store()._vars.get(operation.name) is variable


def _reused(variable: tfv1.Variable) -> tfv1.Variable | None:
    """Return what ``get_variable`` returns for the name of a variable where it makes none, or None."""
    root = tfv1.VariableScope(reuse=True, name="")
    with tfv1.variable_scope(root, auxiliary_name_scope=False):
        try:
            return tfv1.get_variable(variable.op.name, dtype=variable.dtype.base_dtype)
        except ValueError:
            return None


def variables_by_name() -> dict[str, tfv1.Variable]:
    """Return the variables that ``get_variable`` of the current graph reuses; the dict may be added to."""
    names: dict[str, tfv1.Variable] = variable_scope._get_default_variable_store()._vars
    return names


def forget_names(names: Mapping[str, tfv1.Variable]) -> None:
    """Make ``get_variable`` of the current graph forget variables of these names."""
    store = variable_scope._get_default_variable_store()._vars
    for name, variable in names.items():
        if store.get(name) is variable:
            del store[name]


def control_flow_of(graph: tfv1.Graph | tfv1.Operation) -> object:
    """Return the loop or condition of TensorFlow 1 that is open in a graph, or that an operation is in, or None."""
    get = getattr(graph, "_get_control_flow_context", None)
    return None if get is None else get()


@contextmanager
def only_in(control_flow: object) -> Iterator[None]:
    """Leave control dependencies, loops and conditions for a block, except a loop or condition of `control_flow_of`."""
    graph = tfv1.get_default_graph()
    # This forgets both, and brings back both in the end.
    with tfv1.control_dependencies(None):
        if control_flow is not None:
            graph._set_control_flow_context(control_flow)
        yield


def is_in_loop_or_function(graph: tfv1.Graph) -> bool:
    """Tell whether operations built into ``graph`` now may run several times in one run: in a loop or function."""
    while (outer := getattr(graph, "outer_graph", None)) is not None:
        # Those of branches have a class of their own, which is not public.
        if not any(each.__name__ == "CondBranchFuncGraph" for each in type(graph).__mro__):
            return True
        graph = outer
    block: Any = control_flow_of(graph)
    while block is not None and not block.IsWhileContext():
        block = block.outer_context
    return block is not None


def is_building_gradient(graph: tfv1.Graph) -> bool:
    """Tell whether the gradient of an operation of ``graph`` is being built, as in recomputation."""
    return getattr(graph, "_default_original_op", None) is not None


@contextmanager
def watch_operations(watch: Callable[[tfv1.Operation], None]) -> Iterator[None]:
    """Call a function with each operation that this thread adds to the current graph in a block.

    Its errors reach the code that makes the operation; it must not add operations itself. Operations in
    ``tf.init_scope`` or ``tf.control_dependencies(None)`` are not seen.
    """
    check_names(private_names.STRATEGIES)
    with _Watcher(tfv1.get_default_graph(), watch):
        yield


def keep_watching(watch: Callable[[tfv1.Operation], None]) -> None:
    """Call a function once with each operation that this thread adds to the current graph from now on.

    In a block of ``tf.init_scope`` or ``tf.control_dependencies(None)``, until it ends. Other such blocks are not seen.
    """
    check_names(private_names.STRATEGIES)
    graph = tfv1.get_default_graph()
    stack = graph._control_dependencies_stack
    if not any(isinstance(block, _Watcher) and block.watch is watch for block in stack):
        # Outside of all blocks that are open, so that none of them closes it.
        stack.insert(0, _Watcher(graph, watch))


_Controller: Any = getattr(tfv1.Graph, "_ControlDependenciesController", object)


class _Watcher(_Controller):
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
    check_names(private_names.STRATEGIES)
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
    check_names(private_names.STRATEGIES)
    is_it = getattr(merge_fn, "__func__", None) is tfv1.train.Optimizer._distributed_apply
    return getattr(merge_fn, "__self__", None) if is_it else None


class SaveableValue(SaveableObject):
    """Saves a value that is put together, and restores it by an assignment.

    Args:
        variable: what is saved.
        name: that in the checkpoint.
        read: returns the value; called where it is saved, so that nothing is built where it is only restored.
        assign: returns the operation that assigns a value.
        device: that of the value.
    """

    def __init__(
        self,
        variable: Any,
        name: str,
        read: Callable[[], tfv1.Tensor],
        assign: Callable[[tfv1.Tensor], tfv1.Operation],
        device: str,
    ) -> None:
        check_names(private_names.SAVED_PARTS)
        self._variable, self._assign = variable, assign
        spec = saveable_object.SaveSpec(read, "", name, dtype=variable.dtype, device=device)
        super().__init__(variable, [spec], name)

    def restore(
        self, restored_tensors: Sequence[tfv1.Tensor], restored_shapes: Sequence[tfv1.TensorShape] | None
    ) -> tfv1.Operation:
        """Return the operation that assigns what was read from a checkpoint."""
        (value,) = restored_tensors
        if restored_shapes is not None:
            value = tfv1.reshape(value, restored_shapes[0])
        value.set_shape(self._variable.shape)
        return self._assign(value)
