"""Compare the second tower with the first, and describe the differences of copies.

Each operation of the second tower must have a counterpart in the first one: of the same type, with the same attributes,
and with the counterparts of its inputs. The first tower may have more: shared variables, and summaries. Counterparts
may differ only in names, devices, seeds of the graph, and text that holds names.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeAlias

import tensorflow.compat.v1 as tf

from tpack.graph_copy import op_kinds
from tpack.graph_copy.capture import NotReplicable, Region, are_replicable, chooses_devices, is_variable, tensor_leaves
from tpack.graph_copy.nodes import colocations, op_of_input
from tpack.tower.names import VARIABLE_KEYS, Scope

_SEEDS = ("seed", "seed2")
# These are compared by what they say, not by their text. The mark of what others wait for changes nothing, and there is
# more to wait for it in the first tower, such as summaries.
_MARK_OF_WAITING = "_has_manual_control_dependencies"
_SPECIAL = frozenset(
    {"_class", "_gradient_op_type", "_output_shapes", "debug_name", "shared_name", _MARK_OF_WAITING, *_SEEDS}
)
Images: TypeAlias = dict[str, str]
"""The counterparts in the first tower, by the names in the second one."""


@dataclass
class GraphDiff:
    """The differences of copies of the second tower from it.

    Attributes:
        own_device: the operations on the tower's device.
        seeds: the operations with a seed from the graph.
        texts: constants and attributes whose text holds the tower's name.
        functions: the definitions of functions that each tower has of its own.
        varying: inputs from outside that each tower has of its own, with functions that return the tensor of another
            tower, given that tower's arguments.
    """

    images: Images
    own_device: set[str] = field(default_factory=set)
    seeds: set[str] = field(default_factory=set)
    texts: set[tuple[str, str]] = field(default_factory=set)
    functions: dict[str, Any] = field(default_factory=dict)
    varying: dict[str, Callable[[int, list[tf.Tensor]], tf.Tensor]] = field(default_factory=dict)


def compare(first: Region, second: Region) -> GraphDiff:
    """Return the differences of copies of ``second``; raise `NotReplicable` if a third tower might differ otherwise."""
    return _Comparison(first, second).run()


class _Comparison:
    def __init__(self, first: Region, second: Region) -> None:
        self._first, self._second = first, second
        self._like = GraphDiff({})
        self._given: dict[str, str] = {}
        self._functions = _Functions(first, second)

    def run(self) -> GraphDiff:
        self._check_places()
        self._match_given()
        self._match_nodes()
        for name, image in self._like.images.items():
            self._compare_pair(self._first.nodes[image], self._second.nodes[name])
        self._like.functions = self._functions.of_second_tower()
        return self._like

    def _check_places(self) -> None:
        first, second = self._first, self._second
        for node in {node.op: node for node in second.nodes.values()}.values():
            check_state(node)
        if first.device == second.device:
            raise NotReplicable("its towers are on one device")
        outside = [name for name in second.nodes if not second.scope.is_in(name)]
        if outside:
            raise NotReplicable(f"it makes operations outside of the tower's name scope, such as {outside[0]}")
        if any(map(second.scope.is_in, first.nodes)):
            raise NotReplicable(f"the first tower has a name scope that is called {second.scope.name!r} too")
        if chooses_devices(second.tower) and any(map(is_variable, second.nodes.values())):
            raise NotReplicable("it makes variables, and a function chooses their devices")

    def _match_given(self) -> None:
        """Match the inputs from outside that each tower has of its own: arguments, and components of variables."""
        firsts, seconds = tensor_leaves(self._first.args), tensor_leaves(self._second.args)
        if not are_replicable(self._first.args, self._second.args):
            raise NotReplicable("its arguments differ from tower to tower")
        for position, (one, other) in enumerate(zip(firsts, seconds, strict=True)):
            self._vary(one, other, partial(_given, position))
        for parts in self._components():
            self._vary(parts[0].handle, parts[1].handle, partial(_handle, parts))

    def _components(self) -> Iterable[Sequence[tf.Variable]]:
        """Yield the components of variables that have one for each tower."""
        graph, num_towers = tf.get_default_graph(), self._second.tower.total
        known = [variable for key in VARIABLE_KEYS for variable in graph.get_collection(key)]
        recorded = [variable for region in (self._first, self._second) for _, variable in region.variables]
        for variable in {id(variable): variable for variable in (*known, *recorded)}.values():
            parts = getattr(variable, "components", ())
            if len(parts) == num_towers:
                yield parts

    def _vary(self, one: tf.Tensor, other: tf.Tensor, tensor_of: Callable[[int, list[tf.Tensor]], tf.Tensor]) -> None:
        key, image = _input_name(other), _input_name(one)
        if self._given.setdefault(key, image) != image:
            raise NotReplicable(f"the first tower has two tensors in the place of {other.name}")
        self._like.varying.setdefault(key, tensor_of)

    def _match_nodes(self) -> None:
        candidates: dict[bytes, dict[str, None]] = defaultdict(dict)
        for name, node in self._first.nodes.items():
            candidates[self._key(node, self._first, lambda name: name)][name] = None
        images = self._like.images
        for name, node in self._second.nodes.items():
            found = candidates.get(self._key(node, self._second, self._image_of_input))
            if not found:
                raise NotReplicable(f"{name} has no counterpart in the first tower: {self._difference(node)}")
            images[name] = next((n for n in self._names_in_first(name) if n in found), None) or next(iter(found))
            del found[images[name]]

    def _names_in_first(self, name: str) -> Iterable[str]:
        """Yield possible names of a counterpart: variables of the first tower have no prefix."""
        first, second, none = self._first.scope, self._second.scope, Scope("")
        yield second.renamed(name, first)
        yield second.renamed(name, none)
        # An update is in the name scope of the tower and called after its variable.
        inner = name.removeprefix(f"{second.name}/")
        yield f"{first.name}/{second.renamed(inner, none)}"

    def _image_of_input(self, name: str) -> str:
        mark = "^" if name.startswith("^") else ""
        op, colon, index = name.lstrip("^").partition(":")
        if op in self._second.nodes:
            # An operation that comes later closes a loop; it is compared by the rest of the loop.
            return f"{mark}{self._like.images.get(op, '')}{colon}{index}"
        return f"{mark}{self._given.get(name.lstrip('^'), name.lstrip('^'))}"

    def _key(self, node: tf.NodeDef, region: Region, image: Callable[[str], str]) -> bytes:
        """Return the common properties of a node and its counterpart, as bytes."""
        later = region.positions
        inputs = ["" if later.get(op_of_input(i), -1) > later[node.name] else image(i) for i in node.input]
        data = [i for i in inputs if not i.startswith("^")]
        control = sorted(i for i in inputs if i.startswith("^"))
        attributes = [(key, self._attribute(node, key, region)) for key in sorted(node.attr) if key not in _SPECIAL]
        return repr((node.op, data, control, attributes)).encode()

    def _attribute(self, node: tf.NodeDef, key: str, region: Region) -> Any:
        value = node.attr[key]
        kind = value.WhichOneof("value")
        if kind == "func":
            return self._functions.key(value.func.name, region)
        if kind == "tensor" and value.tensor.dtype == tf.string.as_datatype_enum:
            return [_plain(text, region) for text in value.tensor.string_val]
        if kind == "tensor" and node.name in region.tower.own_constants:
            return "a constant of the tower"
        if kind == "s":
            return _plain(value.s, region)
        return _bytes(value)

    def _compare_pair(self, one: tf.NodeDef, other: tf.NodeDef) -> None:
        self._compare_devices(one, other)
        self._compare_seeds(one, other)
        self._compare_colocations(one, other)
        for key, value in other.attr.items():
            kind = value.WhichOneof("value")
            if key not in _SPECIAL and kind in ("s", "tensor") and value != one.attr.get(key):
                self._like.texts.add((other.name, key))
        if not is_variable(other) and one.attr.get("shared_name") != other.attr.get("shared_name"):
            raise NotReplicable(f"{other.name} has a name for what it shares that differs from tower to tower")

    def _compare_devices(self, one: tf.NodeDef, other: tf.NodeDef) -> None:
        if (one.device, other.device) == (self._first.device, self._second.device):
            self._like.own_device.add(other.name)
        elif one.device != other.device:
            raise NotReplicable(f"{other.name} is on {other.device!r}, in the first tower on {one.device!r}")

    def _compare_seeds(self, one: tf.NodeDef, other: tf.NodeDef) -> None:
        if one.attr.get("seed") != other.attr.get("seed"):
            raise NotReplicable(f"{other.name} has a seed that differs from tower to tower")
        if one.attr.get("seed2") == other.attr.get("seed2"):
            return
        seeds = [node.attr["seed2"].i for node in (one, other)]
        if seeds[0] not in self._first.seeds or seeds[1] not in self._second.seeds:
            raise NotReplicable(f"{other.name} has a seed of its own, not from the graph, in each tower")
        self._like.seeds.add(other.name)

    def _compare_colocations(self, one: tf.NodeDef, other: tf.NodeDef) -> None:
        groups = [colocations(node) for node in (one, other)]
        mapped = [self._like.images.get(name, self._given.get(name, name)) for name in groups[1]]
        if sorted(groups[0]) != sorted(mapped):
            raise NotReplicable(f"{other.name} is colocated with {groups[1]}, in the first tower with {groups[0]}")

    def _difference(self, node: tf.NodeDef) -> str:
        """Return the known difference between a node of the second tower and the one of its name in the first."""
        image = next((self._first.nodes[n] for n in self._names_in_first(node.name) if n in self._first.nodes), None)
        if image is None:
            return "there is none of its name"
        if image.op != node.op:
            return f"{image.name} is a {image.op}, not a {node.op}"
        for key in sorted({*image.attr, *node.attr} - _SPECIAL):
            if self._attribute(image, key, self._first) != self._attribute(node, key, self._second):
                return f"{key} differs"
        return f"it has {list(node.input)} as inputs, {image.name} has {list(image.input)}"


class _Functions:
    """Functions of the graph, compared by content."""

    def __init__(self, first: Region, second: Region) -> None:
        self._regions = (first, second)
        self._definitions: Mapping[str, Any] | None = None
        self._keys: tuple[dict[str, str], dict[str, str]] = ({}, {})

    def key(self, name: str, region: Region) -> str:
        """Return the common properties of a function and its counterpart."""
        keys = self._keys[self._regions.index(region)]
        if name not in keys:
            keys[name] = "itself"
            definition = self._definition(name)
            keys[name] = name if definition is None else self._key_of(definition, region)
        return keys[name]

    def of_second_tower(self) -> dict[str, Any]:
        """Return the definitions of the functions that the second tower uses and the first does not."""
        own = self._keys[1].keys() - self._keys[0].keys()
        return {name: definition for name in sorted(own) if (definition := self._definition(name)) is not None}

    def _definition(self, name: str) -> Any:
        if self._definitions is None:
            library = tf.get_default_graph().as_graph_def().library.function
            self._definitions = {function.signature.name: function for function in library}
        return self._definitions.get(name)

    def _key_of(self, definition: Any, region: Region) -> str:
        signature = definition.signature
        # Names differ from tower to tower; what they stand for is told by its position.
        names = [arg.name for arg in signature.input_arg] + [node.name for node in definition.node_def]
        positions = {name: f"{position}" for position, name in enumerate(names)}
        nodes = [self._node_key(node, region, positions) for node in definition.node_def]
        types = [[arg.type for arg in args] for args in (signature.input_arg, signature.output_arg)]
        results = [_by_position(definition.ret[arg.name], positions) for arg in signature.output_arg]
        control = sorted(_by_position(name, positions) for name in definition.control_ret.values())
        return repr((types, nodes, results, control))

    def _node_key(self, node: Any, region: Region, positions: Mapping[str, str]) -> Any:
        check_state(node)
        values: list[tuple[str, Any]] = []
        for key in sorted(node.attr.keys() - _SPECIAL | node.attr.keys() & set(_SEEDS)):
            value = node.attr[key]
            is_function = value.WhichOneof("value") == "func"
            content = self.key(value.func.name, region) if is_function else _bytes(value)
            values.append((key, content))
        device = "that of the tower" if node.device == region.device else node.device
        return (node.op, device, [_by_position(name, positions) for name in node.input], values)


def _given(position: int, _: int, given: list[tf.Tensor]) -> tf.Tensor:
    return given[position]


def _handle(parts: Sequence[tf.Variable], index: int, _: list[tf.Tensor]) -> tf.Tensor:
    return parts[index].handle


def check_state(node: tf.NodeDef) -> None:
    """Raise `NotReplicable` for an operation with a state of its own."""
    definition = tf.get_default_graph().op_def_for_type(node.op)
    if definition.is_stateful and not op_kinds.WITHOUT_STATE.fullmatch(node.op):
        raise NotReplicable(f"it makes {node.name}, a {node.op}, which has a state of its own")


def _input_name(tensor: tf.Tensor) -> str:
    return tensor.op.name if tensor.value_index == 0 else f"{tensor.op.name}:{tensor.value_index}"


def _plain(text: bytes, region: Region) -> bytes:
    """Return text without the names of the tower."""
    scope = region.scope.name.encode()
    return text.replace(scope + b"/", b"") if scope else text


def _by_position(name: str, positions: Mapping[str, str]) -> str:
    """Return a node's input in a function, with the position of its origin instead of the name."""
    mark = "^" if name.startswith("^") else ""
    node, colon, output = name.removeprefix("^").partition(":")
    return f"{mark}{positions[node]}{colon}{output}"


def _bytes(value: Any) -> bytes:
    return bytes(value.SerializeToString(deterministic=True))
