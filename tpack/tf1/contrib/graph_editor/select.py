"""Selection of operations and tensors: by names, by walks along the edges of a graph, and at borders."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError, WrongTypeError
from tpack.tf1.contrib.graph_editor.util import (
    ControlOutputs,
    Ops,
    Tensors,
    get_consuming_ops,
    get_generating_ops,
    get_tensors,
    is_iterable,
    make_list_of_op,
    make_list_of_t,
)
from tpack.utils.validation import mismatch, shown

_OPS_ONLY, _TS_ONLY = "(?#ops)", "(?#ts)"
"""How a pattern begins that is for operations, or tensors, alone."""


def can_be_regex(obj: object) -> bool:
    """Tell whether something is text or a compiled pattern."""
    return isinstance(obj, (str, re.Pattern))


def make_regex(obj: Any) -> re.Pattern[str]:
    """Return a compiled pattern.

    Raises:
        ConfigError: It is neither a pattern nor text.
    """
    if not can_be_regex(obj):
        raise ConfigError(mismatch("make_regex", "obj", obj, "text or a compiled pattern"))
    return re.compile(obj)


def filter_ops(ops: Ops, positive_filter: Any) -> list[tf.Operation]:
    """Return the operations for which a function returns True; all of them if it is True."""
    return [op for op in make_list_of_op(ops) if positive_filter is True or positive_filter(op)]


def filter_ops_from_regex(ops: Ops, regex: Any) -> list[tf.Operation]:
    """Return the operations in whose names a pattern is found."""
    pattern = make_regex(regex)
    return filter_ops(ops, lambda op: pattern.search(op.name))


def filter_ts(ops: Ops, positive_filter: Any) -> list[tf.Tensor]:
    """Return the tensors that operations take and make, each once, for which a function returns True, or is True."""
    tensors = [tensor for op in make_list_of_op(ops) for tensor in (*op.inputs, *op.outputs)]
    return [tensor for tensor in dict.fromkeys(tensors) if positive_filter is True or positive_filter(tensor)]


def filter_ts_from_regex(ops: Ops, regex: Any) -> list[tf.Tensor]:
    """Return the tensors of `filter_ts` in whose names a pattern is found."""
    pattern = make_regex(regex)
    return filter_ts(ops, lambda tensor: pattern.search(tensor.name))


def get_name_scope_ops(ops: Ops, scope: str) -> list[tf.Operation]:
    """Return the operations in a name scope."""
    scope = scope.removesuffix("/")
    return [op for op in make_list_of_op(ops) if not scope or op.name == scope or op.name.startswith(f"{scope}/")]


def select_ops(*args: Any, **kwargs: Any) -> list[tf.Operation]:
    """Return operations, each once.

    Args:
        *args: operations, several of them, or patterns for names, which need ``graph``.
        **kwargs: ``graph``; ``positive_filter``, a function of operations; and ``restrict_ops_regex``, whether only
            patterns that begin with ``"(?#ops)"`` count.

    Raises:
        ConfigError: A pattern without a graph, or another keyword.
        WrongTypeError: Something else is among them.
    """
    return _selected(args, kwargs, _OPS_ONLY, _TS_ONLY, filter_ops_from_regex, make_list_of_op)


def select_ts(*args: Any, **kwargs: Any) -> list[tf.Tensor]:
    """Return tensors, each once; arguments as for `select_ops`, with ``restrict_ts_regex`` and ``"(?#ts)"``."""
    return _selected(args, kwargs, _TS_ONLY, _OPS_ONLY, _ts_of_graph, make_list_of_t)


def _ts_of_graph(graph: tf.Graph, pattern: re.Pattern[str]) -> list[tf.Tensor]:
    return [tensor for tensor in get_tensors(graph) if pattern.search(tensor.name)]


def _selected(
    args: Sequence[Any],
    kwargs: dict[str, Any],
    mine: str,
    others: str,
    find: Callable[..., list[Any]],
    make_list: Callable[..., list[Any]],
) -> list[Any]:
    kind = "ops" if mine == _OPS_ONLY else "ts"
    given = dict(kwargs)
    graph, keep = given.pop("graph", None), given.pop("positive_filter", None)
    is_restricted = given.pop(f"restrict_{kind}_regex", False)
    if given:
        raise ConfigError(
            f"select_{kind} got {next(iter(given))}: expected graph, positive_filter or restrict_{kind}_regex"
        )
    found: list[Any] = []
    for arg in args:
        if not can_be_regex(arg):
            ignored = {"ignore_ts": True} if kind == "ops" else {"ignore_ops": True}
            found += make_list(arg, allow_graph=False, **ignored)
            continue
        if graph is None:
            raise ConfigError(f"select_{kind} got {shown(arg)}: expected a graph beside a pattern; use graph=")
        pattern = make_regex(arg)
        if not pattern.pattern.startswith(others) and (not is_restricted or pattern.pattern.startswith(mine)):
            found += find(graph, pattern)
    return [item for item in dict.fromkeys(found) if keep is None or keep(item)]


def select_ops_and_ts(*args: Any, **kwargs: Any) -> tuple[list[tf.Operation], list[tf.Tensor]]:
    """Return operations and tensors; patterns are for operations unless they begin with ``"(?#ts)"``."""
    return select_ops(*args, restrict_ops_regex=False, **kwargs), select_ts(*args, restrict_ts_regex=True, **kwargs)


def check_cios(
    control_inputs: bool = False, control_outputs: Any = None, control_ios: Any = None
) -> tuple[bool, ControlOutputs | None]:
    """Return whether control inputs count, and the control outputs; ``control_ios`` stands for both.

    Raises:
        ConfigError: ``control_ios`` is given beside one of the others.
        WrongTypeError: Control outputs are something else.
    """
    if control_ios is not None:
        if control_outputs is not None:
            raise ConfigError("check_cios got control_ios and control_outputs: expected one of them")
        control_inputs, control_outputs = True, control_ios
    if control_outputs is not None and not isinstance(control_outputs, ControlOutputs):
        raise WrongTypeError(mismatch("check_cios", "control_outputs", control_outputs, "a ControlOutputs"))
    return control_inputs, control_outputs


def get_ops_ios(
    ops: Ops, control_inputs: bool = False, control_outputs: Any = None, control_ios: Any = None
) -> list[tf.Operation]:
    """Return the operations beside others: those whose tensors they take, and those that take theirs."""
    control_inputs, control_outputs = check_cios(control_inputs, control_outputs, control_ios)
    found: list[tf.Operation] = []
    for op in make_list_of_op(ops):
        found += (*_before(op, control_inputs=control_inputs), *_after(op, control_outputs))
    return list(dict.fromkeys(found))


def _before(
    op: tf.Operation, stops: frozenset[tf.Tensor] = frozenset(), *, control_inputs: bool
) -> Iterator[tf.Operation]:
    yield from (tensor.op for tensor in op.inputs if tensor not in stops)
    if control_inputs:
        yield from op.control_inputs


def _after(
    op: tf.Operation, control_outputs: ControlOutputs | None, stops: frozenset[tf.Tensor] = frozenset()
) -> Iterator[tf.Operation]:
    for tensor in op.outputs:
        if tensor not in stops:
            yield from tensor.consumers()
    if control_outputs is not None:
        yield from control_outputs.get(op)


def get_forward_walk_ops(
    seed_ops: Any,
    inclusive: bool = True,
    within_ops: Ops = None,
    within_ops_fn: Callable[[tf.Operation], bool] | None = None,
    stop_at_ts: Tensors = (),
    control_outputs: Any = None,
) -> list[tf.Operation]:
    """Return the operations that depend on others, in the order of a walk through them.

    Args:
        seed_ops: the operations it begins with, or tensors, for their consumers.
        inclusive: whether these are part of the result.
        within_ops: the operations that it may enter; None for all.
        within_ops_fn: the same as a function.
        stop_at_ts: tensors beyond which it does not go.
        control_outputs: follows these too.

    Raises:
        WrongTypeError: An argument is something else.
    """
    _, control_outputs = check_cios(False, control_outputs)
    stops = frozenset(make_list_of_t(stop_at_ts))
    may_enter = _Within(within_ops, within_ops_fn)
    seeds = may_enter.of(_seeds(seed_ops, get_consuming_ops))
    return _walk(seeds, lambda op: _after(op, control_outputs, stops), may_enter, inclusive=inclusive)


def get_backward_walk_ops(
    seed_ops: Any,
    inclusive: bool = True,
    within_ops: Ops = None,
    within_ops_fn: Callable[[tf.Operation], bool] | None = None,
    stop_at_ts: Tensors = (),
    control_inputs: bool = False,
) -> list[tf.Operation]:
    """Return the operations that others depend on, in the order of a walk through them.

    Args:
        seed_ops: the operations it begins with, or tensors, for those that make them.
        inclusive: whether these are part of the result.
        within_ops: the operations that it may enter; None for all.
        within_ops_fn: the same as a function.
        stop_at_ts: tensors beyond which it does not go.
        control_inputs: whether it follows control inputs too.

    Raises:
        WrongTypeError: An argument is something else.
    """
    control_inputs, _ = check_cios(control_inputs)
    stops = frozenset(make_list_of_t(stop_at_ts))
    may_enter = _Within(within_ops, within_ops_fn)
    seeds = may_enter.of(_seeds(seed_ops, get_generating_ops))
    return _walk(seeds, lambda op: _before(op, stops, control_inputs=control_inputs), may_enter, inclusive=inclusive)


class _Within:
    """The operations that a walk may enter."""

    def __init__(self, ops: Ops, function: Callable[[tf.Operation], bool] | None) -> None:
        self._ops = None if ops is None else frozenset(make_list_of_op(ops, allow_graph=False))
        self._function = function

    def __call__(self, op: tf.Operation) -> bool:
        return (self._ops is None or op in self._ops) and (self._function is None or bool(self._function(op)))

    def of(self, seeds: Iterable[tf.Operation]) -> list[tf.Operation]:
        """Return the seeds that count; with no operations at all, all do."""
        return [op for op in seeds if not self._ops or self(op)]


def _seeds(seed_ops: Any, of_tensors: Callable[[Any], list[tf.Operation]]) -> list[tf.Operation]:
    seeds = list(seed_ops) if is_iterable(seed_ops) else [seed_ops]
    if seeds and isinstance(seeds[0], tf.Tensor):
        return of_tensors(seeds)
    return make_list_of_op(seeds, allow_graph=False)


def _walk(
    seeds: Iterable[tf.Operation],
    neighbours: Callable[[tf.Operation], Iterable[tf.Operation]],
    may_enter: Callable[[tf.Operation], bool],
    *,
    inclusive: bool = True,
) -> list[tf.Operation]:
    found = dict.fromkeys(seeds)
    begun, wave = set(found), list(found)
    while wave:
        reached = dict.fromkeys(other for op in wave for other in neighbours(op) if other not in found)
        wave = [op for op in reached if may_enter(op)]
        found.update(dict.fromkeys(wave))
    return [op for op in found if inclusive or op not in begun]


def get_walks_intersection_ops(
    forward_seed_ops: Any,
    backward_seed_ops: Any,
    forward_inclusive: bool = True,
    backward_inclusive: bool = True,
    within_ops: Ops = None,
    within_ops_fn: Callable[[tf.Operation], bool] | None = None,
    control_inputs: bool = False,
    control_outputs: Any = None,
    control_ios: Any = None,
) -> list[tf.Operation]:
    """Return the operations of both a forward and a backward walk; arguments as for these."""
    forward, backward = _walks(**locals())
    return [op for op in forward if op in set(backward)]


def get_walks_union_ops(
    forward_seed_ops: Any,
    backward_seed_ops: Any,
    forward_inclusive: bool = True,
    backward_inclusive: bool = True,
    within_ops: Ops = None,
    within_ops_fn: Callable[[tf.Operation], bool] | None = None,
    control_inputs: bool = False,
    control_outputs: Any = None,
    control_ios: Any = None,
) -> list[tf.Operation]:
    """Return the operations of a forward or a backward walk, each once; arguments as for these."""
    forward, backward = _walks(**locals())
    return list(dict.fromkeys([*forward, *backward]))


def _walks(**given: Any) -> tuple[list[tf.Operation], list[tf.Operation]]:
    cios = check_cios(given["control_inputs"], given["control_outputs"], given["control_ios"])
    within = {"within_ops": given["within_ops"], "within_ops_fn": given["within_ops_fn"]}
    return (
        get_forward_walk_ops(given["forward_seed_ops"], given["forward_inclusive"], control_outputs=cios[1], **within),
        get_backward_walk_ops(
            given["backward_seed_ops"], given["backward_inclusive"], control_inputs=cios[0], **within
        ),
    )


def get_within_boundary_ops(
    ops: Ops,
    seed_ops: Ops,
    boundary_ops: Ops = (),
    inclusive: bool = True,
    control_inputs: bool = False,
    control_outputs: Any = None,
    control_ios: Any = None,
) -> list[tf.Operation]:
    """Return the operations around some others, up to a border.

    Args:
        ops: the operations among which it looks.
        seed_ops: the operations it begins with.
        boundary_ops: the border.
        inclusive: whether the reached part of the border belongs to the result.
        control_inputs: whether control inputs are followed.
        control_outputs: follows these too.
        control_ios: both.

    Raises:
        WrongTypeError: An argument is something else.
    """
    cios = check_cios(control_inputs, control_outputs, control_ios)
    inside, border = set(make_list_of_op(ops)), set(make_list_of_op(boundary_ops))
    seeds = make_list_of_op(seed_ops, allow_graph=False)
    found = _walk(seeds, lambda op: () if op in border else get_ops_ios(op, *cios), inside.__contains__)
    return [op for op in found if inclusive or op not in border]


def compute_boundary_ts(ops: Ops) -> tuple[list[tf.Tensor], list[tf.Tensor], list[tf.Tensor]]:
    """Return the tensors that operations take from outside, those used outside or nowhere, and those used inside."""
    inside = dict.fromkeys(make_list_of_op(ops))
    taken = dict.fromkeys(tensor for op in inside for tensor in op.inputs)
    made = [tensor for op in inside for tensor in op.outputs]
    outputs = [tensor for tensor in made if not set(tensor.consumers()) or set(tensor.consumers()) - inside.keys()]
    return [tensor for tensor in taken if tensor.op not in inside], outputs, [t for t in made if t in taken]
