"""Copies of the second tower: its operations under other names and on another device, and its Python objects."""

import copy
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.compat.graphs import BaseVariable, RandomSeeds, names_in_use, variables_by_name
from tpack.errors import GraphBuildError
from tpack.graph_copy.capture import (
    COMPOSITE,
    NotReplicable,
    Region,
    RegionRecorder,
    are_replicable,
    check_copyable,
    device_here,
    is_variable,
    tensor_leaves,
    variable_leaves,
    without_first_values,
)
from tpack.graph_copy.diff import GraphDiff, compare
from tpack.graph_copy.nodes import NodeCopier, add_to_graph, external_inputs
from tpack.graph_copy.side_effects import PythonState
from tpack.tower.context import TowerContext, is_in_control_flow
from tpack.tower.keras_values import gives_value, is_keras_loaded
from tpack.tower.names import Scope
from tpack.utils import logger

# Most attributes of variables are of these; it takes much longer to see that they are no tensors.
_NEVER_OF_A_TOWER = frozenset({bool, int, tf.DType, tf.TensorShape, type(None)})
_OF_TF_KERAS = ("_assign_placeholder", "_keras_initialized")


class Copier:
    """Copies the second of several towers.

    Args:
        region: its operations and records.
        likeness: the differences of the copies.
        with_first_values: whether variables of a copy have operations for their initial values. Without, their
            initialisers set them to those of the second tower.

    Attributes:
        output: the result of the function in the second tower.

    Raises:
        NotReplicable: It returned, collected or made something that cannot be copied.
    """

    def __init__(self, region: Region, likeness: GraphDiff, with_first_values: bool = True) -> None:
        _check_region(region)
        if not with_first_values:
            region = without_first_values(region)
        self._region = region
        self.output = region.output
        self._like = likeness
        self._external = external_inputs([*region.nodes.values()])
        self._texts: defaultdict[str, list[str]] = defaultdict(list)
        for name, key in sorted(likeness.texts):
            self._texts[name].append(key)

    def takes(self, tower: TowerContext, args: Any) -> bool:
        """Tell whether the current tower's arguments are like the second one's, variables in name and place too."""
        if not are_replicable(self._region.args, args):
            return False
        region, scope, device = self._region, Scope(tower.name), device_here(tower)
        pairs = zip(variable_leaves(region.args), variable_leaves(args), strict=True)
        return all(
            region.scope.renamed(one.op.name, scope) == other.op.name
            and (device if one.device == region.device else one.device) == other.device
            for one, other in pairs
        )

    def copy_to(self, tower: TowerContext, args: Any) -> "TowerCopy":
        """Build the copy in another tower, which is current, for the arguments of the call that it replaces."""
        region, given = self._region, tensor_leaves(args)
        seeds = RandomSeeds(tf.get_default_graph())
        varying = {name: tensor_of(tower.index, given) for name, tensor_of in self._like.varying.items()}
        nodes = _Nodes(region, self._like, tower, varying, seeds.num_given - region.seeds.start)
        nodes.describe(self._texts)
        ops = add_to_graph(nodes.graph_def, self._external, varying)
        seeds.skip(len(region.seeds))
        ours = (*tensor_leaves(region.args), *variable_leaves(region.args))
        others = dict(zip(map(id, ours), (*given, *variable_leaves(args)), strict=True))
        made = TowerCopy(region, tower, ops, others)
        made.register()
        return made


class _Nodes(NodeCopier):
    """The nodes of a copy.

    Args:
        region: the second tower.
        like: the differences of the copies.
        tower: the tower of the copy.
        varying: this tower's own tensors, by the inputs of the second one.
        more_seeds: the difference of its seeds to those of the second one.
    """

    def __init__(
        self, region: Region, like: GraphDiff, tower: TowerContext, varying: Mapping[str, tf.Tensor], more_seeds: int
    ) -> None:
        other = Scope(tower.name)
        places = {name: tensor.op.name for name, tensor in varying.items()}
        renamed = partial(region.scope.renamed, other=other)
        super().__init__(region.nodes, renamed, lambda name: places.get(name, name))
        self._region = region
        self._like = like
        self._tower = tower
        self._scopes = (region.scope, other)
        self._device = device_here(tower)
        self._more_seeds = more_seeds

    def describe(self, texts: Mapping[str, Sequence[str]]) -> None:
        """Add all nodes and the tower's own functions; ``texts`` has the attributes with the tower's name, by node."""
        for node in self._region.nodes.values():
            other = self.add(node)
            self._rename_functions(other)
            self._adapt(other, node.name)
            self._adapt_constant(other, node.name, texts.get(node.name, ()))
        for definition in self._like.functions.values():
            function = self.graph_def.library.function.add()
            function.CopyFrom(definition)
            function.signature.name = self._renamed_function(definition.signature.name)
            for node in function.node_def:
                self._rename_functions(node)
                if node.device == self._region.device:
                    node.device = self._device

    def _rename_functions(self, node: tf.NodeDef) -> None:
        for value in node.attr.values() if self._like.functions else ():
            if value.WhichOneof("value") == "func":
                value.func.name = self._renamed_function(value.func.name)

    def _adapt(self, node: tf.NodeDef, name: str) -> None:
        """Adapt the other properties of a node to this tower."""
        if name in self._like.own_device:
            node.device = self._device
        if name in self._like.seeds:
            node.attr["seed2"].i += self._more_seeds
        if is_variable(node):
            for key in ("shared_name", "debug_name"):
                if key in node.attr:
                    node.attr[key].s = self._renamed(node.attr[key].s.decode()).encode()
        if "_gradient_op_type" in node.attr:
            # The function of this name knows the second tower's tensors: a gradient through the copy must not use it.
            node.attr["_gradient_op_type"].s += b" of a tower that is a copy"

    def _adapt_constant(self, node: tf.NodeDef, name: str, texts: Sequence[str]) -> None:
        own = self._region.tower.own_constants.get(name)
        if own is not None:
            node.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(own(self._tower)))
        for value in () if own is not None else (node.attr[key] for key in texts):
            if value.WhichOneof("value") == "s":
                value.s = self._renamed_text(value.s)
            else:
                value.tensor.string_val[:] = map(self._renamed_text, value.tensor.string_val)

    def _renamed_text(self, text: bytes) -> bytes:
        # A name may be anywhere in a text, which was found to be that of the first tower but for this.
        ours, other = (f"{scope.name}/".encode() for scope in self._scopes)
        return text.replace(ours, other)

    def _renamed_function(self, name: str) -> str:
        return f"{name}_{self._scopes[1].name.replace('/', '_')}" if name in self._like.functions else name


class TowerCopy:
    """A copy, and the counterparts in it of the second tower's objects.

    Args:
        region: the second tower.
        tower: the tower of the copy.
        ops: the operations of the copy.
        given: this tower's own tensors and variables, by the ids of the second one's.
    """

    def __init__(self, region: Region, tower: TowerContext, ops: Iterable[tf.Operation], given: dict[int, Any]) -> None:
        self._region = region
        self._tower = tower
        self._device = device_here(tower)
        self._scope = Scope(tower.name)
        self._ops = {op.name: op for op in ops}
        self._given = given
        self._variables: dict[int, tf.Variable] = {}

    def of(self, structure: Any) -> Any:
        """Return the counterpart of an object of the second tower."""
        return tf.nest.map_structure(self._of_leaf, structure)

    def _of_leaf(self, leaf: Any) -> Any:
        if isinstance(leaf, BaseVariable):
            return self._variable(leaf)
        if isinstance(leaf, tf.Tensor):
            return self._given.get(id(leaf), self._operation(leaf.op).outputs[leaf.value_index])
        if isinstance(leaf, tf.Operation):
            return self._operation(leaf)
        if isinstance(leaf, COMPOSITE):
            return tf.nest.map_structure(self._of_leaf, leaf, expand_composites=True)
        return leaf

    def _operation(self, op: tf.Operation) -> tf.Operation:
        return self._ops[self._renamed(op.name)] if op in self._region else op

    def _variable(self, variable: tf.Variable) -> tf.Variable:
        if getattr(variable, "op", None) not in self._region:
            return self._given.get(id(variable), variable)
        if id(variable) not in self._variables:
            self._variables[id(variable)] = self._copied_variable(variable)
        return self._variables[id(variable)]

    def _copied_variable(self, variable: tf.Variable) -> tf.Variable:
        other: tf.Variable = object.__new__(type(variable))
        # TensorFlow's bookkeeping of checkpoints is made anew where it is needed.
        vars(other).update({k: self._attribute(v) for k, v in vars(variable).items() if not k.startswith("_self_")})
        question = getattr(variable, "_is_initialized_op", None)
        if question is not None and question.op not in self._region:
            del other._is_initialized_op  # That of the second tower, which would answer for another variable.
        return other

    def _attribute(self, value: Any) -> Any:
        if type(value) in _NEVER_OF_A_TOWER:
            return value
        if isinstance(value, (tf.Tensor, tf.Operation)):
            return self._of_leaf(value)
        if isinstance(value, str):
            return self._device if value == self._region.device else self._renamed(value)
        if isinstance(value, tf.Variable.SaveSliceInfo):
            value = copy.copy(value)
            value.full_name = self._renamed(value.full_name)
        return value

    def _renamed(self, name: str) -> str:
        return self._region.scope.renamed(name, self._scope)

    def repeat(self) -> None:
        """Repeat the recorded calls for the copy."""
        for func, args in self._region.repeated:
            func(*(self.of(arg) for arg in args))

    def register(self) -> None:
        """Record the copy as if its operations and variables had been made one by one."""
        graph, region, recorder = tf.get_default_graph(), self._region, self._tower.recorder
        for path, variable in region.variables:
            renamed, other = self._renamed(path), self._variable(variable)
            recorder.record(renamed, other)
            if other is not variable:
                recorder.paths.note(renamed, other)
        variables_by_name().update({self._renamed(name): self._variable(v) for name, v in region.stored.items()})
        for key, items in region.collections.items():
            for item in items:
                graph.add_to_collection(key, self.of(item))
        other_scope = Scope(self._scope.name.lower())
        used = {region.lower_scope.renamed(name, other_scope): count for name, count in region.names_inside.items()}
        names_in_use(graph).update(used)


class CopiedCall:
    """The results of one call of `replicate_by_copy` in all towers.

    Args:
        is_required: whether it is an error if copies are impossible.
        what: the thing that is copied, for messages.
        with_first_values: as for `Copier`.
    """

    def __init__(self, is_required: bool, what: str, with_first_values: bool) -> None:
        self._is_required = is_required
        self._what = what
        self._with_first_values = with_first_values
        self._first: Region | None = None
        self._copier: Copier | None = None
        self._state: PythonState | None = None
        self._is_refused = False

    def leave_to_inner(self) -> None:
        """Copy nothing, since a call inside of this one does."""
        self._is_refused = True

    def call(self, tower: TowerContext, func: Callable[..., Any], args: Any) -> Any:
        """Call the function, or copy what it has built; see `replicate_by_copy`."""
        # The second tower is not recorded where it meets the first one, which is not finished then.
        if tower.index == 0 or (tower.index == 1 and self._first is not None and not self._is_refused):
            return self._recorded(tower, func, args)
        if self._copier is None or not self._copier.takes(tower, args):
            return func(*args)
        made = self._copier.copy_to(tower, args)
        if self._state is not None:
            self._state.replay(made.of)
        made.repeat()
        return made.of(self._copier.output)

    def _recorded(self, tower: TowerContext, func: Callable[..., Any], args: Any) -> Any:
        asked_before, tower.asked = tower.asked, set()
        with self._refusing():
            if tower.index == 1:
                self._state = PythonState(func)
        recorder = RegionRecorder(tower)
        output = func(*args)
        with self._refusing():
            if not self._is_refused:
                self._learn(tower, recorder, args, output)
        tower.asked |= asked_before
        return output

    def _learn(self, tower: TowerContext, recorder: RegionRecorder, args: Any, output: Any) -> None:
        if is_in_control_flow():
            raise NotReplicable("it is built in a loop, condition or function")
        if tower.asked:
            raise NotReplicable(f"it uses what differs from tower to tower: {', '.join(sorted(tower.asked))}")
        region = recorder.finish(args, output)
        if tower.index == 0:
            self._first = region
            return
        first, self._first = self._first, None
        if first is not None and self._state is not None:
            self._state.note_changes(func for func, _ in region.repeated)
            self._copier = Copier(region, compare(first, region), self._with_first_values)

    @contextmanager
    def _refusing(self) -> Iterator[None]:
        """Build the towers if the block finds that they are not alike."""
        try:
            yield
        except NotReplicable as error:
            reason = error
        else:
            return
        self._is_refused, self._first, self._copier = True, None, None
        message = f"{self._what} cannot be copied from tower to tower: {reason}"
        if self._is_required:
            raise GraphBuildError(f"{message}; use tower_building='auto' to build such towers")
        logger.info(f"Each tower is built by itself, since {message}.")


def _check_region(region: Region) -> None:
    check_copyable(region.output, "it returns")
    for _, args in region.repeated:
        check_copyable(args, "a tower function returns")
    for key, items in region.collections.items():
        check_copyable(items, f"it adds to the collection {key!r}")
    for _, variable in region.variables:
        if any(hasattr(variable, name) for name in _OF_TF_KERAS):
            raise NotReplicable(f"tf_keras gives {variable.op.name} a value in a session of its own")
    if is_keras_loaded() and any(map(gives_value, region.ops)):
        raise NotReplicable("Keras gives its variables values")
