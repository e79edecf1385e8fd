"""Copies of parts of a forward pass in the graph: `Recompute` for memory, and `SAM` for gradients at other weights.

Both are optimizers around another one, whose gradients they change while these are made: any trainer, strategy and
wrapper takes them. What is copied are operations of the graph, with the numbers that dropout has drawn and the batch
statistics that normalisation has taken; statistics and other updates are made by the originals alone.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.compat.operations import replace_input
from tpack.errors import GraphBuildError
from tpack.graph_copy import op_kinds
from tpack.graph_copy.nodes import NodeCopier, add_to_graph, external_inputs
from tpack.tfutils.dependency import ancestors, needed_by
from tpack.tfutils.gradproc import Grads, compile_pattern
from tpack.tfutils.optimizer import ProxyOptimizer
from tpack.tower.context import get_current_tower_context
from tpack.tower.grads import Gradient, is_sparse
from tpack.tower.names import join_scope
from tpack.utils import logger
from tpack.utils.validation import check_arguments, check_number, owner_name

__all__ = ["SAM", "Recompute"]

_MOST_NAMES = 6
"""The most names in a message."""


@check_arguments
class Recompute(ProxyOptimizer):
    """Compute the activations of blocks again for their gradients, so that they need not be kept until then.

    Of each block only the inputs are kept. Gradients are the same to the last bit, dropout and normalisation included;
    a step costs up to one more forward pass. Random numbers that TensorFlow draws with a state of its own, and not by
    `Dropout` in a trainer's tower, are kept instead.

    Args:
        opt: the optimizer inside, which computes the gradients.
        blocks: one or several regular expressions. Operations of a tower of which the beginning of the name, up to the
            end of the match and of that scope, is the same are a block.

    Raises:
        GraphBuildError: ``opt`` is not a ``tf.compat.v1.train.Optimizer``; on use, no operation is in a block, a block
            has a loop of TensorFlow 1, or blocks take turns.
        ConfigError: A regular expression is invalid.

    Example:
        ``Recompute(tf.train.AdamOptimizer(1e-3), "group[0-9]/block[0-9]")``, where the model has
        ``with tf.variable_scope("group0/block3"):``

    Source:
        Chen et al., Training deep nets with sublinear memory cost, 2016.
    """

    def __init__(self, opt: tf.train.Optimizer, blocks: str | Sequence[str]) -> None:
        super().__init__(opt, "Recompute")
        self._patterns = [compile_pattern(each) for each in ([blocks] if isinstance(blocks, str) else blocks)]

    def compute_gradients(self, loss: Any, *args: Any, **kwargs: Any) -> Grads:
        """Return the gradients of the inner optimizer, whose activations are computed again.

        Raises:
            GraphBuildError: As for the class.
        """
        loss = loss() if callable(loss) else loss
        graph, needed = tf.get_default_graph(), ancestors([loss])
        forward = [op for op in graph.get_operations() if op in needed]
        num_before = len(graph.get_operations())
        grads = super().compute_gradients(loss, *args, **kwargs)
        backward = graph.get_operations()[num_before:]
        blocks = self._blocks(forward)
        if not blocks:
            scopes = sorted({op.name.rpartition("/")[0] for op in forward} - {""})
            raise GraphBuildError(
                f"Recompute got blocks={[pattern.pattern for pattern in self._patterns]}, which match no operation of "
                f"the cost: expected patterns of scopes, such as {', '.join(scopes[:_MOST_NAMES])}"
            )
        for name, ops in blocks.items():
            _recompute(name, ops, set(forward), backward)
        _check_order(graph.get_operations()[num_before:])
        tower = get_current_tower_context()
        if tower is None or tower.is_main_tower:
            logger.info(f"{len(blocks)} block(s) are computed again for their gradients: {', '.join(blocks)}")
        return grads

    def _blocks(self, forward: Iterable[tf.Operation]) -> dict[str, list[tf.Operation]]:
        prefix = join_scope(tf.get_default_graph().get_name_scope(), "")
        blocks: defaultdict[str, list[tf.Operation]] = defaultdict(list)
        for op in forward:
            name = op.name.removeprefix(prefix)
            match = next((found for each in self._patterns if (found := each.match(name))), None)
            # The last part of a name is that of the operation itself.
            end = -1 if match is None else name.find("/", max(match.end() - 1, 0))
            if end > 0:
                blocks[name[:end]].append(op)
        return dict(blocks)


def _recompute(
    name: str, ops: Sequence[tf.Operation], forward: Collection[tf.Operation], backward: Sequence[tf.Operation]
) -> None:
    """Let the gradients of a block take its tensors from a copy that is made when the gradients of later ones come."""
    inside, later = set(ops), set(backward)
    uses = [(op, index, tensor) for op in backward for index, tensor in enumerate(op.inputs) if tensor.op in inside]
    # What other blocks use is kept anyway.
    uses = [use for use in uses if not any(op in forward and op not in inside for op in use[2].consumers())]
    copied = _needed(inside, [tensor for _, _, tensor in uses])
    uses = [use for use in uses if use[2].op in copied]
    if not uses:
        return
    awaited = _arriving({op for op, _, _ in uses}, later, backward)

    def after_these(tensor: tf.Tensor) -> tf.Tensor:
        with tf.device(tensor.device), tf.control_dependencies(awaited):
            return tf.identity(tensor, name="kept")

    outputs = copy_operations(f"Recompute({name!r})", f"recomputed/{name}", copied, after_these)
    for op, index, tensor in uses:
        replace_input(op, index, outputs(tensor))


def _needed(inside: Collection[tf.Operation], wanted: Iterable[tf.Tensor]) -> set[tf.Operation]:
    """Return those of some operations that compute tensors, without those whose results are kept."""
    found: set[tf.Operation] = set()
    waiting = [tensor.op for tensor in wanted]
    while waiting:
        op = waiting.pop()
        if op in inside and op not in found and not _is_kept(op):
            found.add(op)
            waiting.extend(tensor.op for tensor in op.inputs)
    return found


def _is_kept(op: tf.Operation) -> bool:
    """Tell whether the result of an operation is kept: it has no memory of its own, or could not be had again."""
    has_own_state = any(word in op.type for word in op_kinds.DRAWING_WORDS) and not op.type.startswith("Stateless")
    kinds = op_kinds.READING_VALUES | op_kinds.TAKING_DATA | op_kinds.PYTHON
    return not op.inputs or has_own_state or op.type in kinds


def _arriving(
    users: Collection[tf.Operation], later: Collection[tf.Operation], backward: Sequence[tf.Operation]
) -> list[tf.Operation]:
    """Return the operations of the backward pass that give gradients to those of a block, and need none of them."""
    needing = set(users)
    for op in backward:
        if any(other in needing for other in needed_by(op)):
            needing.add(op)
    return list(dict.fromkeys(t.op for op in users for t in op.inputs if t.op in later and t.op not in needing))


def _check_order(ops: Sequence[tf.Operation]) -> None:
    """Refuse operations that wait for each other, as copies of blocks that take turns do."""
    members = set(ops)
    waits = {op: {other for other in needed_by(op) if other in members} for op in ops}
    users: defaultdict[tf.Operation, list[tf.Operation]] = defaultdict(list)
    for op, others in waits.items():
        for other in others:
            users[other].append(op)
    ready = [op for op in ops if not waits[op]]
    while ready:
        done = ready.pop()
        for user in users[done]:
            waits[user].discard(done)
            if not waits[user]:
                ready.append(user)
    if stuck := sorted(op.name for op, others in waits.items() if others and "recomputed/" in op.name):
        raise GraphBuildError(
            f"Recompute got blocks that take turns, of which {stuck[0]} is a copy: expected blocks of which one ends "
            "before the next begins"
        )


def copy_operations(
    owner: object, scope: str, ops: Collection[tf.Operation], entering: Callable[[tf.Tensor], tf.Tensor]
) -> Callable[[tf.Tensor], tf.Tensor]:
    """Copy operations without their control inputs; return the function from a tensor of theirs to its copy.

    Args:
        owner: for messages.
        scope: the name scope of the copies, in that of the current tower.
        ops: the operations.
        entering: returns what the copies get in place of a tensor from elsewhere.

    Raises:
        GraphBuildError: Some of the operations are of a loop or condition of TensorFlow 1.
    """
    of_loops = sorted(op.name for op in ops if op.type in op_kinds.FRAME_CONTROL or _is_list(op))
    if of_loops:
        raise GraphBuildError(
            f"{owner_name(owner)} got {of_loops[0]}, of a loop or condition of TensorFlow 1: expected operations "
            "outside of loops; use static_rnn in place of dynamic_rnn"
        )
    graph = tf.get_default_graph()
    prefix = join_scope(graph.get_name_scope(), "")
    top = graph.unique_name(scope)
    copier = NodeCopier({op.name for op in ops}, lambda name: f"{top}/{name.removeprefix(prefix)}")
    for op in _in_order(ops):
        node = op.node_def
        copier.add(node, [copier.input(name) for name in node.input if not name.startswith("^")])
    external = external_inputs(copier.graph_def.node)
    with tf.name_scope(f"{top}/"):
        given = {name: entering(graph.get_tensor_by_name(name if ":" in name else f"{name}:0")) for name in external}
    add_to_graph(copier.graph_def, given=given)
    return lambda tensor: graph.get_tensor_by_name(f"{top}/{tensor.name.removeprefix(prefix)}")


def _is_list(op: tf.Operation) -> bool:
    return op.type.startswith(op_kinds.LIST_PREFIXES)


@check_arguments
class SAM(ProxyOptimizer):
    """Take the gradients at weights that are moved by ``rho`` along the gradient: sharpness-aware minimisation.

    A step makes the forward and the backward pass twice. Each tower moves the weights along the gradient of its own
    batch, as in the paper, so that K towers are not one with K times the batch. The cost, statistics of normalisation
    and all that is reported are those of the weights themselves; masks of dropout are the same in both passes.

    Args:
        opt: the optimizer inside, which applies the gradients.
        rho: the length of the move, in the norm over all variables of a tower.

    Raises:
        GraphBuildError: ``opt`` is not a ``tf.compat.v1.train.Optimizer``; on use, the cost needs variables in a loop
            of TensorFlow 1, or ``opt`` holds gradients back: `Unfreeze` and `SpikeGuard` go around this one.
        ConfigError: ``rho`` is not above 0.

    Example:
        SAM(tf.train.MomentumOptimizer(0.1, 0.9), rho=0.05)

    Source:
        Foret et al., Sharpness-aware minimization for efficiently improving generalization, 2021, algorithm 1.
    """

    def __init__(self, opt: tf.train.Optimizer, rho: float = 0.05) -> None:
        super().__init__(opt, "SAM")
        self._rho = check_number(self, "rho", rho, 0, is_low_allowed=False)

    def compute_gradients(self, loss: Any, *args: Any, **kwargs: Any) -> Grads:
        """Return the gradients at the moved weights.

        Raises:
            GraphBuildError: As for the class.
        """
        loss = loss() if callable(loss) else loss
        grads = super().compute_gradients(loss, *args, **kwargs)
        wanted = [part for gradient, _ in grads if gradient is not None for part in _parts(gradient)]
        with tf.name_scope("SAM"):
            moves = self._moves(grads)
            reads = _reads_of([variable for gradient, variable in grads if gradient is not None], [loss, *wanted])
            changed = {t.name: _moved(t, moves[name]) for name, tensors in reads.items() for t in tensors}
        # The backward pass is copied too: functions of tf.custom_gradient have the tensors of the forward pass.
        copied = _needed(_depending(wanted, reads), wanted)
        copy_of = copy_operations(self, "SAM", copied, lambda tensor: changed.get(tensor.name, tensor))

        def at_moved(tensor: tf.Tensor) -> tf.Tensor:
            return copy_of(tensor) if tensor.op in copied else changed.get(tensor.name, tensor)

        return [
            (None if gradient is None else _of_parts(gradient, map(at_moved, _parts(gradient))), variable)
            for gradient, variable in grads
        ]

    def _moves(self, grads: Grads) -> dict[str, tf.Tensor]:
        """Return the move of each variable, dense."""
        known = {_name(variable): tf.convert_to_tensor(each) for each, variable in grads if each is not None}
        factor = self._rho / (tf.global_norm(list(known.values())) + 1e-12)
        return {name: tf.stop_gradient(tf.cast(factor, each.dtype) * each) for name, each in known.items()}


def _parts(gradient: Gradient) -> list[tf.Tensor]:
    return [gradient.values, gradient.indices] if is_sparse(gradient) else [gradient]


def _of_parts(gradient: Gradient, parts: Iterable[tf.Tensor]) -> Gradient:
    return tf.IndexedSlices(*parts, gradient.dense_shape) if is_sparse(gradient) else next(iter(parts))


def _name(variable: tf.Variable | tf.Tensor) -> str:
    return str(variable.name if isinstance(variable, tf.Tensor) else variable.op.name)


def _reads_of(variables: Sequence[tf.Variable | tf.Tensor], targets: Sequence[tf.Tensor]) -> dict[str, list[tf.Tensor]]:
    """Return the tensors of the values of each variable that targets need; a tensor that is trained is its own."""
    reads: dict[str, list[tf.Tensor]] = {
        _name(each): [each] if isinstance(each, tf.Tensor) else [] for each in variables
    }
    for op in ancestors(targets):
        if op.type in op_kinds.READING_VALUES and op.inputs[0].op.name in reads:
            reads[op.inputs[0].op.name].append(op.outputs[0])
    if unknown := [name for name, tensors in reads.items() if not tensors]:
        raise GraphBuildError(
            f"SAM got the variable {unknown[0]}, which a loop of TensorFlow 1 reads, or which is no resource variable: "
            "expected variables that are read outside of loops; use static_rnn in place of dynamic_rnn"
        )
    # The order of a set differs between towers.
    order = {op.name: number for number, op in enumerate(_in_order({each.op for each in sum(reads.values(), [])}))}
    return {name: sorted(tensors, key=lambda tensor: order[tensor.op.name]) for name, tensors in reads.items()}


def _in_order(ops: Collection[tf.Operation]) -> list[tf.Operation]:
    """Return operations of one graph in the order in which they were made."""
    wanted = {op.name for op in ops}
    graph = next(iter(ops)).graph if ops else tf.get_default_graph()
    return [op for op in graph.get_operations() if op.name in wanted]


def _moved(tensor: tf.Tensor, move: tf.Tensor) -> tf.Tensor:
    """Return the value of a read of a variable that is moved."""
    with tf.device(tensor.device):
        if tensor.op.type == "ResourceGather":
            move = tf.gather(move, tensor.op.inputs[1])
        elif tensor.op.type == "ResourceGatherNd":
            move = tf.gather_nd(move, tensor.op.inputs[1])
        return tensor + move


def _depending(targets: Sequence[tf.Tensor], reads: Mapping[str, Sequence[tf.Tensor]]) -> set[tf.Operation]:
    """Return the operations between the values of variables and some targets, without those that draw."""
    needed, sources = ancestors(targets), {tensor.op for tensors in reads.values() for tensor in tensors}
    found: set[tf.Operation] = set()
    waiting = [tensor for tensors in reads.values() for tensor in tensors]
    while waiting:
        for op in waiting.pop().consumers():
            if op in needed and op not in found and op not in sources and not _is_kept(op):
                found.add(op)
                waiting.extend(op.outputs)
    return found
