"""``DistributedOptimizer``: an optimizer whose gradients are reduced over all workers before they are applied."""

import dataclasses
import warnings
from collections.abc import Sequence
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError, GraphBuildError
from tpack.horovod.collective import Call, begin
from tpack.horovod.compression import Compression
from tpack.horovod.operations import Adasum, Average, ReduceOperation, Sum
from tpack.horovod.process_sets import ProcessSet, global_process_set
from tpack.horovod.reductions import reduce_operation
from tpack.multi_worker.all_reduce import Exchange, all_reduce_between_workers
from tpack.reduction.sums import dense_slices, on_device_of
from tpack.tfutils.gradproc import Grads
from tpack.tfutils.optimizer import ProxyOptimizer
from tpack.tfutils.predicated import Gate
from tpack.tower.grads import Gradient, ReduceOp, is_sparse
from tpack.types import GradsAndVars
from tpack.utils.validation import check_arguments, check_count, check_number, mismatch


@check_arguments
class DistributedOptimizer(ProxyOptimizer):
    """An optimizer that reduces its gradients over all workers, and applies what all of them have.

    Gradients go the way of `MultiWorkerTrainerReplicated`: in buckets, added in the order of the ranks, so that the
    weights of all workers stay equal bit by bit.

    Args:
        optimizer: the optimizer.
        name: the name of its operations; None is "Distributed" and the type of the optimizer.
        use_locking: without a meaning: the optimizer itself has it.
        device_dense: the device of what is computed of dense gradients.
        device_sparse: the same for ``IndexedSlices``.
        compression: ``Compression.none``, ``Compression.fp16``, an own `Compressor`, or an `Exchange`, such as
            ``tpack.make_exchange("int8")``.
        sparse_as_dense: ``IndexedSlices`` are added to dense gradients before they travel.
        backward_passes_per_step: gradients are summed for so many steps, then reduced and applied once.
        op: ``Average``, ``Sum`` or ``Adasum``.
        gradient_predivide_factor: the mean is divided by it before the sum, and by the rest after it.
        average_aggregated_gradients: the sum of ``backward_passes_per_step`` steps is divided by their number.
        num_groups: older name of ``groups``.
        groups: the number of groups in which gradients travel, or lists of variables; None lets their sizes decide.
        process_set: the workers that take part.
        scale_local_gradients: without a meaning here: no gradient stays local.

    Raises:
        ConfigError: A number is out of range, or options exclude each other.
        GraphBuildError: ``optimizer`` is not a ``tf.train.Optimizer``.

    Example:
        optimizer = hvd.DistributedOptimizer(tf.train.AdamOptimizer(1e-3 * hvd.size()))
    """

    def __init__(
        self,
        optimizer: Any,
        name: str | None = None,
        use_locking: bool = False,
        device_dense: str = "",
        device_sparse: str = "",
        compression: Any = Compression.none,
        sparse_as_dense: bool = False,
        backward_passes_per_step: int = 1,
        op: ReduceOperation = Average,
        gradient_predivide_factor: float = 1.0,
        average_aggregated_gradients: bool = False,
        num_groups: int = 0,
        groups: int | Sequence[Sequence[tf.Variable]] | None = None,
        process_set: ProcessSet = global_process_set,
        scale_local_gradients: bool = True,
    ) -> None:
        if not isinstance(optimizer, tf.train.Optimizer):
            raise GraphBuildError(
                mismatch(
                    self,
                    "optimizer",
                    optimizer,
                    "a tf.compat.v1.train.Optimizer",
                    "tpack.keras.fit for a model of Keras 3, which has no graph mode",
                )
            )
        super().__init__(optimizer, name or f"Distributed{type(optimizer).__name__}")
        self._op = reduce_operation(op, None)
        if self._op not in (Average, Sum, Adasum):
            raise ConfigError(mismatch(self, "op", op, "hvd.Average, hvd.Sum or hvd.Adasum"))
        self._passes = check_count(self, "backward_passes_per_step", backward_passes_per_step)
        self._predivide = check_number(
            self, "gradient_predivide_factor", gradient_predivide_factor, 0, is_low_allowed=False
        )
        if self._predivide != 1.0 and self._op is not Average:
            raise ConfigError(f"{type(self).__name__} got gradient_predivide_factor and op={op}: expected op=Average")
        if self._op is Adasum and average_aggregated_gradients:
            raise ConfigError(f"{type(self).__name__} got average_aggregated_gradients and op=Adasum: expected False")
        if not isinstance(compression, Exchange) and not hasattr(compression, "compress"):
            expected = "hvd.Compression.none, hvd.Compression.fp16, a Compressor or an Exchange"
            raise ConfigError(mismatch(self, "compression", compression, expected, 'tpack.make_exchange("int8")'))
        self._compression = compression
        self._is_dense = sparse_as_dense
        self._averages_passes = average_aggregated_gradients
        self._devices = device_dense, device_sparse
        self._process_set = process_set
        check_count(self, "num_groups", num_groups, 0)
        self._groups = groups if groups is not None else num_groups or None
        if isinstance(self._groups, int):
            check_count(self, "groups", self._groups)
        self._gate: Gate | None = None
        self.has_reduced = False

    @property
    def _optimizer(self) -> tf.train.Optimizer:
        """The inner optimizer, under Horovod's name."""
        return self._opt

    def compute_gradients(self, *args: Any, **kwargs: Any) -> Grads:
        """Return the (gradient, variable) pairs of the inner optimizer, reduced over all workers.

        Creates:
            With ``backward_passes_per_step``, a local variable for the sum of each gradient, and a counter.

        Raises:
            ConfigError: A gradient is ``IndexedSlices``, and steps are summed.
        """
        pairs = list(super().compute_gradients(*args, **kwargs))
        self.has_reduced = True
        present = [(gradient, variable) for gradient, variable in pairs if gradient is not None]
        if not present:
            return pairs
        if self._is_dense:
            present = [(_dense(gradient, variable), variable) for gradient, variable in present]
        for gradient, variable in present:
            if not is_sparse(gradient):
                gradient.set_shape(variable.shape)
        about = f"{_about(present)}; {self._told}"
        call = begin("gradients", None, f"{self._name}_Allreduce", self._process_set, about)
        with tf.name_scope(f"{call.name}/"):
            reduced = self._summed(call, present) if self._passes > 1 else self._reduce(call, present)
        of_variable = {id(variable): gradient for gradient, variable in zip(reduced, _variables(present), strict=True)}
        return [(gradient if gradient is None else of_variable[id(variable)], variable) for gradient, variable in pairs]

    def apply_gradients(self, grads_and_vars: Any, global_step: Any = None, name: str | None = None) -> tf.Operation:
        """Return the operation of the inner optimizer; between two reductions it only counts the step."""
        pairs = list(grads_and_vars)
        if not self.has_reduced:
            warnings.warn(
                f"{type(self).__name__}.apply_gradients got gradients that compute_gradients did not make, such as "
                "those of tf.gradients: nothing is exchanged between the workers. Use compute_gradients, or "
                "hvd.allreduce for each gradient",
                stacklevel=2,
            )
        if self._gate is None:
            return super().apply_gradients(pairs, global_step, name)
        with self._gate.behind():
            applied = self._opt.apply_gradients(pairs)
        done = self._gate.wait_for([applied])
        with tf.control_dependencies([done]):
            if global_step is None:
                return tf.no_op(name or self._name)
            return global_step.assign_add(1, read_value=False, name=name)

    def _reduce(self, call: Call, pairs: GradsAndVars) -> list[Gradient]:
        """Reduce gradients as one operation."""
        if call.group.size == 1:
            return [gradient for gradient, _ in pairs]
        sent, contexts = [], []
        for gradient, _ in pairs:
            compressed, context = self._compressed(gradient)
            sent.append(compressed)
            contexts.append(context)
        reduced: dict[int, Gradient] = {}
        for number, members in enumerate(self._grouped(pairs)):
            results = all_reduce_between_workers(
                call.group,
                [self._scaled(sent[n], 1 / self._predivide) for n in members],
                ReduceOp.SUM if self._op is Sum or self._predivide != 1.0 else ReduceOp.MEAN,
                name=f"{call.queue}/{number}",
                exchange=self._exchange([pairs[n][1].op.name for n in members]),
            )
            factor = self._predivide / call.group.size if self._predivide != 1.0 else 1.0
            reduced |= {n: self._scaled(result, factor) for n, result in zip(members, results, strict=True)}
        whole = [self._decompressed(reduced[n], context) for n, context in enumerate(contexts)]
        # Of several passes only this worker knows when they are over, so a worker that has joined cannot take part.
        flat = call.done(_flat(whole), _flat(sent) if self._passes == 1 else ())
        return [
            tf.IndexedSlices(flat.pop(0), flat.pop(0), each.dense_shape) if is_sparse(each) else flat.pop(0)
            for each in whole
        ]

    def _exchange(self, names: list[str]) -> Exchange:
        how = Exchange(wire_dtype="float16") if self._compression is Compression.fp16 else None
        if how is None and isinstance(self._compression, Exchange):
            how = self._compression
        how = how or Exchange()
        changes: dict[str, Any] = {"names": names}
        if self._op is Adasum:
            changes["op"] = "adasum"
        return dataclasses.replace(how, **changes)

    @property
    def _told(self) -> str:
        """The options that must be the same in all workers."""
        compression = self._compression
        named = compression.__name__ if isinstance(compression, type) else repr(compression)
        groups = self._groups if self._groups is None or isinstance(self._groups, int) else len(self._groups)
        return f"{self._op}, {named}, {self._predivide}, {self._passes} passes, {groups} groups"

    @property
    def _has_own_compression(self) -> bool:
        is_ours = self._compression in (Compression.none, Compression.fp16)
        return not is_ours and not isinstance(self._compression, Exchange)

    def _compressed(self, gradient: Gradient) -> tuple[Gradient, Any]:
        if not self._has_own_compression or is_sparse(gradient):
            return gradient, None
        with tf.device(self._devices[0]):
            compressed: tuple[Gradient, Any] = self._compression.compress(gradient)
            return compressed

    def _decompressed(self, gradient: Gradient, context: Any) -> Gradient:
        if not self._has_own_compression or is_sparse(gradient):
            return gradient
        with tf.device(self._devices[0]):
            return self._compression.decompress(gradient, context)

    @staticmethod
    def _scaled(gradient: Gradient, factor: float) -> Gradient:
        if factor == 1.0:
            return gradient
        if is_sparse(gradient):
            return tf.IndexedSlices(gradient.values * factor, gradient.indices, gradient.dense_shape)
        return gradient * factor

    def _grouped(self, pairs: GradsAndVars) -> list[list[int]]:
        """Return the indices of the gradients of each group."""
        every = list(range(len(pairs)))
        if self._groups is None:
            return [every]
        if isinstance(self._groups, int):
            count = min(self._groups, len(every))
            return [every[len(every) * n // count : len(every) * (n + 1) // count] for n in range(count)]
        place = {id(variable): n for n, (_, variable) in enumerate(pairs)}
        groups = [[place[id(each)] for each in group if id(each) in place] for group in self._groups]
        listed = {n for group in groups for n in group}
        return [group for group in groups if group] + [[n] for n in every if n not in listed]

    # Several steps for one reduction.

    def _summed(self, call: Call, pairs: GradsAndVars) -> list[Gradient]:
        """Add gradients to sums, and reduce these in each last step of several."""
        sparse = [variable.op.name for gradient, variable in pairs if is_sparse(gradient)]
        if sparse:
            raise ConfigError(
                f"{type(self).__name__} got backward_passes_per_step={self._passes} and sparse gradients of "
                f"{', '.join(sparse[:5])}: expected dense ones; use sparse_as_dense=True"
            )
        with tf.init_scope(), tf.variable_scope(tf.get_variable_scope(), reuse=False):
            sums = [_local(f"{variable.op.name}_sum", variable.shape, gradient.dtype) for gradient, variable in pairs]
            counter = _local("passes", tf.TensorShape([]), tf.int64)
        totals = [total.assign_add(gradient) for total, (gradient, _) in zip(sums, pairs, strict=True)]
        with tf.control_dependencies(totals):
            own = [tf.identity(total) for total in totals]
        with tf.control_dependencies(own):
            is_last = tf.greater_equal(tf.identity(counter.assign_add(1)), self._passes)
        self._gate = Gate(is_last)
        with self._gate.behind():
            divisor = self._passes if self._averages_passes else 1
            complete = [tf.identity(total) / divisor if divisor > 1 else tf.identity(total) for total in own]
            variables = _variables(pairs)
            reduced = self._reduce(call, list(zip(complete, variables, strict=True)))
            with tf.control_dependencies(complete):
                resets = [total.assign(tf.zeros_like(total), read_value=False) for total in sums]
                resets.append(counter.assign(tf.zeros_like(counter), read_value=False))
            with tf.control_dependencies(resets):
                reduced = [tf.identity(each) for each in reduced]
        return [self._gate.either(each, otherwise) for each, otherwise in zip(reduced, own, strict=True)]


def _dense(gradient: Gradient, variable: tf.Variable) -> tf.Tensor:
    if not is_sparse(gradient):
        return gradient
    with on_device_of(gradient.values):
        return dense_slices(gradient, variable.shape)


def _variables(pairs: GradsAndVars) -> list[tf.Variable]:
    return [variable for _, variable in pairs]


def _about(pairs: GradsAndVars) -> str:
    return "; ".join(
        f"{variable.op.name} {gradient.dtype.base_dtype.name} {'rows of ' if is_sparse(gradient) else ''}"
        f"{variable.shape}"
        for gradient, variable in pairs
    )


def _flat(gradients: Sequence[Gradient]) -> list[tf.Tensor]:
    return [part for each in gradients for part in ([each.values, each.indices] if is_sparse(each) else [each])]


def _local(name: str, shape: tf.TensorShape, dtype: tf.DType) -> tf.Variable:
    return tf.get_variable(
        tf.get_default_graph().unique_name(f"horovod/{name}"),
        shape,
        dtype.base_dtype,
        tf.zeros_initializer(),
        trainable=False,
        collections=[tf.GraphKeys.LOCAL_VARIABLES],
        use_resource=True,
    )
