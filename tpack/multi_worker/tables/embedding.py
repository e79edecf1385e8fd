"""Embedding tables whose rows are dealt out over the workers, in a model whose rest is trained data-parallel.

Row r lies with worker r mod W, on its CPU. A look-up sends the distinct ids of a worker's towers to the owners of their
rows, and the rows come back. In the backward pass the gradients of the same rows go to the owners, which add them in
the order of the ranks and apply them by the user's optimizer. Nothing else of a table travels.

**Order.** An owner updates its rows when it has the gradients of all workers, which have read the old rows before. A
worker ends its step when all owners have updated theirs, so what it reads between two steps is of one step.

**One name.** A `RowShardedVariable` for a table and each of its slots stands in GLOBAL_VARIABLES, where savers find it;
the parts of the workers are local variables.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

from tpack.compat.operations import place_in_task
from tpack.errors import ConfigError, GraphBuildError, TowerMismatchError
from tpack.multi_worker.all_reduce import Exchange
from tpack.multi_worker.tables.rows import (
    RowLookUp,
    RowShardedVariable,
    TableSpec,
    checked_ids,
    joined_rows,
    num_rows_of,
)
from tpack.multi_worker.worker_group import WorkerGroup
from tpack.reduction.sums import on_device
from tpack.tfutils.gradproc import CheckGradient, FilterNoneGrad, PrintGradient, ScaleGradient
from tpack.tfutils.optimizer import GradientProcessorOptimizer
from tpack.tower.collections import TRAINED_TENSORS_KEY
from tpack.tower.context import TowerContext, current_tower_context, get_current_tower_context
from tpack.tower.getters import current_compute_dtype
from tpack.tower.grads import Gradient, ReduceOp
from tpack.tower.per_graph import PerGraph
from tpack.types import GradsAndVars
from tpack.utils import logger
from tpack.utils.lazy import LazyModule
from tpack.utils.validation import check_arguments, check_count, check_text, mismatch, shown

_weight_decay = LazyModule("tpack.optimizers.weight_decay")

_NAME = "sharded_embedding"
_DTYPES = (tf.float32, tf.float64)
_FIRST_VALUES = 0.05
_BY_ROW = (
    tf.train.GradientDescentOptimizer,
    tf.train.MomentumOptimizer,
    tf.train.AdagradOptimizer,
    tf.train.AdadeltaOptimizer,
    tf.train.AdamOptimizer,
    tf.train.FtrlOptimizer,
    tf.train.ProximalAdagradOptimizer,
    tf.train.ProximalGradientDescentOptimizer,
    tf.train.RMSPropOptimizer,
)
"""Optimizers that update each number by itself, so that a part of a variable is updated as in the whole."""
_PROCESSORS_BY_ROW = (CheckGradient, FilterNoneGrad, PrintGradient, ScaleGradient)


@check_arguments
def sharded_embedding(
    name: str, ids: Any, rows: int, width: int, *, initializer: Any = None, dtype: tf.DType | str = tf.float32
) -> tf.Tensor:
    """Return the rows of a table for ids, in ``build_graph`` of a model.

    In several workers of `MultiWorkerTrainerReplicated` each has every W-th row and its slots alone. In any other
    trainer, in one process, and for a predictor in a graph of its own, it is an ordinary variable of the same name, and
    checkpoints are the same. A second call with one name looks rows up in the same table; one call with all ids sends
    less.

    Args:
        name: that of the variable, inside the current variable scope.
        ids: of any shape, int32 or int64, from 0 to ``rows - 1``.
        rows: the number of rows, at least that of the workers.
        width: the numbers of a row.
        initializer: called with a shape and ``dtype=``, for the rows of each worker by themselves; or an array of all
            rows. None draws from -0.05 to 0.05.
        dtype: float32 or float64.

    Shapes:
        ``ids.shape`` in, ``[*ids.shape, width]`` out.

    Creates:
        The table.

    Raises:
        ConfigError: An argument is out of range, or cannot go together with the trainer's.
        TowerMismatchError: The towers look up in different tables, or prediction in one that training has not.
        GraphBuildError: The optimizer or a gradient processor needs more than the rows of one worker.

    Example:
        vectors = sharded_embedding("users", user_ids, rows=10_000_000, width=64)

    Source:
        Embedding tables by model parallelism, as in TorchRec and HugeCTR.
    """
    tensor = _ids_of(ids)
    spec = _spec_of(name, rows, width, dtype)
    initial = _Initial.of(spec, initializer)
    tables, tower = tables_here(), get_current_tower_context()
    if tables is None:
        return _ordinary(name, spec, tensor, initial)
    if tower is None or not tower.is_training:
        return tables.read(spec, tensor)
    return tables.look_up(tower, spec, tensor, initial)


def _spec_of(name: str, rows: int, width: int, dtype: tf.DType | str) -> TableSpec:
    check_text(_NAME, "name", name)
    check_count(_NAME, "rows", rows)
    check_count(_NAME, "width", width)
    try:
        wanted = tf.as_dtype(dtype).base_dtype
    except TypeError:
        wanted = None
    if wanted not in _DTYPES:
        raise ConfigError(mismatch(_NAME, "dtype", getattr(dtype, "name", dtype), "float32 or float64"))
    scope, tower = tf.get_variable_scope().name, get_current_tower_context()
    prefix = f"{tower.vs_name}/" if tower is not None and tower.vs_name else ""
    inside = f"{scope}/{name}" if scope else name
    return TableSpec(inside.removeprefix(prefix), int(rows), int(width), wanted)


@dataclass(frozen=True)
class _Initial:
    """The first values of a table, or of every so many rows of it."""

    spec: TableSpec
    values: Any

    @staticmethod
    def of(spec: TableSpec, initializer: Any) -> "_Initial":
        if initializer is None:
            initializer = tf.random_uniform_initializer(-_FIRST_VALUES, _FIRST_VALUES)
        if not callable(initializer):
            is_array = isinstance(initializer, np.ndarray | list | tuple)
            if not is_array or np.shape(initializer) != (spec.rows, spec.width):
                wanted = f"an array of shape ({spec.rows}, {spec.width}), a function of a shape and dtype=, or None"
                raise ConfigError(mismatch(_NAME, "initializer", initializer, wanted))
            initializer = np.asarray(initializer, spec.dtype.as_numpy_dtype)
        return _Initial(spec, initializer)

    def of_rows(self, first: int = 0, step: int = 1) -> Callable[..., tf.Tensor]:
        """Return a function of a shape and dtype for ``tf.get_variable``."""

        def initial(shape: Sequence[int], dtype: tf.DType) -> tf.Tensor:
            if callable(self.values):
                return self.values(shape, dtype=dtype)
            return tf.constant(self.values[first::step], dtype)

        return initial


def _ids_of(ids: Any) -> tf.Tensor:
    is_array = isinstance(ids, tf.Tensor | np.ndarray | np.generic | int | list | tuple)
    tensor = tf.convert_to_tensor(ids) if is_array else None
    if tensor is None or tensor.dtype.base_dtype not in (tf.int32, tf.int64):
        raise ConfigError(mismatch(_NAME, "ids", ids, "a tensor of int32 or int64", "tf.cast, or the values of others"))
    return tensor


def _ordinary(name: str, spec: TableSpec, ids: tf.Tensor, initial: _Initial) -> tf.Tensor:
    """Return rows of a variable of this graph."""
    scope = tf.get_variable_scope()
    # A second look-up in one tower is in the same table.
    with tf.variable_scope(scope, reuse=scope.reuse or tf.AUTO_REUSE, auxiliary_name_scope=False):
        table = tf.get_variable(name, [spec.rows, spec.width], spec.dtype, initial.of_rows())
    return tf.gather(table, checked_ids(spec, ids))


class EmbeddingTables:
    """The tables of the graph of one of several workers.

    Args:
        group: the workers.
        exchange: its ``wire_dtype`` is for gradients of rows.
        op: sum or mean over the towers of all workers.
        refused_with: the option with which there can be no table; empty for none.

    Attributes:
        variables: the tables and their slots, each as one.
    """

    def __init__(self, group: WorkerGroup, exchange: Exchange, op: ReduceOp, refused_with: str = "") -> None:
        self.variables: list[RowShardedVariable] = []
        self._group, self._exchange, self._op, self._refused_with = group, exchange, op, refused_with
        self._parts: dict[str, tuple[TableSpec, tf.Variable]] = {}
        self._lookups: list[RowLookUp] = []
        self._grads: dict[int, dict[str, Gradient]] = {}

    def look_up(self, tower: TowerContext, spec: TableSpec, ids: tf.Tensor, initial: _Initial) -> tf.Tensor:
        """Return rows in a training tower, which all towers of all workers look up together.

        Raises:
            ConfigError: An option of the trainer cannot go together with tables.
        """
        if self._refused_with:
            raise ConfigError(
                f"sharded_embedding got name={spec.name!r} with {self._refused_with}: expected a trainer without it in "
                "several workers; use one of the two, or tf.get_variable for a table in each tower"
            )
        part, lookup = tower.merge_call(self._merged, ids, spec, initial)
        rows = _shaped(part, ids)
        lookup.outputs[tower.index] = rows
        tf.add_to_collection(TRAINED_TENSORS_KEY, rows)
        return _in_compute_dtype(rows)

    def read(self, spec: TableSpec, ids: tf.Tensor) -> tf.Tensor:
        """Return rows for prediction, read where they are: the other workers need not step.

        Raises:
            TowerMismatchError: Training has no such table.
        """
        known = {variable.op.name: variable for variable in self.variables}
        if spec.name not in self._parts or spec.name not in known:
            raise TowerMismatchError(
                f"sharded_embedding got name={spec.name!r} for prediction: expected a table that training has, one of "
                f"{shown(list(self._parts))}"
            )
        self._check_same(spec)
        flat = tf.reshape(checked_ids(spec, ids), [-1])
        return _in_compute_dtype(_shaped(known[spec.name].sparse_read(flat), ids))

    def without_rows(self, grad_fn: Callable[[], GradsAndVars]) -> Callable[[], GradsAndVars]:
        """Return a function that builds a tower and keeps the gradients of its rows back."""

        def of_variables() -> GradsAndVars:
            pairs = list(grad_fn())
            rows = {variable.name: grad for grad, variable in pairs if isinstance(variable, tf.Tensor)}
            self._grads[current_tower_context().index] = rows
            return [(grad, variable) for grad, variable in pairs if not isinstance(variable, tf.Tensor)]

        return of_variables

    def exchange_gradients(self, optimizer: tf.train.Optimizer) -> tuple[GradsAndVars, list[Gradient]]:
        """Send the gradients of rows to their owners, when the towers are built.

        Returns:
            Pairs of a gradient and a variable for this worker's parts, and the gradients of this worker itself.

        Raises:
            TowerMismatchError: Some towers alone have a gradient.
            GraphBuildError: The optimizer cannot update a part of the rows as it would in the whole.
        """
        found: dict[str, list[tf.IndexedSlices]] = {}
        own: list[Gradient] = []
        for lookup in self._lookups:
            grads = [self._grads[k].get(rows.name) for k, rows in sorted(lookup.outputs.items())]
            if all(grad is None for grad in grads):
                which = f"look-up {lookup.number + 1} in {lookup.spec.name!r}"
                logger.warning(f"The cost does not depend on {which}, which changes no rows.")
                continue
            if any(grad is None for grad in grads):
                raise TowerMismatchError(
                    f"sharded_embedding got a cost that depends on {lookup.spec.name!r} in some towers: expected it "
                    "in all or none"
                )
            check_updates_by_row(optimizer, lookup.spec.name)
            summed, of_all = lookup.exchange_gradients(grads, self._exchange)
            own.append(summed)
            found.setdefault(lookup.spec.name, []).append(of_all)
        pairs = []
        for name, slices in found.items():
            spec, part = self._parts[name]
            divisor = self._op.divisor(self._group.size * len(self._grads))
            served = [each for lookup in self._lookups if lookup.spec == spec for each in lookup.served]
            with tf.control_dependencies(served):
                pairs.append((joined_rows(self._group, slices, part.shape.as_list(), divisor), part))
        return pairs, own

    def applied(self, update: tf.Operation, others: Sequence[tf.Variable]) -> tf.Operation:
        """Divide the slots that an update made, and return the update with its end in all workers.

        Args:
            update: the update of the towers, of the main one with the pairs of `exchange_gradients`.
            others: the global variables before it.

        Raises:
            GraphBuildError: A slot does not have the rows of its table.
        """
        if not self._lookups:
            return update
        group, known = self._group, {id(variable) for variable in others}
        made = [variable for variable in tf.global_variables() if id(variable) not in known]
        for spec, part in self._parts.values():
            slots = [variable for variable in made if variable.op.name.startswith(f"{spec.name}/")]
            for slot in slots:
                if slot.shape[:1] != part.shape[:1]:
                    raise GraphBuildError(
                        f"sharded_embedding got a slot {slot.op.name} of shape {slot.shape} for {spec}: expected one "
                        "of as many rows; use another optimizer"
                    )
            own = f"loc:@{part.op.name}".encode()
            # Slots, and counters that the optimizer keeps beside its first variable.
            beside = {
                v.op.name: v.op
                for v in made
                if v.op.name.startswith(f"{spec.name}/") or own in v.op.colocation_groups()
            }
            place_in_task([part.op, *beside.values()], group.tasks[group.rank], group.run)
            _make_local(slots)
            self.variables += [RowShardedVariable(group, variable, spec.rows) for variable in (part, *slots)]
            tf.add_to_collection(tf.GraphKeys.MODEL_VARIABLES, self.variables[-1 - len(slots)])
        tf.get_collection_ref(tf.GraphKeys.GLOBAL_VARIABLES).extend(self.variables)
        with tf.name_scope("wait_for_owners"), tf.control_dependencies([update]):
            with on_device(group.device()):
                done = tf.identity(tf.zeros([], tf.int8))
            sends = [group.put("tables/updated", o, [done]) for o in group.others]
        waits = [tensor for o in group.others for tensor in group.take("tables/updated", o, [tf.int8], [[]])]
        # Also of look-ups that the cost does not depend on, since others wait for them.
        served = [each for lookup in self._lookups for each in lookup.served]
        return tf.group(update, *served, *sends, *waits, name="train_op")

    def _merged(
        self, ids: Sequence[tf.Tensor], specs: Sequence[TableSpec], initials: Sequence[_Initial]
    ) -> tuple[list[tf.Tensor], list["RowLookUp"]]:
        spec = specs[0]
        other = next((each for each in specs if each != spec), None)
        if other is not None:
            raise TowerMismatchError(f"sharded_embedding got {other} in one tower: expected {spec}, as in the first")
        if spec.name in self._parts:
            self._check_same(spec)
        else:
            self._parts[spec.name] = spec, self._make_part(spec, initials[0])
        number = sum(lookup.spec.name == spec.name for lookup in self._lookups)
        lookup = RowLookUp(self._group, spec, self._parts[spec.name][1], number)
        self._lookups.append(lookup)
        with tf.name_scope(f"look_up/{spec.name}"):
            return lookup.rows_for(ids), [lookup] * len(ids)

    def _check_same(self, spec: TableSpec) -> None:
        known, _ = self._parts[spec.name]
        if known != spec:
            raise ConfigError(f"sharded_embedding got {spec}: expected {known}, as an earlier call; use another name")

    def _make_part(self, spec: TableSpec, initial: _Initial) -> tf.Variable:
        group = self._group
        if spec.rows < group.size:
            raise ConfigError(
                mismatch(_NAME, "rows", spec.rows, f"at least one for each of {group.size} workers", "tf.get_variable")
            )
        shape = [num_rows_of(group.rank, spec.rows, group.size), spec.width]
        initial_rows = initial.of_rows(group.rank, group.size)
        with on_device("/device:CPU:0"):
            part = tf.Variable(
                lambda: initial_rows(shape, spec.dtype),
                trainable=False,
                name=spec.name,
                shape=shape,
                use_resource=True,
                collections=[tf.GraphKeys.LOCAL_VARIABLES],
            )
        if part.op.name != spec.name:
            raise ConfigError(f"sharded_embedding got name={spec.name!r}: expected one that the graph does not have")
        logger.info(f"Table {spec} is dealt out over {group.size} workers: {shape[0]} rows are here.")
        return part


_tables: PerGraph[list[EmbeddingTables]] = PerGraph(list)


def begin_tables(
    group: WorkerGroup, exchange: Exchange | None, op: ReduceOp = ReduceOp.MEAN, *, refused_with: str = ""
) -> EmbeddingTables:
    """Let `sharded_embedding` deal rows out in the current graph, if there are several workers."""
    tables = EmbeddingTables(group, exchange or Exchange(), op, refused_with)
    if group.size > 1:
        _tables.here().append(tables)
    return tables


def tables_here() -> EmbeddingTables | None:
    """Return the tables of the current graph; None where a table is an ordinary variable."""
    known = _tables.here()
    return known[-1] if known else None


def _shaped(rows: tf.Tensor, ids: tf.Tensor) -> tf.Tensor:
    """Return rows [N, width] in the shape of their ids, [*ids.shape, width]."""
    shaped = tf.reshape(rows, tf.concat([tf.shape(ids), [int(rows.shape[1])]], axis=0), name="rows")
    shaped.set_shape(ids.shape.concatenate(rows.shape[1:]))
    return shaped


def _in_compute_dtype(rows: tf.Tensor) -> tf.Tensor:
    dtype = current_compute_dtype()
    return rows if dtype is None or rows.dtype != tf.float32 else tf.cast(rows, dtype)


def _make_local(variables: Sequence[tf.Variable]) -> None:
    moved = {id(variable) for variable in variables}
    collection = tf.get_collection_ref(tf.GraphKeys.GLOBAL_VARIABLES)
    collection[:] = [variable for variable in collection if id(variable) not in moved]
    tf.get_collection_ref(tf.GraphKeys.LOCAL_VARIABLES).extend(variables)


def check_updates_by_row(optimizer: tf.train.Optimizer, name: str) -> None:
    """Check that an optimizer updates some rows of a variable as it would among all, and looks at nothing else.

    Raises:
        GraphBuildError: It is not known to do so.
    """
    inner = optimizer
    while type(inner) is GradientProcessorOptimizer:
        others = [each for each in inner._gradprocs if type(each) not in _PROCESSORS_BY_ROW]
        if others:
            raise GraphBuildError(
                f"sharded_embedding got name={name!r} and the optimizer's {type(others[0]).__name__}: expected only "
                f"{', '.join(each.__name__ for each in _PROCESSORS_BY_ROW)}, since no worker has all gradients of a "
                "table; use them in one process, or tf.get_variable"
            )
        inner = inner._opt
    by_row = (*_BY_ROW, _weight_decay.AdamW, _weight_decay.Lion)
    if type(inner) not in by_row:
        raise GraphBuildError(
            f"sharded_embedding got name={name!r} and the optimizer {type(inner).__name__}: expected one that updates "
            f"each number by itself, {', '.join(each.__name__ for each in by_row)}; use one of them, or tf.get_variable"
        )
