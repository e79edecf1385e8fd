"""The results of one call of a function in a tower: operations, variables, names and items of collections."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

from tpack.compat.graphs import BaseVariable, RandomSeeds, current_device, names_in_use, variables_by_name
from tpack.graph_copy import op_kinds
from tpack.graph_copy.nodes import op_of_input
from tpack.tower.collections import CollectionSnapshot, collection_keys
from tpack.tower.context import TowerContext
from tpack.tower.names import Scope

COMPOSITE = (tf.IndexedSlices, tf.SparseTensor, tf.RaggedTensor)
"""What consists of several tensors."""

_PLAIN = (type(None), bool, int, float, complex, str, bytes, tf.DType, tf.TensorShape, np.generic, np.ndarray)
# Besides these, variables with components on several devices, which towers share, are what they are in all of them.
_COPYABLE = (*_PLAIN, tf.Tensor, tf.Operation, BaseVariable)


class NotReplicable(Exception):
    """The reason why a tower cannot be a copy of another one, for the log."""


@dataclass
class Region:
    """A finished call.

    Attributes:
        tower: its tower.
        device: the device of operations without one of their own.
        args: its arguments.
        output: its result.
        ops: its operations, in order.
        nodes: their definitions at the end of the call, by name.
        seeds: the graph's seeds for its random operations.
        collections: the items that it added to collections.
        variables: paths and variables that the tower's recorder got.
        stored: the new variables of ``get_variable``, by name.
        names: the counts of requested names.
        repeated: the calls to repeat for each copy.
    """

    tower: TowerContext
    device: str
    args: Any
    output: Any
    ops: list[tf.Operation]
    nodes: dict[str, tf.NodeDef]
    seeds: range
    collections: dict[str, list[Any]]
    variables: list[tuple[str, tf.Variable]]
    stored: dict[str, tf.Variable]
    names: dict[str, int]
    repeated: list[tuple[Callable[..., None], tuple[Any, ...]]]
    by_name: dict[str, tf.Operation] = field(init=False)
    positions: dict[str, int] = field(init=False)
    scope: Scope = field(init=False)
    lower_scope: Scope = field(init=False)

    def __post_init__(self) -> None:
        self.by_name = {op.name: op for op in self.ops}
        self.positions = {op.name: position for position, op in enumerate(self.ops)}
        self.scope = Scope(self.tower.name)
        self.lower_scope = Scope(self.tower.name.lower())

    @cached_property
    def names_inside(self) -> dict[str, int]:
        """The requested names of the tower, in the small letters of TensorFlow's search for free ones."""
        return {name: count for name, count in self.names.items() if self.lower_scope.is_in(name)}

    def __contains__(self, element: tf.Operation | tf.Tensor) -> bool:
        op = element.op if isinstance(element, tf.Tensor) else element
        return self.by_name.get(op.name) is op


def _with_plain_inputs(node: tf.NodeDef) -> tf.NodeDef:
    """Return a node with one kind of names for its inputs: those of imported nodes have ":0" at the end."""
    for position, name in enumerate(node.input):
        if name.endswith(":0"):
            node.input[position] = name.removesuffix(":0")
    return node


class RegionRecorder:
    """Records the operations and objects of the current tower until `finish`."""

    def __init__(self, tower: TowerContext) -> None:
        self._tower = tower
        self._graph = tf.get_default_graph()
        self._num_ops = len(self._graph.get_operations())
        self._num_variables = len(tower.recorder.variables)
        self._num_repeated = len(tower.repeated)
        self._seeds = RandomSeeds(self._graph).num_given
        self._collections = {key: list(self._graph.get_collection(key)) for key in collection_keys()}
        self._snapshot = CollectionSnapshot()
        self._stored = set(variables_by_name())
        self._names = dict(names_in_use(self._graph))

    def finish(self, args: Any, output: Any) -> Region:
        """Return the recorded region; raise `NotReplicable` if an item was removed from a collection."""
        graph, recorder = self._graph, self._tower.recorder
        ops, names = graph.get_operations()[self._num_ops :], names_in_use(graph)
        return Region(
            tower=self._tower,
            device=device_here(self._tower),
            args=args,
            output=output,
            ops=ops,
            nodes={op.name: _with_plain_inputs(op.node_def) for op in ops},
            seeds=range(self._seeds, RandomSeeds(graph).num_given),
            collections=self._added(),
            variables=recorder.asked_for[self._num_variables :],
            stored={name: v for name, v in variables_by_name().items() if name not in self._stored},
            names={name: count for name, count in names.items() if self._names.get(name) != count},
            repeated=self._tower.repeated[self._num_repeated :],
        )

    def _added(self) -> dict[str, list[Any]]:
        added = {}
        for key in collection_keys():
            before, now = self._collections.get(key, []), self._graph.get_collection(key)
            if len(now) < len(before) or any(a is not b for a, b in zip(before, now, strict=False)):
                raise NotReplicable(f"it changes what the collection {key!r} held before")
            if len(now) > len(before):
                added[key] = self._snapshot.added(key)
                if len(added[key]) != len(now) - len(before):
                    raise NotReplicable(f"it adds something to the collection {key!r} that is there already")
        return added


def device_here(tower: TowerContext) -> str:
    """Return the device of the current tower's operations without one of their own.

    Raises:
        NotReplicable: A function chooses it, without an attribute ``worker_device``.
    """
    if not callable(tower.device):
        return current_device()
    worker = getattr(tower.device, "worker_device", None)
    if not isinstance(worker, str):
        raise NotReplicable("its devices are chosen by a function")
    return worker


def chooses_devices(tower: TowerContext) -> bool:
    """Tell whether the devices of a tower's variables are chosen by a function, out of several."""
    return callable(tower.device) and len(getattr(tower.device, "ps_devices", ("", ""))) > 1


def without_first_values(region: Region) -> Region:
    """Return a region without the operations that only initialise variables and check whether they are initialised.

    These are a third of the operations of a convolutional network with its updates. An initial value with another use
    stays.
    """
    variables = {node.name for node in region.nodes.values() if is_variable(node)}
    assignments = {f"{name}/Assign" for name in variables}
    uses = Counter(leaf.op.name for leaf in tensor_leaves([region.output, region.collections]))
    for node in region.nodes.values():
        if node.name not in assignments:
            uses.update(map(op_of_input, node.input))
    kept = dict(region.nodes)
    for name in reversed(region.nodes):
        # TensorFlow makes these operations together with a variable, for nothing but its first value.
        variable, found, _ = name.rpartition("/Initializer/")
        serves_first_value = region.nodes[name].op == "VarIsInitializedOp" or (found and variable in variables)
        if uses[name] == 0 and serves_first_value:
            uses.subtract(map(op_of_input, kept.pop(name).input))
    return replace(region, nodes=kept, ops=[op for op in region.ops if op.name in kept])


def is_variable(node: tf.NodeDef) -> bool:
    """Tell whether a node is a variable."""
    return node.op in op_kinds.VARIABLES


def tensor_leaves(structure: Any) -> list[tf.Tensor]:
    """Return the tensors of arguments, those of sparse and sliced ones too, and the handles of variables."""
    leaves: Sequence[Any] = tf.nest.flatten(structure)
    parts = [
        tf.nest.flatten(leaf, expand_composites=True) if isinstance(leaf, COMPOSITE) else [leaf] for leaf in leaves
    ]
    values = (leaf.handle if is_plain_variable(leaf) else leaf for part in parts for leaf in part)
    return [tensor for tensor in values if isinstance(tensor, tf.Tensor)]


def variable_leaves(structure: Any) -> list[tf.Variable]:
    """Return the variables of one device in arguments."""
    return [leaf for leaf in tf.nest.flatten(structure) if is_plain_variable(leaf)]


def is_plain_variable(leaf: Any) -> bool:
    """Tell whether something is a variable of one device, with a handle."""
    return isinstance(leaf, BaseVariable) and hasattr(leaf, "handle") and not hasattr(leaf, "components")


def are_replicable(args: Any, others: Any) -> bool:
    """Tell whether arguments of two towers have tensors and variables of the same kinds, and are otherwise equal."""
    leaves, other_leaves = tf.nest.flatten(args), tf.nest.flatten(others)
    if len(leaves) != len(other_leaves):
        return False
    return all(map(_is_alike, leaves, other_leaves))


def _is_alike(leaf: Any, other: Any) -> bool:
    if isinstance(leaf, tf.Tensor) and isinstance(other, tf.Tensor):
        # Shapes are compared as text: unknown dimensions are never equal.
        return bool(leaf.dtype == other.dtype) and str(leaf.shape) == str(other.shape)
    if is_plain_variable(leaf) and is_plain_variable(other):
        return type(leaf) is type(other) and leaf.dtype == other.dtype and str(leaf.shape) == str(other.shape)
    if isinstance(leaf, COMPOSITE) and type(leaf) is type(other):
        return are_replicable(*(tf.nest.flatten(each, expand_composites=True) for each in (leaf, other)))
    is_plain = isinstance(leaf, _PLAIN) and not isinstance(leaf, np.ndarray) and type(leaf) is type(other)
    return leaf is other or (is_plain and bool(leaf == other))


def check_copyable(structure: Any, what: str) -> None:
    """Refuse a structure of the second tower with an object that has no counterpart in another tower.

    Raises:
        NotReplicable: There is one. The message begins with ``what``.
    """
    for leaf in tf.nest.flatten(structure):
        if not (isinstance(leaf, (*_COPYABLE, *COMPOSITE)) or hasattr(leaf, "components")):
            raise NotReplicable(f"{what} a {type(leaf).__name__}, of which nobody knows what it holds")
