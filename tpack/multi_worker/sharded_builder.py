"""Builder of K replicas in each of W workers that divide the state of the optimizer: ZeRO's first stage.

Each trained variable has an owner: a tower of a worker, which alone has its slots. Gradients travel to the owners'
workers, and the new values back from there to all: the bytes of an all-reduce in parts. An optimizer that needs all
gradients at once, such as one that clips by their global norm, gets all sums, half as many bytes more.
"""

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.compat.operations import place_in_task
from tpack.errors import ConfigError, GraphBuildError
from tpack.graph_builder.base import BuildResult, GradFn, OptimizerFn, SyncOp
from tpack.graph_builder.replicated import build_replicas, copy_to_replicas
from tpack.graph_builder.sharded import OwnerUpdate, apply_by_owners, choose_owners
from tpack.multi_worker.all_reduce import Exchange, all_reduce_between_workers, send_rows, take_rows
from tpack.multi_worker.cluster.peers import Peers
from tpack.multi_worker.gradient_buckets import (
    creation_order,
    joined,
    note_exchanged,
    parted,
    plan_buckets,
    variables_change_in_place,
)
from tpack.multi_worker.replicated_builder import MultiWorkerReplicatedBuilder
from tpack.multi_worker.tables.embedding import begin_tables
from tpack.multi_worker.worker_group import WorkerGroup, statistics_exchanged
from tpack.reduction.gradients import merge_grad_list, split_grad_list, transposed
from tpack.reduction.sums import add_pair, copy_slices_to_each, copy_to_each, divide, on_device, widened
from tpack.tfutils.gradproc import GlobalNormClip, SummaryGradient
from tpack.tfutils.optimizer import GradientProcessorOptimizer, ProxyOptimizer
from tpack.tfutils.optimizer_clone import check_optimizer
from tpack.tfutils.sessinit import SessionInit
from tpack.tower.grads import Gradient, ReduceOp, is_sparse
from tpack.utils import logger


class MultiWorkerShardedBuilder(MultiWorkerReplicatedBuilder):
    """Builder of replicas in workers, each of which has the slots of its part of the variables alone.

    Arguments and errors are those of `MultiWorkerReplicatedBuilder`.

    Attributes:
        slots: those of this worker.
    """

    slots: Sequence[tf.Variable] = ()
    _sent: tf.Operation | None = None

    def build(self, grad_fn: GradFn, optimizer_fn: OptimizerFn) -> BuildResult:
        """Build the towers, the reduction to owners, their updates, and the copies of their results.

        Shapes:
            K x N gradients in, N between workers, N applied by all workers together.

        Creates:
            What `MultiWorkerReplicatedBuilder` does, but slots with the owners of their variables alone.

        Raises:
            ConfigError: There are fewer variables than workers, or the exchange has a codec or Adasum.
            TowerMismatchError: The towers created or trained different variables.
            GraphBuildError: The optimizer is not a ``tf.train.Optimizer``, or has variables of a kind that cannot be
                divided.
            ReductionError: The reducer or the exchange cannot serve these gradients.
        """
        group = self._group
        if group.size > 1 and self._exchange is not None and self._exchange.codec is not None:
            raise ConfigError(
                f"Exchange got codec={self._exchange.codec!r} with shard_optimizer=True: expected None, since weights "
                "travel back from their owners; use one of the two"
            )
        if group.size > 1 and self._exchange is not None and self._exchange.op is not None:
            raise ConfigError(
                f"Exchange got op={self._exchange.op!r} with shard_optimizer=True: expected None, since owners add "
                "gradients; use one of the two"
            )
        begin_tables(group, self._exchange, refused_with="shard_optimizer=True")
        with statistics_exchanged(self._group, getattr(self._exchange, "arrivals", None)):
            towers = build_replicas(grad_fn, self.devices, tower_building=self._tower_building, copies_are_set=True)
        optimizer = check_optimizer(optimizer_fn())
        _, variables = split_grad_list(towers.outputs)
        if len(variables[0]) < group.size:
            raise ConfigError(
                f"shard_optimizer got {len(variables[0])} trained variables: expected at least one for each of "
                f"{group.size} workers; use shard_optimizer=False"
            )
        names = [variable.op.name for variable in variables[0]]
        workers = choose_owners(variables[0], group.size)
        own = [n for n, worker in enumerate(workers) if worker == group.rank]
        tower_of = dict(zip(own, choose_owners([variables[0][n] for n in own], len(self.devices)), strict=True))
        is_divided = group.size > 1 and is_for_each_variable(optimizer)
        if group.size > 1 and not is_divided:
            logger.info(
                "Each worker gets all reduced gradients, since the optimizer may need all at once: the exchange takes "
                "half as many bytes more."
            )
        kept = own if is_divided else list(range(len(names)))

        def apply(grads: list[list[Gradient]]) -> tf.Operation:
            with tf.name_scope("reduce_gradients"):
                if is_divided:
                    of_own = self._reduce_to_owners(grads, names, workers)
                else:
                    of_own = dict(enumerate(transposed(self._reduce(grads, names))))
            tower_grads = transposed([of_own[n] for n in kept])
            update = apply_by_owners(
                towers.contexts,
                merge_grad_list(tower_grads, [[replica[n] for n in kept] for replica in variables]),
                optimizer,
                [tower_of.get(n) for n in kept],
                grads,
            )
            self.slots = update.slots
            copies = self._copy_from_owners(update, variables, workers, tower_of, creation_order(grads[0]))
            return tf.group(*update.ops, *copies, name="train_op")

        applied = self._applied(towers.outputs, apply)
        copying = copy_to_replicas(towers.contexts)
        sync_ops = (*applied.sync_ops, SyncOp(copying.op))
        return BuildResult(applied.train_op, towers.contexts, copying.op, sync_ops, copying.copies)

    def _reduce_to_owners(
        self, grads: list[list[Gradient]], names: Sequence[str], workers: Sequence[int]
    ) -> dict[int, list[Gradient]]:
        """Send each gradient to its owner's worker; return this worker's own sums, K for each."""
        group, how, op = self._group, self._exchange or Exchange(), self._op
        summed = self._reducer.reduce(grads, op)[0]
        self.own_gradients = list(summed)
        sends: list[tf.Operation] = []
        if self._stop_flag is not None:
            flag = dataclasses.replace(how, names=["the stop flag"])
            (total,) = all_reduce_between_workers(group, [self._stop_flag.build()], op, name="stop", exchange=flag)
            self._stop_flag.arrived(total, op, group.size)
        order = creation_order(grads[0])
        is_copied = variables_change_in_place(tf.get_default_graph())
        results: dict[int, Gradient] = {}
        for name, owner, bucket in owner_buckets(summed, order, workers, how.bucket_bytes):
            for n in bucket:
                note_exchanged(summed[n], names[n], name)
            if is_sparse(summed[bucket[0]]):
                (n,) = bucket
                if owner == group.rank:
                    results[n] = take_rows(group, how, op, f"{name}/rows", summed[n])
                else:
                    sends += send_rows(group, how, f"{name}/rows", summed[n], [owner])
                continue
            part = _vector_to_owner(group, how, op, name, owner, [summed[n] for n in bucket], is_copied=is_copied)
            sends += part.sends
            results |= dict(zip(bucket, part.results, strict=bool(part.results)))
        with tf.control_dependencies(sends):
            # Each of these runs in a step, and so do the sends.
            self._sent = tf.no_op(name="sent_to_owners")
        return {
            n: copy_slices_to_each(total, column) if is_sparse(total) else copy_to_each(total, column)
            for n, total in results.items()
            for column in [[replica[n] for replica in grads]]
        }

    def _copy_from_owners(
        self,
        update: OwnerUpdate,
        variables: Sequence[Sequence[tf.Variable]],
        workers: Sequence[int],
        tower_of: Mapping[int, int],
        order: Sequence[int],
    ) -> list[tf.Operation]:
        """Return the operations that hand the owners' new values to all workers and towers."""
        group, how = self._group, self._exchange or Exchange()
        done = [self._sent] if self._sent is not None else []
        with tf.name_scope("copy_from_owners"):
            for name, owner, bucket in owner_buckets([v for v in variables[0]], order, workers, how.bucket_bytes):
                if owner == group.rank:
                    values = []
                    for n in bucket:
                        variable = variables[tower_of[n]][n]
                        with on_device(variable.device), tf.control_dependencies([update.ops[tower_of[n]]]):
                            values.append(variable.read_value())
                    with on_device(group.device()):
                        vector = joined(values, is_copied=False)
                    done += [group.put(f"{name}/values", o, [vector]) for o in group.others]
                else:
                    likes = [variables[0][n] for n in bucket]
                    size = sum(int(like.shape.num_elements()) for like in likes)
                    shape = tf.TensorShape([size])
                    (vector,) = group.take(f"{name}/values", owner, [likes[0].dtype.base_dtype], [shape])
                    with on_device(group.device()):
                        values = parted(tf.identity(vector), likes)
                for n, value in zip(bucket, values, strict=True):
                    for k, replica in enumerate(variables):
                        if tower_of.get(n) == k:
                            continue
                        with on_device(replica[n].device), tf.control_dependencies([update.ops[k]]):
                            done.append(replica[n].assign(value, read_value=False))
        return done


def is_for_each_variable(optimizer: tf.train.Optimizer) -> bool:
    """Return whether an optimizer treats each gradient by itself, as far as tpack knows its parts."""
    if isinstance(optimizer, GradientProcessorOptimizer):
        of_tpack = all(type(each).__module__.startswith("tpack.") for each in optimizer._gradprocs)
        needs_all = any(isinstance(each, GlobalNormClip | SummaryGradient) for each in optimizer._gradprocs)
        return of_tpack and not needs_all and is_for_each_variable(optimizer._opt)
    if isinstance(optimizer, ProxyOptimizer):
        return False
    return type(optimizer).__module__.startswith(("tensorflow.", "tpack."))


@dataclasses.dataclass(frozen=True)
class _Part:
    """A bucket on its way: the results, in the owner's worker, and the operations that send."""

    results: Sequence[Gradient]
    sends: Sequence[tf.Operation]


def owner_buckets(
    tensors: Sequence[Any], order: Sequence[int], workers: Sequence[int], bucket_bytes: int
) -> list[tuple[str, int, list[int]]]:
    """Return (name, owner, indices) of each bucket, in the order in which they are ready."""
    found = []
    for owner in sorted(set(workers)):
        of_owner = [n for n in order if workers[n] == owner]
        dense = plan_buckets(tensors, of_owner, bucket_bytes)
        rows = [[n] for n in of_owner if is_sparse(tensors[n])]
        found += [(f"to_{owner}/{number}", owner, bucket) for number, bucket in enumerate([*dense, *rows])]
    place = {n: position for position, n in enumerate(order)}
    return sorted(found, key=lambda each: place[each[2][-1]])


def _vector_to_owner(
    group: WorkerGroup,
    how: Exchange,
    op: ReduceOp,
    name: str,
    owner: int,
    grads: Sequence[tf.Tensor],
    *,
    is_copied: bool,
) -> _Part:
    dtype = grads[0].dtype.base_dtype
    with on_device(group.device()):
        own = tf.cast(joined(grads, is_copied=is_copied), how.dtype_on_wire(dtype))
    if owner != group.rank:
        return _Part((), [group.put(f"{name}/sum", owner, [own])])
    summands = []
    for rank in range(group.size):
        summand = own if rank == group.rank else group.take(f"{name}/sum", rank, [own.dtype], [own.shape])[0]
        with on_device(group.device()):
            summands.append(widened(tf.identity(summand)))
    with on_device(group.device()):
        total = tf.cast(divide(functools.reduce(add_pair, summands), op.divisor(group.size)), dtype)
        return _Part(parted(total, grads), ())


def share_slots(group: WorkerGroup, peers: Peers, slots: Sequence[tf.Variable], *, is_chief: bool) -> "SlotsOfWorkers":
    """Make the slots of all workers variables of worker 0's graph too, which lie where they are; all call it.

    Graphs meet in a variable if its name, task and container are the same. So worker 0 saves and restores all slots
    under the names that they have on one machine, and holds its own alone.

    Raises:
        GraphBuildError: Two workers have slots of one name.
    """
    place_in_task([slot.op for slot in slots], group.tasks[group.rank], group.run)
    facts = [(slot.op.name, slot.dtype.base_dtype.name, slot.shape.as_list(), slot.op.device) for slot in slots]
    of_all = peers.gather("the slots of workers", facts)
    names = [name for facts in of_all for name, *_ in facts]
    if len(set(names)) < len(names):
        twice = sorted({name for name in names if names.count(name) > 1})
        raise GraphBuildError(f"shard_optimizer got slots of one name in two workers: {twice}; expected one owner")
    remote = []
    if is_chief:
        for name, dtype, shape, device in (fact for rank, facts in enumerate(of_all) if rank for fact in facts):
            with tf.device(device), tf.container(group.run):
                zeros = tf.zeros(shape, dtype)
                remote.append(tf.Variable(zeros, trainable=False, name=name, use_resource=True))
    return SlotsOfWorkers(frozenset(names), remote)


@dataclasses.dataclass(frozen=True)
class SlotsOfWorkers:
    """The slots that one worker has, and others have not.

    Attributes:
        names: those of all workers.
        remote: in worker 0, the variables that lie in other workers.
    """

    names: frozenset[str]
    remote: Sequence[tf.Variable]


class AfterInitialValues(SessionInit):
    """Initial values of a worker, restored when all workers' variables are initialised.

    Args:
        peers: the workers.
        inner: what worker 0 restores; None elsewhere.
    """

    def __init__(self, peers: Peers, inner: SessionInit | None) -> None:
        self._peers = peers
        self._inner = inner

    def init(self, sess: tf.Session) -> None:
        """Wait for all, then restore."""
        self._peers.barrier("the initial values of slots")
        if self._inner is not None:
            self._inner.init(sess)
