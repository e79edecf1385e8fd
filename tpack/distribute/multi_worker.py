"""Strategies over several workers, each of which has a graph and towers of its own.

Inside a worker, values are reduced as on one machine. The results are exchanged with the other workers, and copied to
their destinations: each number crosses the network twice, whatever the number of towers of a worker.
"""

import dataclasses
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.compat.graphs import BaseVariable
from tpack.distribute.cross_tower_ops import CrossTowerOps, ValueDestinationPairs, get_devices_from
from tpack.distribute.strategy import DistributionStrategy
from tpack.distribute.values import Aggregation, Destinations, DistributedValues, Mirrored, reduce_op_of
from tpack.distribute.variables.distributed import DistributedVariable
from tpack.errors import ConfigError
from tpack.multi_worker.all_reduce import Exchange, all_reduce_between_workers
from tpack.multi_worker.cluster.cluster_spec import ClusterMember
from tpack.multi_worker.worker_group import WorkerGroup
from tpack.tower.per_graph import PerGraph
from tpack.utils.tf_config import ClusterTask
from tpack.utils.validation import check_arguments, check_count, check_text, mismatch, shown


@check_arguments
class WorkersCrossTowerOps(CrossTowerOps):
    """Cross-tower operations that reduce inside this worker by other operations, and then over the workers.

    All workers build the same reductions in the same order, with the same number of towers, and run the same of them in
    each step: a worker waits in a reduction for all others.

    Args:
        inner: reduces inside a worker.
        group: the workers.
        exchange: the transport of values between workers; None means ``Exchange()``.

    Raises:
        ConfigError: The exchange has a codec, which is for gradients alone.
    """

    def __init__(self, inner: CrossTowerOps, group: WorkerGroup, exchange: Exchange | None = None) -> None:
        if exchange is not None and exchange.codec is not None:
            expected = "an exchange without a codec, since any values are reduced"
            use = "MultiWorkerTrainerReplicated(exchange=...), whose exchange is of gradients"
            raise ConfigError(mismatch(self, "exchange", exchange, expected, use))
        self._inner = inner
        self._group = group
        self._exchange = exchange
        # Workers know a reduction by its number, which is that of the other workers' graphs.
        self._numbers: PerGraph[list[int]] = PerGraph(lambda: [0])

    @property
    def inner(self) -> CrossTowerOps:
        """The operations that reduce inside a worker."""
        return self._inner

    def _reduce(
        self, aggregation: Aggregation, per_device_value: DistributedValues, destinations: Destinations
    ) -> Mirrored:
        return self._batch_reduce(aggregation, [(per_device_value, destinations)])[0]

    def _batch_reduce(self, aggregation: Aggregation, value_destination_pairs: ValueDestinationPairs) -> list[Mirrored]:
        pairs = list(value_destination_pairs)
        if not pairs:
            return []
        own = self._inner.batch_reduce(aggregation, pairs)
        # Gradients go to their variables; names of other destinations differ between graphs.
        named = [each if isinstance(each, DistributedVariable | BaseVariable) else None for _, each in pairs]
        names = ["" if variable is None else variable.op.name for variable in named]
        of_all = all_reduce_between_workers(
            self._group,
            [next(iter(value.index.values())) for value in own],
            reduce_op_of(aggregation),
            name=f"values{self._next_number()}",
            exchange=dataclasses.replace(self._exchange or Exchange(), names=names),
        )
        return [
            self.broadcast(value, get_devices_from(destinations))
            for value, (_, destinations) in zip(of_all, pairs, strict=True)
        ]

    def over_workers(self, value: tf.Tensor, aggregation: Aggregation) -> tf.Tensor:
        """Reduce a tensor of known shape over workers, on the worker's CPU; for the aggregation see `reduce`."""
        name = f"values{self._next_number()}"
        return all_reduce_between_workers(
            self._group, [value], reduce_op_of(aggregation), name=name, exchange=self._exchange
        )[0]

    def _next_number(self) -> int:
        number = self._numbers.here()
        number[0] += 1
        return number[0]


class MultiWorkerStrategy(DistributionStrategy):
    """Base of strategies that may have several workers, each with a graph of its own.

    A worker's own towers are those of its `worker_devices`. The cluster is configured before anything is built.
    """

    _member: ClusterMember | None = None

    def configure(
        self,
        session_config: tf.ConfigProto | None = None,
        cluster_spec: Any = None,
        task_type: str | None = None,
        task_id: int | None = None,
    ) -> None:
        """Adapt to a session, and join the workers of a cluster if there are several.

        Values are exchanged on the workers' servers under names that are the same each time: several trainings, one
        after the other on the same servers, call `join_workers` with different names instead.

        Args:
            session_config: the session's ``ConfigProto``.
            cluster_spec: a ``tf.train.ClusterSpec``, or {job: addresses}; None for one process.
            task_type: the job of this process.
            task_id: its number in the job.

        Raises:
            WrongTypeError: ``session_config`` is something else.
            ConfigError: The cluster has no such task, or it does not train.
        """
        super().configure(session_config)
        member = member_of(cluster_spec, task_type, task_id)
        if member is not None:
            self.join_workers(member, "configured")

    def join_workers(self, member: ClusterMember, run: str) -> None:
        """Join the workers of a training; called in all of them, before anything is built.

        Args:
            member: the place of this process.
            run: a name that all workers have, and no other training on their servers.

        Raises:
            ConfigError: The process does not train, or the towers are in tasks of a cluster already.
        """
        if member.rank is None:
            raise ConfigError(f"{type(self).__name__} got {member}: expected a process that trains")
        elsewhere = [device for device in self.worker_devices if tf.DeviceSpec.from_string(device).job is not None]
        if elsewhere:
            raise ConfigError(
                f"{type(self).__name__} has towers on {', '.join(elsewhere)}, and each worker builds its own: expected "
                "devices of this process, without job and task"
            )
        self._join(member, check_text(self, "run", run))
        self._member = member

    def _join(self, member: ClusterMember, run: str) -> None:
        raise NotImplementedError

    @property
    def num_workers(self) -> int:
        """W, the number of workers."""
        return 1 if self._member is None else self._member.num_workers

    @property
    def between_graph(self) -> bool:
        """Whether each worker builds a graph of its own: where there are several."""
        return self._member is not None

    @property
    def should_checkpoint(self) -> bool:
        """Whether this process writes checkpoints: the chief does."""
        return self._member is None or self._member.is_chief

    @property
    def should_save_summary(self) -> bool:
        """Whether this process writes summaries: the chief does."""
        return self.should_checkpoint


def member_of(cluster_spec: Any, task_type: str | None, task_id: int | None) -> ClusterMember | None:
    """Return the place of this process in a ``tf.train.ClusterSpec`` or {job: addresses}; None without other processes.

    Raises:
        ConfigError: There is a task and no cluster, or no such task in it.
    """
    if not cluster_spec:
        if task_type or task_id:
            raise ConfigError(
                f"configure got the task {shown(task_type)} {shown(task_id)} without cluster_spec: expected both"
            )
        return None
    jobs = cluster_spec if isinstance(cluster_spec, dict) else tf.train.ClusterSpec(cluster_spec).as_dict()
    task = ClusterTask(jobs, task_type or "", check_count("configure", "task_id", task_id, 0))
    if task.size == 1:
        return None
    cluster = {job: tuple(addresses) for job, addresses in task.cluster.items()}
    return ClusterMember(cluster, task.job, task.index, source="configure()")
